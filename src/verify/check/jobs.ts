/** Every accepted job exists and has ended, and no other job exists: I1, I2; counters and attempts add up: I7, I9. */
import type { History, Rows, Said, Violation } from "./history.ts";
import type { Positions } from "./positions.ts";

type Finished = Rows["finished"][number];

type Attempt = Rows["attempts"][number];

export interface Accepted {
  /** How many enqueues were answered. */
  readonly ok: number;
  /** How many were not: the job may or may not exist. */
  readonly unknown: number;
}

export function checkJobs(history: History): { violations: Violation[]; accepted: Accepted } {
  const { rows, said } = history;
  const violations: Violation[] = [];
  const enqueues = gatherEnqueues(said);
  const finished = new Map(rows.finished.map((row) => [row.id, row]));
  const byNumber = new Map<number, string[]>();
  const children = new Set<number>();
  for (const { id, payload, task } of rows.jobs) {
    const { n } = JSON.parse(payload) as { n: number };
    // Another job called it, at most once.
    if (task === "child") {
      if (children.has(n))
        violations.push({ invariant: "I2", job: id, sentence: `is called twice, for ${n}` });
      children.add(n);
      continue;
    }
    byNumber.set(n, [...(byNumber.get(n) ?? []), id]);
    if (!enqueues.has(n))
      violations.push({ invariant: "I2", job: id, sentence: "was never enqueued" });
  }
  for (const [n, ids] of enqueues) {
    const rowsOfIt = byNumber.get(n) ?? [];
    for (const id of ids)
      if (!rowsOfIt.includes(id))
        violations.push({ invariant: "I1", job: id, sentence: "was accepted, and is gone" });
    if (rowsOfIt.length > 1)
      violations.push({ invariant: "I2", sentence: `job ${n} is there ${rowsOfIt.length} times` });
  }
  for (const { id } of rows.jobs) {
    if (finished.has(id)) continue;
    const where = rows.unfinished.find((row) => row.id === id)?.table ?? "no table";
    const sentence = `has not ended: it is in ${where}`;
    violations.push({ invariant: "I1", job: id, sentence });
  }
  const answered = [...enqueues.values()].filter((ids) => ids.length > 0).length;
  return { violations, accepted: { ok: answered, unknown: enqueues.size - answered } };
}

/** The ids that the enqueues of each number returned. */
function gatherEnqueues(said: readonly Said[]): Map<number, string[]> {
  const enqueues = new Map<number, string[]>();
  for (const one of said) {
    if (one.f !== "enqueue") continue;
    const ids = enqueues.get(one.n) ?? [];
    if (one.type === "ok") ids.push(one.id);
    enqueues.set(one.n, ids);
  }
  return enqueues;
}

export function checkAttempts({ rows }: History, positions: Positions): Violation[] {
  const byJob = Map.groupBy(rows.attempts, ({ job }) => job);
  return rows.finished.flatMap((job) => {
    const attempts = byJob.get(job.id) ?? [];
    const problems = [
      ...checkCounters(job, attempts, positions.holdings(job.id).length),
      ...checkRecorded(job, attempts, positions),
    ];
    return problems.map(([invariant, sentence]) => ({ invariant, job: job.id, sentence }));
  });
}

function checkCounters(
  job: Finished,
  attempts: readonly Attempt[],
  claims: number,
): [string, string][] {
  const count = (...outcomes: string[]): number =>
    attempts.filter(({ outcome }) => outcomes.includes(outcome)).length;
  const charged = claims - count("released", "suspended");
  // An outage that its owner reports after the next attempt has begun gives back the crash alone: the worker of that
  // attempt already knows its number.
  const chargedMost = charged + attempts.filter(({ isOutage }) => isOutage).length;
  // A last attempt that crashed has no row of its own.
  const endedByCrash = job.status !== "done" && job.worker !== null;
  const last = endedByCrash && job.crashes > count("crashed") ? 1 : 0;
  const crashes = count("crashed") + last;
  const checks: [boolean, string][] = [
    [job.epoch === claims, `has epoch ${job.epoch} and was claimed ${claims} times`],
    [
      job.attempts >= charged && job.attempts <= chargedMost,
      `counts ${job.attempts} attempts where ${charged} were charged`,
    ],
    [job.attempts <= job.maxAttempts, `had ${job.attempts} attempts of ${job.maxAttempts}`],
    [job.crashes === crashes, `counts ${job.crashes} crashes where there were ${crashes}`],
  ];
  return checks.filter(([held]) => !held).map(([, sentence]) => ["I7", sentence]);
}

/** Every claim is recorded once, with its owner: the last by the job's end, the others by their own rows. */
function checkRecorded(
  { epoch, worker }: Finished,
  attempts: readonly Attempt[],
  positions: Positions,
): [string, string][] {
  const epochs = attempts.map((attempt) => attempt.epoch).toSorted((a, b) => a - b);
  const expected = worker === null ? epoch : epoch - 1;
  const problems: [string, string][] = [];
  if (epochs.length !== expected || epochs.some((one, index) => one !== index + 1))
    problems.push(["I9", `records the attempts ${epochs.join(", ")} of ${expected}`]);
  for (const attempt of attempts) {
    const owner = positions.holdings(attempt.job)[attempt.epoch - 1]?.worker;
    if (owner !== attempt.worker)
      problems.push(["I9", `records ${attempt.worker} at epoch ${attempt.epoch}, not ${owner}`]);
  }
  return problems;
}
