/** The checker of the torture kit is itself checked: each broken promise, planted in a history that is right, is found. */
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { suite, test } from "node:test";
import type {
  Charges,
  Columns,
  History,
  Rules,
  Said,
  Table,
  Witnessed,
} from "../../verify/check/history.ts";
import { judge } from "../../verify/check/verdict.ts";
import { notReached } from "../../verify/not-reached.ts";
import { makePlan, torturePreset } from "../../verify/plan.ts";

type Row = Record<string, string | number | null>;
type Mutable<T> = { -readonly [K in keyof T]: T[K] extends readonly (infer U)[] ? U[] : T[K] };

/** What a run leaves behind, before it is judged. */
interface Story {
  said: (Said & { at: number })[];
  witnessed: Witnessed[];
  rows: Mutable<History["rows"]>;
  charges: Mutable<Charges>[];
  drainedMs: number | null;
  isCutShort: boolean;
}

type Ended = Story["rows"]["finished"][0];

const ORDER = "01a1-order";
const PLAIN = "01a1-plain";
const A = "worker-a";
const B = "worker-b";

/** An order whose first owner is killed after the charge, and a job that was handed back once; all went well. */
function goodStory(): Story {
  let clock = 1_000;
  const witnessed: Witnessed[] = [];
  const see = (table: Table, before: Row | null, after: Row | null): void => {
    clock += 10;
    const tx = `tx-${Math.floor(witnessed.length / 2)}`;
    witnessed.push({ seq: witnessed.length + 1, at: clock, tx, table, before, after });
  };
  const at = (id: string, epoch: number, attempts: number, more: Row = {}): Row => ({
    id,
    epoch,
    attempts,
    ...more,
  });
  const held = (worker: string, until: number): Row => ({ locked_by: worker, locked_until: until });
  const move = (from: [Table, Row] | null, to: [Table, Row]): void => {
    if (from !== null) see(from[0], from[1], null);
    see(to[0], null, to[1]);
    if (from === null) witnessed.push({ ...(witnessed.pop() as Witnessed), tx: `new-${clock}` });
  };
  const step = (name: string, epoch: number, status: string): Row => ({
    job_id: ORDER,
    name,
    occurrence: 1,
    epoch,
    status,
  });
  for (const id of [ORDER, PLAIN]) move(null, ["ready", at(id, 0, 0)]);
  move(["ready", at(ORDER, 0, 0)], ["lease", at(ORDER, 1, 1, held(A, 3_000))]);
  see("step", null, step("quote", 1, "done"));
  see("step", null, step("charge", 1, "begun"));
  move(
    ["lease", at(ORDER, 1, 1, held(A, 3_000))],
    ["waiting", at(ORDER, 1, 1, { status: "retry" })],
  );
  move(["waiting", at(ORDER, 1, 1, { status: "retry" })], ["ready", at(ORDER, 1, 1)]);
  move(["ready", at(ORDER, 1, 1)], ["lease", at(ORDER, 2, 2, held(B, 5_000))]);
  see("step", step("charge", 1, "begun"), step("charge", 2, "done"));
  see("ledger", null, { job_id: ORDER, epoch: 2 });
  see("step", null, step("book", 2, "done"));
  move(
    ["lease", at(ORDER, 2, 2, held(B, 5_000))],
    ["finished", at(ORDER, 2, 2, { status: "done", worker: B })],
  );
  move(["ready", at(PLAIN, 0, 0)], ["lease", at(PLAIN, 1, 1, held(A, 9_000))]);
  move(["lease", at(PLAIN, 1, 1, held(A, 9_000))], ["ready", at(PLAIN, 1, 0)]);
  move(["ready", at(PLAIN, 1, 0)], ["lease", at(PLAIN, 2, 1, held(B, 9_500))]);
  move(
    ["lease", at(PLAIN, 2, 1, held(B, 9_500))],
    ["finished", at(PLAIN, 2, 1, { status: "done", worker: B })],
  );
  // Every move is a transaction of its own.
  const whole = witnessed.map((row, index) => ({ ...row, tx: txOf(witnessed, index) }));
  const said = (what: Said, when: number): Said & { at: number } => ({ ...what, at: when });
  return {
    witnessed: whole,
    said: [
      said({ f: "hello", process: "p1", worker: A, pid: 1 }, 900),
      said({ f: "enqueue", type: "invoke", n: 7, task: "order" }, 1_000),
      said({ f: "enqueue", type: "ok", n: 7, id: ORDER }, 1_001),
      said({ f: "enqueue", type: "invoke", n: 8, task: "plain" }, 1_000),
      said({ f: "enqueue", type: "ok", n: 8, id: PLAIN }, 1_001),
      said({ f: "run", job: ORDER, epoch: 1, worker: A }, 1_030),
      said({ f: "body", job: ORDER, epoch: 1, step: "charge/1" }, 1_035),
      said({ f: "fault", kind: "kill", worker: "p1" }, 1_045),
      said({ f: "run", job: ORDER, epoch: 2, worker: B }, 1_090),
      said({ f: "asked", job: ORDER, epoch: 2, step: "charge/1", found: true }, 1_095),
      said({ f: "done", job: ORDER, epoch: 2, worker: B }, 1_120),
      said({ f: "refused", job: ORDER, epoch: 1 }, 1_130),
    ],
    rows: {
      jobs: [
        { id: ORDER, task: "order", payload: '{"n":7,"ms":1}' },
        { id: PLAIN, task: "plain", payload: '{"n":8,"ms":1}' },
      ],
      finished: [
        {
          id: ORDER,
          status: "done",
          epoch: 2,
          attempts: 2,
          crashes: 1,
          maxAttempts: 9,
          worker: B,
          result: '{"n":7,"paid":700,"epoch":2}',
        },
        {
          id: PLAIN,
          status: "done",
          epoch: 2,
          attempts: 1,
          crashes: 0,
          maxAttempts: 9,
          worker: B,
          result: '{"n":8,"epoch":2}',
        },
      ],
      attempts: [
        { job: ORDER, epoch: 1, worker: A, outcome: "crashed", isOutage: false },
        { job: PLAIN, epoch: 1, worker: A, outcome: "released", isOutage: false },
      ],
      ledger: [{ job: ORDER, epoch: 2 }],
      ticks: [],
      unfinished: [],
    },
    charges: [{ key: `${ORDER}/charge/1`, cents: 700, calls: 1 }],
    drainedMs: 100,
    isCutShort: false,
  };
}

