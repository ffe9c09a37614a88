/** The verbs about steps and events. */
import type { UserTransaction } from "../core/step.ts";
import type { Fence, Wait } from "../core/job.ts";
import { declareEvent, emit, findEvent, forget } from "./events.ts";
import type {
  Doubt,
  Emitted,
  EventRecord,
  GuestStore,
  Journal,
  NewEvent,
  NewStep,
  Resolution,
  StepName,
  StepRecord,
  StepWrite,
} from "./journal.ts";

import type { Hint } from "./store.ts";
import { SqlWorkflows } from "./sql-workflows.ts";
import * as steps from "./steps.ts";
import { actOrLookUp, pendingAgain, writeOrLookUp } from "./unknown.ts";
import { Guest } from "./within.ts";

export class SqlJournal extends SqlWorkflows implements Journal {
  /** What is to be told when a transaction of ours commits in which its user was a guest of ours. */
  readonly #toldIn = new WeakMap<object, Hint[]>();

  async steps(job: string): Promise<StepRecord[]> {
    return this.engine.mayBeId(job) ? steps.steps(this.engine, job) : [];
  }

  putStep(fence: Fence, step: StepWrite): Promise<boolean> {
    return writeOrLookUp(
      this.engine,
      () => steps.putStep(this.engine, fence, step),
      () => steps.lookUpStep(this.engine, fence, step),
    );
  }

  dropStep(fence: Fence, step: StepName): Promise<boolean> {
    const drop = (): Promise<boolean> => steps.dropStep(this.engine, fence, step);
    return writeOrLookUp(this.engine, drop, drop); // dropping twice is dropping once
  }

  async commitStep(
    fence: Fence,
    step: NewStep,
    body: (tx: UserTransaction) => Promise<string | null>,
  ): Promise<void> {
    const told: Hint[] = [];
    const theirs = (tx: UserTransaction): Promise<string | null> => {
      this.#toldIn.set(tx, told);
      return body(tx);
    };
    await writeOrLookUp(
      this.engine,
      () => steps.commitStep(this.engine, fence, { step, body: theirs }),
      () => steps.lookUpCommit(this.engine, fence, step),
    );
    // The commit was ours: an engine that sees those of others does not see it.
    for (const hint of told) this.announce(hint);
  }

  async expect(wait: Wait): Promise<void> {
    await declareEvent(this.engine, wait);
  }

  forget(wait: Wait): Promise<void> {
    const drop = (): Promise<void> => forget(this.engine, wait);
    return writeOrLookUp(this.engine, drop, drop); // twice is once
  }

  async emit(event: NewEvent): Promise<Emitted> {
    const { hints, ...emitted } = await emit(this.engine, event);
    for (const hint of hints) this.announce(hint);
    return emitted;
  }

  within<T>(tx: unknown, body: (guest: GuestStore) => Promise<T>): Promise<T> {
    const told = this.#toldIn.get(tx as object);
    const onTold = (hint: Hint): void => void told?.push(hint);
    return this.engine.asGuest(tx, (guest) => body(new Guest(this.engine, guest, onTold)));
  }

  findEvent(name: string, key: string): Promise<EventRecord | null> {
    return findEvent(this.engine, name, key);
  }

  doubts({ limit }: { readonly limit: number }): Promise<Doubt[]> {
    return steps.doubts(this.engine, limit);
  }

  async resolveDoubt(resolution: Resolution): Promise<boolean> {
    const { engine } = this;
    const { job } = resolution;
    if (!engine.mayBeId(job)) return false;
    const resolve = (): Promise<Hint[] | null> => steps.resolveDoubt(engine, resolution);
    const hints = await actOrLookUp(engine, resolution, resolve, () => pendingAgain(engine, job));
    for (const hint of hints ?? []) this.announce(hint);
    return hints !== null;
  }
}
