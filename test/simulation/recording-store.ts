/** The store that every machine uses: the product's own, with every call and its answer written down. */
import { OutcomeUnknownError } from "../../src/core/errors.ts";
import type { Fence, OutageReport, Settlement, Status } from "../../src/core/job.ts";
import type { Emitted, NewEvent } from "../../src/core/event.ts";
import type { NewStep, StepName, UserTransaction } from "../../src/core/task.ts";
import type { OperatorEntry } from "../../src/audit/entry.ts";
import type { Database } from "../../src/database/database.ts";
import type { Engine } from "../../src/database/engine.ts";
import { type StepWrite, SqlSteps } from "../../src/steps/store.ts";
import type { NewWorker, Registered } from "../../src/registry/worker-record.ts";
import { composeStore, jobHooks, type Store } from "../../src/app/store.ts";
import { GovernedQueues } from "../../src/limits/claim.ts";
import type {
  JobStatements,
  CycleResult,
  Enqueued,
  Extended,
  NewJob,
  Settled,
  Wanted,
} from "../../src/jobs/store.ts";
import { SqlWorkers } from "../../src/registry/store.ts";
import type { Resolution } from "../../src/jobs/jobs.ts";
import { SqlJobs } from "../../src/jobs/sql-jobs.ts";
import type {
  CancelCall,
  EmitCall,
  EnqueueCall,
  ExtendCall,
  OutageCall,
  Recorded,
  ResolveCall,
  RetryCall,
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

/** The product's own store; what the simulated machines ask of jobs, steps and workers is written down. */
export function recordingStore(engine: Engine & JobStatements, recorder: Recorder): Store {
  const store = composeStore(engine, engine);
  return {
    ...store,
    jobs: new RecordingJobs(store.db, engine, recorder),
    steps: new RecordingSteps(store.db, recorder),
    workers: new LonelyWorkers(store.db, recorder),
  };
}

class LonelyWorkers extends SqlWorkers {
  readonly #recorder: Recorder;

  constructor(db: Database, recorder: Recorder) {
    super(db);
    this.#recorder = recorder;
  }

  /** Every machine is a host of its own: none can see that the process of another is gone. */
  override register(worker: NewWorker): Promise<Registered> {
    const { who } = this.#recorder;
    return super.register({ ...worker, hostname: who, pid: 1, hostBoot: who, processStart: "1" });
  }
}

class RecordingJobs extends SqlJobs {
  readonly #recorder: Recorder;

  constructor(db: Database, statements: JobStatements, recorder: Recorder) {
    super(db, statements, { hooks: jobHooks, rules: new GovernedQueues(db.engine) });
    this.#recorder = recorder;
  }

  override enqueue(news: readonly NewJob[]): Promise<Enqueued[]> {
    const jobs = news.map(({ id, task, key, lane = null }) => ({ id, task, key, lane }));
    return record<EnqueueCall, Enqueued[]>(
      this.#recorder,
      { f: "enqueue", ...begun(this.#recorder), jobs, told: [] },
      () => super.enqueue(news),
      (call, told) => (call.told = told),
    );
  }

  override settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    return record<SettleCall, Settled[]>(
      this.#recorder,
      {
        f: "settle",
        ...begun(this.#recorder),
        settlements: named(settlements),
        told: [],
        claimed: [],
      },
      () => super.settle(settlements),
      (call, told) => (call.told = told.map(fenceOf)),
    );
  }

  override settleOutages(reports: readonly OutageReport[]): Promise<Settled[]> {
    const settlements = reports.map((report) => ({
      ...fenceOf(report),
      kind: report.gaveUp ? "outage" : report.outcome.kind,
    }));
    return record<OutageCall, Settled[]>(
      this.#recorder,
      { f: "outage", ...begun(this.#recorder), settlements, told: [] },
      () => super.settleOutages(reports),
      (call, told) => (call.told = told.map(fenceOf)),
    );
  }

  override settleAndClaim(
    settlements: readonly Settlement[],
    wanted: Wanted,
  ): Promise<CycleResult> {
    return record<SettleCall, CycleResult>(
      this.#recorder,
      {
        f: "settle",
        ...begun(this.#recorder),
        settlements: named(settlements),
        told: [],
        claimed: [],
      },
      () => super.settleAndClaim(settlements, wanted),
      (call, { settled, claimed }) => {
        call.told = settled.map(fenceOf);
        call.claimed = claimed.map(fenceOf);
      },
    );
  }

  override extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]> {
    return record<ExtendCall, Extended[]>(
      this.#recorder,
      { f: "extend", ...begun(this.#recorder), fences: fences.map(fenceOf), told: [] },
      () => super.extend(fences, leaseMs),
      (call, told) => (call.told = told.map(fenceOf)),
    );
  }

  override cancel(id: string, signature: OperatorEntry | null = null): Promise<Status | null> {
    return record<CancelCall, Status | null>(
      this.#recorder,
      { f: "cancel", ...begun(this.#recorder), id, told: null },
      () => super.cancel(id, signature),
      (call, told) => (call.told = told),
    );
  }

  override retry(
    id: string,
    attempts: number,
    signature: OperatorEntry | null = null,
  ): Promise<void> {
    return record<RetryCall, void>(
      this.#recorder,
      { f: "retry", ...begun(this.#recorder), id },
      () => super.retry(id, attempts, signature),
      () => {},
    );
  }
}

class RecordingSteps extends SqlSteps {
  readonly #recorder: Recorder;

  constructor(db: Database, recorder: Recorder) {
    super(db, jobHooks);
    this.#recorder = recorder;
  }

  override put(fence: Fence, step: StepWrite): Promise<boolean> {
    const { name, status } = step;
    return record<StepCall, boolean>(
      this.#recorder,
      { f: "step", ...begun(this.#recorder), op: "put", fence, name, status, told: false },
      () => super.put(fence, step),
      (call, told) => (call.told = told),
    );
  }

  override drop(fence: Fence, step: StepName): Promise<boolean> {
    const { name } = step;
    return record<StepCall, boolean>(
      this.#recorder,
      {
        f: "step",
        ...begun(this.#recorder),
        op: "drop",
        fence,
        name,
        status: "dropped",
        told: false,
      },
      () => super.drop(fence, step),
      (call, told) => (call.told = told),
    );
  }

  override commit(
    fence: Fence,
    step: NewStep,
    body: (tx: UserTransaction) => Promise<string | null>,
  ): Promise<void> {
    const { name } = step;
    return record<StepCall, void>(
      this.#recorder,
      {
        f: "step",
        ...begun(this.#recorder),
        op: "commit",
        fence,
        name,
        status: "done",
        told: false,
      },
      () => super.commit(fence, step, body),
      (call) => (call.told = true),
    );
  }

  override resolveEffect(resolution: Resolution): Promise<boolean> {
    return record<ResolveCall, boolean>(
      this.#recorder,
      { f: "resolve", ...begun(this.#recorder), job: resolution.job },
      () => super.resolveEffect(resolution),
      () => {},
    );
  }

  override emit(event: NewEvent): Promise<Emitted> {
    const { key, payload } = event;
    return record<EmitCall, Emitted>(
      this.#recorder,
      { f: "emit", ...begun(this.#recorder), key, payload, told: false },
      () => super.emit(event),
      (call, { first }) => (call.told = first),
    );
  }
}

interface Begun {
  readonly who: string;
  readonly from: number;
  readonly sentAt: number;
  readonly to: null;
  readonly answer: null;
}

function begun(recorder: Recorder): Begun {
  const sentAt = recorder.monotonic();
  return { who: recorder.who, from: recorder.now(), sentAt, to: null, answer: null };
}

/** Writes a call down before it is made, and its answer when it comes. */
async function record<C extends Recorded, T>(
  recorder: Recorder,
  call: C,
  make: () => Promise<T>,
  hear: (call: C, told: T) => void,
): Promise<T> {
  recorder.calls.push(call);
  try {
    const told = await make();
    call.answer = "ok";
    hear(call, told);
    return told;
  } catch (error) {
    call.answer = error instanceof OutcomeUnknownError ? "unknown" : "failed";
    throw error;
  } finally {
    call.to = recorder.now();
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
