/** What the store promises about what jobs have done so far, and what they wait for; see steps.ts and events.ts. */
import type { ChildrenIn, ItemEntry } from "../core/item.ts";
import type { Fence, Status, Wait } from "../core/job.ts";
import type { Signature } from "./actions.ts";
import type { NewReport } from "./reports.ts";
import type { HistoryFilter, ItemFilter, ItemsChange, StoredItem } from "./workflows.ts";
import type { Enqueued, NewJob } from "./store.ts";
import type { StepKind, StepState, UserTransaction } from "../core/step.ts";

export interface Journal {
  /** The steps of a job, in the order in which they were first begun. */
  steps(job: string): Promise<StepRecord[]>;

  /**
   * Writes a step of a claimed job under its fence: that it was begun, that it is done with a result, or that nobody knows
   * whether it happened. False: the job is not ours any more, and nothing was written. What is done stays as it is.
   */
  putStep(fence: Fence, step: StepWrite): Promise<boolean>;

  /** Takes back that a step was begun: it did not happen. False: as above. */
  dropStep(fence: Fence, step: StepName): Promise<boolean>;

  /**
   * Runs the body in a transaction of its own and writes the step, done with what the body returned as its result, into
   * the same one. Throws LeaseLost when the job is not ours any more; then nothing that the body did is kept.
   */
  commitStep(
    fence: Fence,
    step: NewStep,
    body: (tx: UserTransaction) => Promise<string | null>,
  ): Promise<void>;

  /** From now on it is kept when this is said: for whoever will wait for it. */
  expect(wait: Wait): Promise<void>;

  /** Nobody will wait for this any more. */
  forget(wait: Wait): Promise<void>;

  /** Says once and for all that something happened. The first to say it is believed; jobs that wait for it go on. */
  emit(event: NewEvent): Promise<Emitted>;

  /** The verbs that can be used inside of a transaction that belongs to the user. */
  within<T>(tx: unknown, body: (guest: GuestStore) => Promise<T>): Promise<T>;

  /** What was said; null: nothing yet. */
  findEvent(name: string, key: string): Promise<EventRecord | null>;

  /** Jobs that stopped because nobody knows whether a step happened, those that wait longest first. */
  doubts(filter: { readonly limit: number }): Promise<Doubt[]>;

  /** A person says whether a step happened that is in doubt; its job goes on. False: it is not in doubt. */
  resolveDoubt(resolution: Resolution): Promise<boolean>;
}

/** What it writes is there if, and when, the user commits; nobody is woken before. */
export interface GuestStore {
  enqueue(jobs: readonly NewJob[]): Promise<Enqueued[]>;
  emit(event: NewEvent): Promise<Emitted>;
  cancel(id: string): Promise<Status | null>;
  /**
   * Ends a claimed job as done under its fence. Throws LeaseLost when it is not ours any more and JobCancelled when somebody
   * wants it cancelled, before anything is written.
   */
  complete(fence: Fence, result: string | null): Promise<void>;
  /** As `putReports` of the store. */
  report(fence: Fence, reports: readonly NewReport[]): Promise<void>;
  /** As those of the store. */
  changeItems(change: ItemsChange): Promise<StoredItem[]>;
  findItem(id: string): Promise<StoredItem | null>;
  listItems(filter: ItemFilter): Promise<StoredItem[]>;
  itemHistory(filter: HistoryFilter): Promise<ItemEntry[]>;
  progressOf(item: string): Promise<ChildrenIn[]>;
}

export interface StepName {
  readonly name: string;
  /** Which of the steps of this name it is, from 1. */
  readonly occurrence: number;
}

export interface NewStep extends StepName {
  readonly kind: StepKind;
  /** Where it stands among all steps of the job, from 1. */
  readonly place: number;
}

export interface StepWrite extends NewStep {
  readonly status: StepState;
  /** Its result, or what it was begun with. */
  readonly result: string | null;
  /** False: it was begun before. */
  readonly isNew: boolean;
}

export interface StepRecord extends NewStep {
  readonly status: StepState;
  readonly result: string | null;
  /** Of the attempt that wrote it. */
  readonly epoch: number;
  readonly begunAt: number;
  readonly endedAt: number | null;
  /** How long ago it was begun, by the database's clock. */
  readonly ageMs: number;
}

export interface NewEvent {
  readonly name: string;
  readonly key: string;
  readonly payload: string | null;
}

export interface Emitted {
  /** False: it had been said before, and what was said then stands. */
  readonly first: boolean;
  /** How many jobs waited for it. */
  readonly woken: number;
}

export interface EventRecord extends NewEvent {
  readonly emittedAt: number;
}

export interface Doubt extends StepName {
  readonly job: string;
  readonly task: string;
  readonly queue: string;
  readonly begunAt: number;
}

export interface Resolution extends StepName, Signature {
  readonly job: string;
  /** With its result, if it happened. */
  readonly happened: { readonly result: string | null } | null;
}