/** Rows that come and go in one move share a transaction. */
function txOf(rows: readonly Witnessed[], index: number): string {
  const row = rows[index] as Witnessed;
  const before = rows[index - 1];
  const isArrival = row.before === null && before !== undefined && before.after === null;
  return `tx-${isArrival ? index - 1 : index}`;
}

async function violationsOf(change: (story: Story) => void): Promise<string[]> {
  const story = goodStory();
  change(story);
  const { violations } = await judge({
    ...story,
    witnessed: (async function* all() {
      yield* story.witnessed;
    })(),
    limits: { drain: 1_000, recover: 3_000, reconnect: 2_000 },
    rules: null,
    schedule: null,
  });
  return [...new Set(violations.map(({ invariant }) => invariant))];
}

/** Changes the columns of what the witness saw, where it fits. */
function alter(
  story: Story,
  table: Table,
  fits: (columns: Columns) => boolean,
  columns: Row,
): void {
  story.witnessed = story.witnessed.map((row) => ({
    ...row,
    before:
      row.table === table && row.before !== null && fits(row.before)
        ? { ...row.before, ...columns }
        : row.before,
    after:
      row.table === table && row.after !== null && fits(row.after)
        ? { ...row.after, ...columns }
        : row.after,
  }));
}

const isOrder = (columns: Columns): boolean => columns["id"] === ORDER;

