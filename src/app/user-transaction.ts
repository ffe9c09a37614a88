/** What an application does inside its own transaction: it exists if, and when, the application commits. */
import type { Emitted, NewEvent } from "../core/event.ts";
import { invalid, JobNotFoundError } from "../core/errors.ts";
import type { Status } from "../core/job.ts";
import { checkText } from "../core/options.ts";
import type { Runtime } from "../core/runtime.ts";
import { Batches, Flows, type FlowsParts } from "../flows/flows.ts";
import { Sender } from "../jobs/enqueue.ts";
import type { Jobs } from "../jobs/jobs.ts";
import type { Enqueued, NewJob } from "../jobs/store.ts";
import type { ItemsInTransaction } from "../workflows/store.ts";
import type { AnyWorkflow } from "../workflows/workflow.ts";
import { Workflows } from "../workflows/workflows.ts";
import type { Store } from "./store.ts";

interface WithinParts {
  readonly store: Store;
  readonly jobs: Jobs;
  readonly newId: () => string;
  readonly runtime: Runtime;
  /** Those outside of the transaction. */
  readonly workflows: Workflows;
  /** The user's transaction. */
  readonly tx: unknown;
  /** Jobs of these tasks were enqueued by name. */
  readonly onNamed: (tasks: readonly string[]) => void;
}

/** After a rollback, the jobs and events never existed, and no worker is woken for them. */
export class Within extends Sender {
  readonly #parts: WithinParts;
  /** @internal */
  protected readonly newId: () => string;
  /** As `holdfast.jobs`, outside of the transaction. */
  protected readonly jobs: Jobs;

  /** As `holdfast.workflows`, without the distributed lock, which must be acquired before a transaction begins. */
  readonly workflows: Workflows;
  /** As `holdfast.flows`: what it enqueues or adds exists if, and when, you commit. */
  readonly flows: Flows;
  /** As `holdfast.batches`. */
  readonly batches: Batches;

  /** @internal */
  constructor(parts: WithinParts) {
    super();
    this.#parts = parts;
    this.newId = parts.newId;
    this.jobs = parts.jobs;
    this.workflows = new WorkflowsWithin(parts);
    const { store, tx, newId, jobs, onNamed } = parts;
    const write: FlowsParts["write"] = {
      enqueue: (flow, news) =>
        store.db.inUserTransaction(tx, (joined) => store.flows.in(joined).enqueue(flow, news)),
      add: (flow, news) =>
        store.db.inUserTransaction(tx, (joined) => store.flows.in(joined).add(flow, news)),
    };
    this.flows = new Flows({ store, jobs, newId, write, onNamed });
    this.batches = new Batches({ store, jobs, newId, write, onNamed });
  }

  /** As `holdfast.jobs.cancel`. */
  async cancel(id: string): Promise<Status> {
    const { store, tx } = this.#parts;
    const status = await store.db.inUserTransaction(tx, (joined) =>
      store.jobs.in(joined).cancel(checkText("id", id)),
    );
    if (status === null) throw new JobNotFoundError({ id });
    return status;
  }

  /** @internal The build is not recorded: its row would make the transactions of all processes wait for each other. */
  protected writeJobs(news: readonly NewJob[]): Promise<Enqueued[]> {
    const { store, tx } = this.#parts;
    return store.db.inUserTransaction(tx, (joined) => store.jobs.in(joined).enqueue(news));
  }

  /** @internal */
  protected onNamed(tasks: readonly string[]): void {
    this.#parts.onNamed(tasks);
  }

  /** @internal */
  protected writeEvent(event: NewEvent): Promise<Emitted> {
    const { store, tx } = this.#parts;
    return store.db.inUserTransaction(tx, (joined) => store.steps.in(joined).emit(event));
  }
}

/** Workflows inside a transaction of the user's. */
class WorkflowsWithin extends Workflows {
  readonly #outside: Workflows;

  constructor(parts: WithinParts) {
    const { store, runtime, newId, tx } = parts;
    const joined = <T>(body: (items: ItemsInTransaction) => Promise<T>): Promise<T> =>
      store.db.inUserTransaction(tx, (transaction) => body(store.items.in(transaction)));
    const items: ItemsInTransaction = {
      change: (change) => joined((inside) => inside.change(change)),
      find: (id) => joined((inside) => inside.find(id)),
      list: (filter) => joined((inside) => inside.list(filter)),
      history: (filter) => joined((inside) => inside.history(filter)),
      progressOf: (item) => joined((inside) => inside.progressOf(item)),
    };
    super({ store, items, runtime, newId, locks: null });
    this.#outside = parts.workflows;
  }

  /** Declaring would wait for the user's transaction, on some databases forever. */
  override async declare(workflow: AnyWorkflow): Promise<void> {
    if (this.#outside.isDeclared(workflow)) return;
    const problem =
      "it is not declared yet: await holdfast.workflows.declare() before the transaction begins.";
    throw invalid("workflow", problem);
  }
}
