/** Moves items that move by themselves: their time in a state is over, or the jobs that they waited for have ended. */
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
import { NOBODY } from "./plan.ts";
import type { ItemsStore } from "./store.ts";
import type { AnyWorkflow, StateRules } from "./workflow.ts";
import type { Item, Workflows } from "./workflows.ts";

/** The parts of the store that are used here. */
interface Stores {
  readonly items: ItemsStore;
  readonly jobs: JobsStore;
}

const BATCH = 100;

/** Guards may be slow, and whoever stops the worker waits for the turn to end. */
const TURN_MS_MAX = 5_000;

const PRUNE_BATCH = 100;

const PRUNE_EVERY_MS = 10 * 60_000;

/** A guard that said no may say yes later, and a worker that knows more may come. */
const AGAIN_MS = 60_000;

/** What is not known to have ended is looked for after this long. */
const LOOK_MS = 10 * 60_000;

interface Settings {
  readonly workflows: readonly AnyWorkflow[];
  readonly maintenanceMs: number;
  readonly pollMs: number;
}

type AnyItem = Item<string, string, unknown, string>;

export class ItemMaintenance {
  readonly #store: Stores;
  readonly #runtime: Runtime;
  readonly #logger: Logger;
  readonly #workflows: Workflows;
  readonly #byName: ReadonlyMap<string, AnyWorkflow>;
  readonly #settings: Settings;
  #prunedAt: number | null = null;

  constructor(parts: {
    readonly store: Stores;
    readonly runtime: Runtime;
    readonly logger: Logger;
    readonly workflows: Workflows;
    readonly settings: Settings;
  }) {
    this.#store = parts.store;
    this.#runtime = parts.runtime;
    this.#logger = parts.logger;
    this.#workflows = parts.workflows;
    this.#settings = parts.settings;
    this.#byName = new Map(parts.settings.workflows.map((workflow) => [workflow.name, workflow]));
  }

  async once(): Promise<number> {
    const { maintenanceMs, pollMs } = this.#settings;
    const startedAt = this.#runtime.monotonic();
    const isLate = (): boolean => this.#runtime.monotonic() - startedAt > TURN_MS_MAX;
    const workflows = [...this.#byName.keys()];
    const { due, nextInMs } = await this.#store.items.due({ workflows, limit: BATCH });
    for (const one of due) if (!isLate()) await this.#attend(one);
    await this.#pruneNowAndThen();
    if (due.length === BATCH || isLate()) return 0;
    if (due.length > 0) return maintenanceMs;
    return Math.max(1, Math.min(nextInMs ?? pollMs, pollMs));
  }

  /** One that cannot be moved keeps nobody else waiting. */
  async #attend(due: DueItem): Promise<void> {
    try {
      await this.#move(due);
    } catch (error) {
      if (isPast(error)) return;
      if (error instanceof StoreUnavailableError) throw error; // it is not the item's fault
      if (!(error instanceof MoveRefusedError)) {
        this.#logger.warn({ item: due.item, err: error }, "could not move an item that is due");
      }
      await this.#store.items.postpone(due, AGAIN_MS);
    }
  }

  async #move(due: DueItem): Promise<void> {
    const workflow = this.#byName.get(due.workflow) as AnyWorkflow;
    const item: AnyItem = await this.#workflows.item(workflow, due.item);
    if (item.enteredAt !== due.enteredAt) return; // this is about another time in a state
    const rules = workflow.states.get(item.status);
    const asked = due.reason === "limit" ? rules?.limit : rules?.whenJobsEnd;
    // This worker may be older than the declaration: another one knows what to do.
    if (rules === undefined || asked === undefined || asked === null) {
      return this.#store.items.postpone(due, AGAIN_MS);
    }
    const move = due.reason === "limit" ? rules.limit?.move : await this.#afterJobs(item, rules);
    if (move === undefined || move === null) return this.#store.items.postpone(due, LOOK_MS);
    const reason = due.reason === "limit" ? "its time in the state is over" : "its jobs have ended";
    // Somebody else may have moved it since it was due, away and even back.
    const since = due.enteredAt;
    await this.#workflows.change(workflow, item, { move, actor: NOBODY, reason, since });
  }

  /** The move that its jobs lead to; undefined: some have not ended, or none is declared for how they did. */
  async #afterJobs(item: AnyItem, rules: StateRules): Promise<string | null | undefined> {
    const jobs = await this.#store.items.jobsOf(item.id);
    const unknown = jobs.filter(({ status }) => status === null).map(({ job }) => job);
    const ended = await this.#store.jobs.findFinished(unknown);
    if (ended.length < unknown.length) return undefined;
    const statuses = [
      ...jobs.flatMap(({ status }) => status ?? []),
      ...ended.map((job) => job.status),
    ];
    const isDone = statuses.every((status) => status === "done");
    return isDone ? rules.whenJobsEnd?.done : rules.whenJobsEnd?.failed;
  }

  async #pruneNowAndThen(): Promise<void> {
    const now = this.#runtime.monotonic();
    if (this.#prunedAt !== null && now - this.#prunedAt < PRUNE_EVERY_MS) return;
    const pruned = await this.#store.items.prune(PRUNE_BATCH);
    if (pruned < PRUNE_BATCH) this.#prunedAt = now;
  }
}

/** Somebody else was faster. */
function isPast(error: unknown): boolean {
  return (
    error instanceof InvalidMoveError ||
    error instanceof ItemChangedError ||
    error instanceof ItemNotFoundError
  );
}