const planted: readonly [string, string, (story: Story) => void][] = [
  [
    "an end that a late worker wrote under the lease of another",
    "I5",
    ({ rows }) =>
      void rows.finished.splice(1, 1, {
        ...(rows.finished[1] as Story["rows"]["finished"][0]),
        result: '{"n":8,"epoch":1}',
      }),
  ],
  [
    "a worker that was told done and did not end it",
    "I5",
    ({ said }) => void said.push({ f: "done", job: PLAIN, epoch: 1, worker: A, at: 1_300 }),
  ],
  [
    "a cancelled job without a cancel",
    "I1",
    ({ rows }) =>
      void rows.finished.splice(1, 1, {
        ...(rows.finished[1] as Story["rows"]["finished"][0]),
        status: "cancelled",
      }),
  ],
  [
    "a job that was cancelled and is done",
    "I8",
    ({ said }) => void said.push({ f: "cancel", id: PLAIN, became: "cancelled", at: 1_300 }),
  ],
  [
    "a step that was never kept",
    "I11",
    (story) => {
      story.witnessed = story.witnessed.filter(({ after }) => after?.["name"] !== "quote");
    },
  ],
  ["an accepted job that is gone", "I1", (story) => void story.rows.jobs.pop()],
  ["a job that never ends", "I1", (story) => void story.rows.finished.pop()],
  [
    "a job without an enqueue",
    "I2",
    ({ rows }) => void rows.jobs.push({ id: "01a1-odd", task: "plain", payload: '{"n":99}' }),
  ],
  [
    "a job that is there twice",
    "I2",
    ({ rows }) => void rows.jobs.push({ id: "01a1-again", task: "plain", payload: '{"n":8}' }),
  ],
  [
    "an epoch that is used again",
    "I3",
    (story) =>
      alter(story, "lease", (columns) => isOrder(columns) && columns["epoch"] === 2, { epoch: 1 }),
  ],
  [
    "two who ran the same epoch",
    "I3",
    ({ said }) => void said.push({ f: "run", job: ORDER, epoch: 2, worker: A, at: 1_100 }),
  ],
  [
    "a job that is done twice",
    "I3",
    ({ said }) => void said.push({ f: "done", job: ORDER, epoch: 2, worker: B, at: 1_200 }),
  ],
  [
    "a lease that is taken from a living worker before it ends",
    "I4",
    (story) => {
      story.said = story.said.filter(({ f }) => f !== "fault");
    },
  ],
  [
    "a step written by a worker whose lease is over",
    "I5",
    (story) => alter(story, "step", ({ status }) => status === "done", { epoch: 1 }),
  ],
  [
    "rows of a commit by a worker whose lease is over",
    "I5",
    (story) => alter(story, "ledger", () => true, { epoch: 1 }),
  ],
  [
    "an end written by another worker than the owner",
    "I5",
    (story) => alter(story, "finished", isOrder, { worker: A }),
  ],
  [
    "a commit that is there twice",
    "I6",
    ({ rows }) => void rows.ledger.push({ job: ORDER, epoch: 2 }),
  ],
  ["a commit that is missing", "I6", ({ rows }) => void rows.ledger.pop()],
  [
    "a charge under two keys",
    "I6",
    ({ charges }) => void charges.push({ key: `${ORDER}/charge/2`, cents: 700, calls: 1 }),
  ],
  [
    "a charge of another price",
    "I6",
    ({ charges }) => void charges.splice(0, 1, { key: `${ORDER}/charge/1`, cents: 70, calls: 1 }),
  ],
  [
    "an effect that is made again without asking",
    "I6",
    ({ said }) => void said.push({ f: "body", job: ORDER, epoch: 2, step: "charge/1", at: 1_096 }),
  ],
  [
    "a result that is another's",
    "I6",
    ({ rows }) =>
      void rows.finished.splice(1, 1, {
        ...(rows.finished[1] as Story["rows"]["finished"][0]),
        result: '{"n":7,"epoch":2}',
      }),
  ],
  [
    "attempts that do not add up",
    "I7",
    ({ rows }) =>
      void rows.finished.splice(1, 1, {
        ...(rows.finished[1] as Story["rows"]["finished"][0]),
        attempts: 2,
      }),
  ],
  [
    "a crash that was not counted",
    "I7",
    ({ rows }) =>
      void rows.finished.splice(0, 1, {
        ...(rows.finished[0] as Story["rows"]["finished"][0]),
        crashes: 0,
      }),
  ],
  [
    "a job in two tables",
    "I8",
    (story) => {
      story.witnessed = story.witnessed.filter(
        (row) => row.table !== "ready" || row.after !== null || row.before?.["id"] !== PLAIN,
      );
    },
  ],
  [
    "a job in no table between two transactions",
    "I8",
    (story) => {
      story.witnessed = story.witnessed.map((row) => ({ ...row, tx: `tx-${row.seq}` }));
    },
  ],
  ["an attempt without a row", "I9", ({ rows }) => void rows.attempts.pop()],
  [
    "a step that is made after it was done",
    "I11",
    (story) => {
      alter(story, "step", ({ status }) => status === "begun", { status: "done" });
      story.said.push({ f: "body", job: ORDER, epoch: 2, step: "charge/1", at: 1_096 });
    },
  ],
  [
    "what is not done in time",
    "I14",
    (story) => {
      story.drainedMs = null;
    },
  ],
  [
    "a dead worker's job that is free too late",
    "I15",
    (story) => {
      // Everything from its recovery on comes a minute later.
      story.witnessed = story.witnessed.map((row) =>
        row.seq < 7 ? row : { ...row, at: row.at + 60_000 },
      );
    },
  ],
  [
    "a worker process that ends without a fault",
    "I15",
    (story) => {
      story.said.push({ f: "ended", worker: "p2", how: "exit code 1", at: 1_050 });
    },
  ],
];

