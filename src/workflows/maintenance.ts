/** Moves items at the time limit of their state, or when the jobs that they wait for have ended. */
import { StoreUnavailableError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import {
  InvalidMoveError,
  ItemChangedError,
  ItemNotFoundError,
  MoveRefusedError,
} from "./errors.ts";
import type { DueItem } from "./item-record.ts";
import { SYSTEM_ACTOR } from "./plan.ts";
import type { ItemsStore } from "./store.ts";
import type { AnyWorkflow, StateRules } from "./workflow.ts";
import type { Item, Workflows } from "./workflows.ts";

const BATCH = 100;

/** Guards may be slow, and a stop of the worker waits for the cycle to end. */
const CYCLE_MS_MAX = 5_000;

const PRUNE_BATCH = 100;
const PRUNE_EVERY_MS = 10 * 60_000;

/** A guard that refused may allow the move later, and a worker with a newer declaration may start. */
const AGAIN_MS = 60_000;

/** When to look again for the end of jobs. */
const LOOK_MS = 10 * 60_000;

interface ItemMaintenanceParts {
  readonly store: { readonly items: ItemsStore; readonly jobs: JobsStore };
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly workflows: Workflows;
  readonly settings: {
    readonly workflows: readonly AnyWorkflow[];
    readonly maintenanceIntervalMs: number;
    readonly pollMs: number;
  };
}

type AnyItem = Item<string, string, unknown, string>;

export class ItemMaintenance {
  readonly #parts: ItemMaintenanceParts;
  readonly #byName: ReadonlyMap<string, AnyWorkflow>;
  #prunedAt: number | null = null;

  constructor(parts: ItemMaintenanceParts) {
    this.#parts = parts;
    this.#byName = new Map(parts.settings.workflows.map((workflow) => [workflow.name, workflow]));
  }

  async once(): Promise<number> {
    const { store, runtime, settings } = this.#parts;
    const { maintenanceIntervalMs, pollMs } = settings;
    const startedAt = runtime.monotonic();
    const isLate = (): boolean => runtime.monotonic() - startedAt > CYCLE_MS_MAX;
    const workflows = [...this.#byName.keys()];
    const { due, nextInMs } = await store.items.due({ workflows, limit: BATCH });
    for (const one of due) if (!isLate()) await this.#attend(one);
    await this.#pruneNowAndThen();
    if (due.length === BATCH || isLate()) return 0;
    if (due.length > 0) return maintenanceIntervalMs;
    return Math.max(1, Math.min(nextInMs ?? pollMs, pollMs));
  }

  /** An item that cannot be moved does not block the others. */
  async #attend(due: DueItem): Promise<void> {
    const { store, logger } = this.#parts;
    try {
      await this.#move(due);
    } catch (error) {
      if (isPast(error)) return;
      if (error instanceof StoreUnavailableError) throw error; // it is not the item's fault
      if (!(error instanceof MoveRefusedError)) {
        logger.warn({ item: due.item, err: error }, "could not move an item that is due");
      }
      await store.items.postpone(due, AGAIN_MS);
    }
  }

  async #move(due: DueItem): Promise<void> {
    const { store, workflows } = this.#parts;
    const workflow = this.#byName.get(due.workflow) as AnyWorkflow;
    const item: AnyItem = await workflows.item(workflow, due.item);
    if (item.enteredAt !== due.enteredAt) return; // due for an earlier stay in a state
    const rules = workflow.states.get(item.status);
    const asked = due.reason === "limit" ? rules?.limit : rules?.whenJobsEnd;
    // This worker may be older than the declaration; another worker has the rules.
    if (rules === undefined || asked === undefined || asked === null) {
      return store.items.postpone(due, AGAIN_MS);
    }
    const move = due.reason === "limit" ? rules.limit?.move : await this.#afterJobs(item, rules);
    if (move === undefined || move === null) return store.items.postpone(due, LOOK_MS);
    const reason = due.reason === "limit" ? "its time in the state is over" : "its jobs have ended";
    // It may have been moved since it was due, away and even back.
    const since = due.enteredAt;
    await workflows.change(workflow, item, { move, actor: SYSTEM_ACTOR, reason, since });
  }

  /** The move declared for the end of its jobs; undefined: some have not ended; null: none is declared for failure. */
  async #afterJobs(item: AnyItem, rules: StateRules): Promise<string | null | undefined> {
    const { store } = this.#parts;
    const jobs = await store.items.jobsOf(item.id);
    const unknown = jobs.filter(({ status }) => status === null).map(({ job }) => job);
    const ended = await store.jobs.findFinished(unknown);
    if (ended.length < unknown.length) return undefined;
    const statuses = [
      ...jobs.flatMap(({ status }) => status ?? []),
      ...ended.map((job) => job.status),
    ];
    const isDone = statuses.every((status) => status === "done");
    return isDone ? rules.whenJobsEnd?.done : rules.whenJobsEnd?.failed;
  }

  async #pruneNowAndThen(): Promise<void> {
    const { store, runtime } = this.#parts;
    const now = runtime.monotonic();
    if (this.#prunedAt !== null && now - this.#prunedAt < PRUNE_EVERY_MS) return;
    const pruned = await store.items.prune(PRUNE_BATCH);
    if (pruned < PRUNE_BATCH) this.#prunedAt = now;
  }
}

/** Another process moved or deleted it first. */
function isPast(error: unknown): boolean {
  return (
    error instanceof InvalidMoveError ||
    error instanceof ItemChangedError ||
    error instanceof ItemNotFoundError
  );
}
