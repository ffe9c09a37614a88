/** The store that every machine uses: the product's own, with every call and its answer written down. */
import { OutcomeUnknown } from "../../src/core/errors.ts";
import type { Fence, OutageReport, Settlement, Status } from "../../src/core/job.ts";
import type { UserTransaction } from "../../src/core/step.ts";
import type { Signature } from "../../src/store/actions.ts";
import type { Engine } from "../../src/store/engine.ts";
import type {
  Emitted,
  NewEvent,
  NewStep,
  Resolution,
  StepName,
  StepWrite,
} from "../../src/store/journal.ts";
import type { NewWorker, Registered } from "../../src/store/registry.ts";
import { SqlStore } from "../../src/store/sql-store.ts";
import type {
  ClaimedJob,
  Enqueued,
  Extended,
  NewJob,
  Settled,
  Wanted,
} from "../../src/store/store.ts";
import type {
  CancelCall,
  EmitCall,
  EnqueueCall,
  ExtendCall,
  OutageCall,
  Recorded,
  ResolveCall,
  ReviveCall,
  SettleCall,
  StepCall,
} from "./history.ts";

export interface Recorder {
  readonly who: string;
  readonly calls: Recorded[];
  /** How many transactions have begun. */
  now(): number;
  /** By its machine's clock. */
  monotonic(): number;
}

export class RecordingStore extends SqlStore {
  readonly #recorder: Recorder;

  constructor(engine: Engine, recorder: Recorder) {
    super(engine);
    this.#recorder = recorder;
  }

  /** Every machine is a host of its own: nobody can see that the process of another is gone. */
  override register(worker: NewWorker): Promise<Registered> {
    const { who } = this.#recorder;
    return super.register({ ...worker, hostname: who, pid: 1, hostBoot: who, processStart: "1" });
  }

  override enqueue(news: readonly NewJob[]): Promise<Enqueued[]> {
    const jobs = news.map(({ id, task, key }) => ({ id, task, key }));
    return this.#record<EnqueueCall, Enqueued[]>(
      { f: "enqueue", ...this.#begun(), jobs, told: [] },
      () => super.enqueue(news),
      (call, told) => (call.told = told),
    );
  }

  override settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    return this.#record<SettleCall, Settled[]>(
      { f: "settle", ...this.#begun(), settlements: named(settlements), told: [], claimed: [] },
      () => super.settle(settlements),
      (call, told) => (call.told = told.map(fenceOf)),
    );
  }

  override settleOutages(reports: readonly OutageReport[]): Promise<Settled[]> {
    const settlements = reports.map((report) => ({
      ...fenceOf(report),
      kind: report.gaveUp ? "outage" : report.outcome.kind,
    }));
    return this.#record<OutageCall, Settled[]>(
      { f: "outage", ...this.#begun(), settlements, told: [] },
      () => super.settleOutages(reports),
      (call, told) => (call.told = told.map(fenceOf)),
    );
  }

  override settleAndClaim(
    settlements: readonly Settlement[],
    wanted: Wanted,
  ): Promise<{ settled: Settled[]; claimed: ClaimedJob[] }> {
    return this.#record<SettleCall, { settled: Settled[]; claimed: ClaimedJob[] }>(
      { f: "settle", ...this.#begun(), settlements: named(settlements), told: [], claimed: [] },
      () => super.settleAndClaim(settlements, wanted),
      (call, { settled, claimed }) => {
        call.told = settled.map(fenceOf);
        call.claimed = claimed.map(fenceOf);
      },
    );
  }

  override extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]> {
    return this.#record<ExtendCall, Extended[]>(
      { f: "extend", ...this.#begun(), fences: fences.map(fenceOf), told: [] },
      () => super.extend(fences, leaseMs),
      (call, told) => (call.told = told.map(fenceOf)),
    );
  }

  override putStep(fence: Fence, step: StepWrite): Promise<boolean> {
    const { name, status } = step;
    return this.#record<StepCall, boolean>(
      { f: "step", ...this.#begun(), op: "put", fence, name, status, told: false },
      () => super.putStep(fence, step),
      (call, told) => (call.told = told),
    );
  }

  override dropStep(fence: Fence, step: StepName): Promise<boolean> {
    const { name } = step;
    return this.#record<StepCall, boolean>(
      { f: "step", ...this.#begun(), op: "drop", fence, name, status: "dropped", told: false },
      () => super.dropStep(fence, step),
      (call, told) => (call.told = told),
    );
  }

  override commitStep(
    fence: Fence,
    step: NewStep,
    body: (tx: UserTransaction) => Promise<string | null>,
  ): Promise<void> {
    const { name } = step;
    return this.#record<StepCall, void>(
      { f: "step", ...this.#begun(), op: "commit", fence, name, status: "done", told: false },
      () => super.commitStep(fence, step, body),
      (call) => (call.told = true),
    );
  }

  override cancel(id: string, signature: Signature | null = null): Promise<Status | null> {
    return this.#record<CancelCall, Status | null>(
      { f: "cancel", ...this.#begun(), id, told: null },
      () => super.cancel(id, signature),
      (call, told) => (call.told = told),
    );
  }

  override revive(id: string, attempts: number, signature: Signature | null = null): Promise<void> {
    return this.#record<ReviveCall, void>(
      { f: "revive", ...this.#begun(), id },
      () => super.revive(id, attempts, signature),
      () => {},
    );
  }

  override resolveDoubt(resolution: Resolution): Promise<boolean> {
    return this.#record<ResolveCall, boolean>(
      { f: "resolve", ...this.#begun(), job: resolution.job },
      () => super.resolveDoubt(resolution),
      () => {},
    );
  }

  override emit(event: NewEvent): Promise<Emitted> {
    const { key, payload } = event;
    return this.#record<EmitCall, Emitted>(
      { f: "emit", ...this.#begun(), key, payload, told: false },
      () => super.emit(event),
      (call, { first }) => (call.told = first),
    );
  }

  #begun(): { who: string; from: number; sentAt: number; to: null; answer: null } {
    const { who } = this.#recorder;
    const sentAt = this.#recorder.monotonic();
    return { who, from: this.#recorder.now(), sentAt, to: null, answer: null };
  }

  async #record<C extends Recorded, T>(
    call: C,
    make: () => Promise<T>,
    hear: (call: C, told: T) => void,
  ): Promise<T> {
    this.#recorder.calls.push(call);
    try {
      const told = await make();
      call.answer = "ok";
      hear(call, told);
      return told;
    } catch (error) {
      call.answer = error instanceof OutcomeUnknown ? "unknown" : "failed";
      throw error;
    } finally {
      call.to = this.#recorder.now();
    }
  }
}

function fenceOf({ id, worker, epoch }: Fence): Fence {
  return { id, worker, epoch };
}

function named(settlements: readonly Settlement[]): (Fence & { kind: string })[] {
  return settlements.map((settlement) => ({
    ...fenceOf(settlement),
    kind: settlement.outcome.kind,
  }));
}