suite("the checker", () => {
  test("finds nothing where nothing is wrong", async () => {
    assert.deepEqual(await violationsOf(() => {}), []);
  });

  test("knows that an outage which is reported during the next attempt leaves that attempt its number", async () => {
    const found = await violationsOf(({ rows }) => {
      const [order, plain] = rows.finished as [Ended, Ended];
      rows.finished = [order, { ...plain, attempts: 2 }];
      rows.attempts = rows.attempts.map((attempt) => ({
        ...attempt,
        isOutage: attempt.outcome === "released",
      }));
    });
    assert.deepEqual(found, []);
  });

  for (const [what, invariant, plant] of planted)
    test(`finds ${what} (${invariant})`, async () => {
      const found = await violationsOf(plant);
      assert.ok(found.includes(invariant), `found ${found.join(", ") || "nothing"}`);
    });
});

/** Two lanes, at most three jobs at once and two of a lane, and ten starts a second. */
const RULES: Rules = {
  queue: "governed",
  concurrency: 3,
  laneConcurrency: 2,
  rate: { count: 10, periodMs: 1_000, burst: 2 },
};

/** A queue with limits whose workers are all killed, a flow, and a schedule; all went well. */
class GovernedStory {
  readonly said: (Said & { at: number })[] = [];
  readonly witnessed: Witnessed[] = [];
  readonly jobs: { id: string; task: string; payload: string }[] = [];
  readonly ticks: { tick: number; job: string }[] = [];
  #tx = 0;

  constructor() {
    for (const [process, worker, at] of [
      ["p1", A, 900],
      ["p2", B, 5_000],
    ] as const)
      this.said.push({ f: "hello", process, worker, pid: 1, at });
    this.#killAll();
    this.#flow();
    for (const tick of [1_000, 2_000, 3_000]) {
      const id = this.enqueue("tick", tick, { n: -1 });
      this.ticks.push({ tick, job: id });
      this.run(id, A, tick, tick + 5);
    }
  }

