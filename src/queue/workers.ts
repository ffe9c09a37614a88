/** The workers that are known to the database, and what somebody wants of them. */
import { checkKnown, checkText, checkWhole } from "../core/check.ts";
import { InvalidArgument } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import { checkName } from "../core/name.ts";
import type { Runtime } from "../core/runtime.ts";
import { isKnownVersion } from "../core/version.ts";
import type { Wish } from "../core/worker-state.ts";
import type { Command, WorkerRecord } from "../store/registry.ts";
import type { Store } from "../store/store.ts";

const LIST_OPTIONS = new Set(["type", "all", "limit"]);
const COMMAND_OPTIONS = new Set(["actor"]);
const LIMIT_MAX = 1_000;
const LIMIT_DEFAULT = 100;

export interface WorkersFilter {
  /** Only workers of this name. */
  readonly type?: string;
  /** Also those that stopped. */
  readonly all?: boolean;
  readonly limit?: number;
}

/** One worker by its id, all of a name, or all there are. */
export type WorkerTarget = { readonly id: string } | { readonly type: string } | "all";

/** Running workers of one name that run different builds. */
export interface Drift {
  readonly type: string;
  readonly versions: readonly string[];
}

export class Workers {
  readonly #store: Store;
  readonly #newId: () => string;

  constructor(store: Store, runtime: Runtime) {
    this.#store = store;
    this.#newId = makeIds(runtime);
  }

  /** Those that started last first. */
  list(filter: WorkersFilter = {}): Promise<WorkerRecord[]> {
    checkKnown(filter, LIST_OPTIONS);
    const { type, all = false } = filter;
    const limit = checkWhole("limit", filter.limit ?? LIMIT_DEFAULT, { least: 1, most: LIMIT_MAX });
    return this.#store.workers({
      limit,
      ...(type === undefined ? {} : { type: checkName("type", type) }),
      ...(all ? {} : { alive: true }),
    });
  }

  find(id: string): Promise<WorkerRecord | null> {
    return this.#store.findWorker(checkText("id", id));
  }

  /** Ends workers: they stop claiming, wait for their jobs for as long as their own settings say, and are gone. */
  stop(target: WorkerTarget, options?: { readonly actor?: string }): Promise<string[]> {
    return this.#tell("stop", target, options);
  }

  /** Ends workers when their last job has ended, however long that takes. */
  drain(target: WorkerTarget, options?: { readonly actor?: string }): Promise<string[]> {
    return this.#tell("drain", target, options);
  }

  /** Workers take nothing new, and finish what runs. */
  pause(target: WorkerTarget, options?: { readonly actor?: string }): Promise<string[]> {
    return this.#tell("pause", target, options);
  }

  resume(target: WorkerTarget, options?: { readonly actor?: string }): Promise<string[]> {
    return this.#tell("run", target, options);
  }

  /** Returns the ids of those that are there to hear it: within a heartbeat, and at once where the database pushes. */
  #tell(
    wish: Wish,
    target: WorkerTarget,
    options: { readonly actor?: string } = {},
  ): Promise<string[]> {
    checkKnown(options, COMMAND_OPTIONS);
    const actor = checkName("actor", options.actor ?? "api");
    return this.#store.command({ id: this.#newId(), wish, actor, target: targetOf(target) });
  }
}

function targetOf(target: WorkerTarget): Command["target"] {
  if (target === "all") return { all: true };
  if (typeof target === "object" && target !== null) {
    if ("id" in target) return { worker: checkText("id", target.id) };
    if ("type" in target) return { type: checkName("type", target.type) };
  }
  throw new InvalidArgument({
    field: "target",
    problem: 'give { id } for one worker, { type } for all of a name, or "all".',
  });
}

/** Where workers of one name run different builds. One that cannot say which it runs counts for nothing. */
export function driftOf(workers: readonly WorkerRecord[]): Drift[] {
  const running = workers.filter(
    ({ status, version }) => status === "running" && isKnownVersion(version),
  );
  return [...Map.groupBy(running, ({ type }) => type)]
    .map(([type, some]) => ({ type, versions: [...new Set(some.map(({ version }) => version))] }))
    .filter(({ versions }) => versions.length > 1);
}
