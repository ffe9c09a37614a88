/** Jobs whose last worker died run alone next. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { defineTask, type WorkerOptions } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";

after(assertNothingRuns);

interface Run {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

/** Suspects and other jobs, by how many seconds each runs. Returns when each ran, and how they ended. */
async function runsOf(
  { suspects, others }: { suspects: readonly number[]; others: readonly number[] },
  minutes: number,
  options: Partial<WorkerOptions> = {},
) {
  await using kit = await openTestHoldfast();
  const { holdfast, clock } = kit;
  const { jobs } = holdfast.store;
  const begun = clock.now();
  const runs: Run[] = [];
  const task = defineTask({
    name: "work",
    async run({ name, seconds }: { name: string; seconds: number }) {
      const from = (clock.now() - begun) / 1_000;
      await new Promise<void>((resolve) => clock.timer(seconds * 1_000, resolve));
      runs.push({ name, from, to: (clock.now() - begun) / 1_000 });
    },
  });
  const input = (kind: string) => (seconds: number, n: number) => ({
    name: `${kind} ${n}`,
    seconds,
  });
  const suspected = await holdfast.enqueueMany(task, suspects.map(input("suspect")));
  const wanted = { worker: "dead", queues: ["default"], tasks: null, limit: 100, leaseMs: 100 };
  await jobs.claim(wanted);
  await clock.advance(200);
  await jobs.reclaimExpired({ graceMs: 0, maxCrashes: 3, limit: 100 });
  await clock.advance(2_000);
  await jobs.promoteDue({ limit: 100 });
  await holdfast.enqueueMany(task, others.map(input("other")));
  const worker = await holdfast.startWorker({ tasks: [task], concurrency: 5, ...options });
  await clock.advance(minutes * 60_000);
  const ended = await Promise.all(suspected.map(({ id }) => holdfast.jobs.get(id)));
  const history = await Promise.all(suspected.map(({ id }) => holdfast.jobs.attempts(id)));
  const stopping = worker.stop({ timeout: 0 });
  await clock.advance("5s");
  await stopping;
  return { runs, ended, history };
}

function times<T>(count: number, value: T): T[] {
  return Array.from({ length: count }, () => value);
}

function overlap(a: Run, b: Run): boolean {
  return a !== b && a.from < b.to && b.from < a.to;
}

const isSuspect = ({ name }: Run): boolean => name.startsWith("suspect");

suite("a job whose last worker died", () => {
  test("runs alone, one after the other, and the others run together again", async () => {
    const load = { suspects: [1, 1, 1], others: [1, 1, 1, 1, 1, 1] };
    const { runs, ended } = await runsOf(load, 1);
    assert.equal(runs.length, 9);
    for (const suspect of runs.filter(isSuspect))
      for (const other of runs) assert.ok(!overlap(suspect, other), JSON.stringify(runs));
    assert.ok(
      runs.some((a) => runs.some((b) => overlap(a, b))),
      "the others ran together",
    );
    for (const job of ended) assert.deepEqual([job?.status, job?.attempts], ["done", 2]);
  });

  test("runs with others after its first half minute", async () => {
    const { runs } = await runsOf({ suspects: [120], others: times(20, 1) }, 3);
    const [long] = runs.filter(isSuspect) as [Run];
    const beside = runs.filter((other) => overlap(long, other));
    assert.ok(beside.length > 0 && runs.length === 21, `${beside.length} of ${runs.length}`);
    assert.ok(beside.every(({ from }) => from >= long.from + 30));
  });

  test("is postponed while a long job runs, without using up an attempt, and runs beside it in the end", async () => {
    const load = { suspects: [1], others: [600, ...times(30, 1)] };
    const { runs, ended, history } = await runsOf(load, 5, { concurrency: 2 });
    const [suspect] = runs.filter(isSuspect) as [Run];
    assert.ok(suspect.from > 50 && suspect.from < 120, `after ${suspect.from} s`);
    assert.equal(runs.length, 31, "the others were done meanwhile");
    assert.deepEqual([ended[0]?.status, ended[0]?.attempts], ["done", 2]);
    const outcomes = history[0]?.map(({ outcome, error }) => `${outcome} ${error?.code ?? ""}`);
    const putOff = times(6, "suspended PUT_OFF");
    assert.deepEqual(outcomes, ["crashed LEASE_EXPIRED", ...putOff, "done "]);
  });

  test("runs with others at once if runSuspectsAlone is false", async () => {
    const load = { suspects: [1, 1], others: [1] };
    const { runs } = await runsOf(load, 1, { runSuspectsAlone: false });
    assert.ok(runs.every((a) => runs.some((b) => overlap(a, b))));
  });
});