  /** Three run at once, two of them in one lane; then all workers are killed, and it is so again. */
  #killAll(): void {
    const ids = ["red", "red", "green"].map((lane, n) =>
      this.enqueue("governed", 1_000, { n, lane }),
    );
    for (const [index, id] of ids.entries()) this.claim(id, A, [2_000, 2_000, 2_100][index] ?? 0);
    this.said.push(
      { f: "fault", kind: "kill-all", at: 2_500 },
      { f: "fault", kind: "kill", worker: "p1", at: 2_500 },
    );
    for (const id of ids) this.leave(id, 5_000, "ready");
    for (const [index, id] of ids.entries()) this.claim(id, B, [5_100, 5_100, 5_200][index] ?? 0);
    for (const id of ids) this.leave(id, 6_000, "finished");
  }

  #flow(): void {
    const parts = ["first", "left", "middle", "right", "last"];
    const ids = parts.map((part) => this.enqueue("flow", 1_000, { n: 100, part }));
    for (const [index, id] of ids.entries())
      this.run(id, A, 1_100 + index * 10, 1_105 + index * 10);
  }

  enqueue(task: string, at: number, input: { n: number; lane?: string; part?: string }): string {
    const id = `${task}-${this.jobs.length}`;
    this.jobs.push({ id, task, payload: JSON.stringify(input) });
    if (task !== "tick") {
      this.said.push({ f: "enqueue", type: "invoke", n: input.n, task, at });
      const part = input.part === undefined ? {} : { part: input.part };
      this.said.push({ f: "enqueue", type: "ok", n: input.n, id, ...part, at });
    }
    const queue = task === "governed" ? RULES.queue : "default";
    const row = { id, queue, lane: input.lane ?? "", epoch: 0, attempts: 0 };
    this.#see(at, [["ready", null, row]]);
    return id;
  }

  claim(id: string, worker: string, at: number): void {
    const row = this.#standing(id, "ready");
    const counts = { epoch: Number(row["epoch"]) + 1, attempts: 1 };
    const lease = { locked_by: worker, locked_until: at + 2_000, claimed_at: at };
    this.#see(at, [
      ["ready", row, null],
      ["lease", null, { ...row, ...counts, ...lease }],
    ]);
  }

  leave(id: string, at: number, to: "ready" | "finished"): void {
    const row = this.#standing(id, "lease");
    const { locked_by: worker = null, locked_until: _u, claimed_at: _c, ...job } = row;
    const after = to === "ready" ? { ...job, attempts: 0 } : { ...job, status: "done", worker };
    this.#see(at, [
      ["lease", row, null],
      [to, null, after],
    ]);
  }

  run(id: string, worker: string, from: number, to: number): void {
    this.claim(id, worker, from);
    this.leave(id, to, "finished");
  }

  /** What the job's last row says. */
  #standing(id: string, table: Table): Row {
    const row = this.witnessed.findLast((one) => one.table === table && one.after?.["id"] === id);
    return { ...row?.after };
  }

  #see(at: number, changes: readonly (readonly [Table, Row | null, Row | null])[]): void {
    this.#tx += 1;
    for (const [table, before, after] of changes)
      this.witnessed.push({ seq: 0, at, tx: `tx-${this.#tx}`, table, before, after });
  }

  /** What is wrong with limits, flows and ticks; the other invariants are tried above. */
  async violations(): Promise<string[]> {
    const { violations } = await judge({
      said: this.said,
      witnessed: Readable.from(this.witnessed.map((row, index) => ({ ...row, seq: index + 1 }))),
      rows: {
        jobs: this.jobs,
        ticks: this.ticks,
        finished: [],
        attempts: [],
        ledger: [],
        unfinished: [],
      },
      charges: [],
      limits: { drain: 1_000, recover: 3_000, reconnect: 2_000 },
      rules: RULES,
      schedule: { task: "tick", everyMs: 1_000, from: 1_000, until: 3_000 },
      drainedMs: 100,
      isCutShort: false,
    });
    const ours = violations.filter(({ invariant }) => ["I11", "I12", "I13"].includes(invariant));
    return ours.map(({ invariant, sentence }) => `${invariant}: ${sentence}`);
  }

  /** Changes the rows of some jobs in one table. */
  alter(table: Table, fits: (row: Columns) => boolean, columns: Row): void {
    const changed = (row: Columns | null): Columns | null =>
      row !== null && fits(row) ? { ...row, ...columns } : row;
    for (const [index, row] of this.witnessed.entries())
      if (row.table === table)
        this.witnessed[index] = {
          ...row,
          before: changed(row.before),
          after: changed(row.after),
        };
  }
}

const ofLane =
  (lane: string) =>
  (row: Columns): boolean =>
    row["lane"] === lane;

const governed: readonly [string, RegExp, (story: GovernedStory) => void][] = [
  [
    "one job of the queue too many at once",
    /I12: was one of 4 at once, allowed 3/,
    (story) => {
      const extra = story.enqueue("governed", 5_300, { n: 50, lane: "blue" });
      story.witnessed.splice(-1, 1);
      const at = story.witnessed.findIndex(
        ({ table, after, at: when }) => table === "finished" && after !== null && when === 6_000,
      );
      const row = { id: extra, queue: RULES.queue, lane: "blue", locked_by: B, claimed_at: 5_900 };
      story.witnessed.splice(at - 1, 0, {
        seq: 0,
        at: 5_900,
        tx: "tx-extra",
        table: "lease",
        before: null,
        after: row,
      });
    },
  ],
  [
    "one job of a lane too many at once",
    /I12: was one of 3 of lane red, allowed 2/,
    (story) => {
      for (const [index, { id, task, payload }] of story.jobs.entries())
        if (task === "governed")
          story.jobs[index] = { id, task, payload: payload.replace("green", "red") };
    },
  ],
  [
    "a job that comes back from a crash without its lane",
    /I12: of lane red stood in ready with lane ""/,
    (story) =>
      story.alter("ready", (row) => row["epoch"] === 1 && ofLane("red")(row), { lane: "" }),
  ],
  [
    "a lease that no limit counts",
    /I12: of lane green stood in lease with lane null/,
    (story) => story.alter("lease", ofLane("green"), { lane: null }),
  ],
  [
    "starts above the rate",
    /I12: a start at 2050 was 50 ms too early/,
    (story) => story.alter("lease", (row) => row["claimed_at"] === 2_100, { claimed_at: 2_050 }),
  ],
  [
    "starts by the clock of a worker",
    /I12: started 90000 ms off the database's clock/,
    (story) => story.alter("lease", (row) => row["claimed_at"] === 2_100, { claimed_at: 92_100 }),
  ],
  [
    "a limit that is not reached any more after kill -9 of all workers",
    /I12: after kill -9 of all workers, 3 jobs of governed never ran at once again/,
    (story) => {
      const last = story.jobs.find(({ payload }) => payload.includes("green"))?.id;
      const kept = story.witnessed.filter(
        ({ at, before, after }) => at < 5_000 || (after ?? before)?.["id"] !== last,
      );
      story.witnessed.splice(0, Number.POSITIVE_INFINITY, ...kept);
    },
  ],
  [
    "a job of a flow that starts before one that it waits for is done",
    /I11: started as 'last' before 'right' was done/,
    (story) => {
      const right = story.jobs.find(({ payload }) => payload.includes("right"))?.id;
      const at = story.witnessed.findIndex(
        ({ table, after }) => table === "finished" && after?.["id"] === right,
      );
      story.witnessed.push(...story.witnessed.splice(at - 1, 2));
    },
  ],
  [
    "a flow that is there in part",
    /I11: flow 100 has 4 of its 5 jobs/,
    ({ jobs }) => {
      jobs.splice(
        jobs.findIndex(({ payload }) => payload.includes("left")),
        1,
      );
    },
  ],
  [
    "a tick without a run",
    /I13: tick 2000 was handled 0 times/,
    ({ ticks }) => void ticks.splice(1, 1),
  ],
  [
    "a tick that was handled twice",
    /I13: tick 2000 was handled 2 times/,
    ({ ticks }) => void ticks.push({ tick: 2_000, job: "tick-9" }),
  ],
  [
    "a tick between two others",
    /I13: tick 2500 is none of the schedule/,
    ({ ticks }) => void ticks.push({ tick: 2_500, job: "tick-9" }),
  ],
  [
    "a job of the schedule that belongs to no tick",
    /I13: is the job of 0 ticks/,
    (story) => void story.enqueue("tick", 2_500, { n: -1 }),
  ],
  [
    "a run whose job does not exist",
    /I13: tick 3000 has no job/,
    ({ ticks }) => void ticks.splice(2, 1, { tick: 3_000, job: "nothing" }),
  ],
];

suite("the checker of limits, flows and schedules", () => {
  test("finds nothing where nothing is wrong", async () => {
    assert.deepEqual(await new GovernedStory().violations(), []);
  });

  for (const [what, expected, plant] of governed)
    test(`finds ${what}`, async () => {
      const story = new GovernedStory();
      plant(story);
      const found = await story.violations();
      assert.ok(
        found.some((sentence) => expected.test(sentence)),
        `found ${found.join("; ") || "nothing"}`,
      );
    });
});

suite("the plan of a torture", () => {
  const planOf = (seed: number) =>
    makePlan(seed, torturePreset({ ms: 75_000 }), [
      "kill",
      "freeze",
      "block",
      "cut",
      "deafen",
      "restart",
    ]);

  test("is the same for the same seed, and another for another", () => {
    assert.deepEqual(planOf(5), planOf(5));
    assert.notDeepEqual(planOf(5), planOf(6));
  });

  test("has as many faults as a run of 75 seconds asks for", () => {
    const counts = Object.groupBy(planOf(5).faults, ({ kind }) => kind);
    const { kill = [], freeze = [], cut = [], restart = [] } = counts;
    assert.ok(kill.length >= 40 && freeze.length >= 15 && cut.length >= 30 && restart.length >= 2);
    assert.ok(planOf(5).jobs >= 10_000);
  });
});

suite("a run that was cut short because the machine was slow", () => {
  /** The plain job has not ended, and is in this table; null: in none. */
  const unfinished = (table: string | null) => (story: Story) => {
    story.rows.finished = story.rows.finished.filter(({ id }) => id !== PLAIN);
    story.rows.unfinished = table === null ? [] : [{ id: PLAIN, table }];
    story.drainedMs = null;
    story.isCutShort = true;
  };
  const ofEnds = async (table: string | null): Promise<string[]> =>
    (await violationsOf(unfinished(table))).filter((name) => /^I1$|^I14$|^I15$/.test(name));

  test("is not blamed for jobs that would have ended, only for lost ones", async () => {
    assert.deepEqual(await ofEnds("waiting"), []);
    assert.deepEqual(await ofEnds(null), ["I1"]);
  });

  test("says what it did not reach", () => {
    const plan = makePlan(1, torturePreset({ ms: 75_000 }), ["kill"]);
    const verdict = { accepted: { ok: 400, unknown: 2 }, jobs: 410, byStatus: { done: 300 } };
    const drained = { ms: null, limitMs: 1, isCutShort: true };
    const facts = { plan, done: { kill: 3 }, verdict, drained };
    const notes = notReached(facts);
    assert.deepEqual(
      [
        /: 402 of 10332 planned jobs/,
        /: 3 of 56 planned faults/,
        /^110 jobs had not ended 45 s/,
      ].map((note, index) => note.test(notes[index] ?? "")),
      [true, true, true],
      notes.join("\n"),
    );
    assert.deepEqual(notReached({ ...facts, plan: { ...plan, isOnTime: false } }), []);
  });
});
