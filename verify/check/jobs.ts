/** Every accepted job exists and has ended, and no other job exists: I1, I2; counters and attempts add up: I7, I9. */
import type { History, Rows, Said, Violation, Witnessed } from "./history.ts";
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
  const byNumber = new Map<string, string[]>();
  const children = new Set<number>();
  for (const { id, payload, task } of rows.jobs) {
    if (task === history.schedule?.task) continue;
    const { n, part } = JSON.parse(payload) as { n: number; part?: string };
    // Another job called it, at most once.
    if (task === "child") {
      if (children.has(n))
        violations.push({ invariant: "I2", job: id, sentence: `is called twice, for ${n}` });
      children.add(n);
      continue;
    }
    const name = nameOf(n, part);
    byNumber.set(name, [...(byNumber.get(name) ?? []), id]);
    if (!enqueues.has(String(n)) && !enqueues.has(name))
      violations.push({ invariant: "I2", job: id, sentence: "was never enqueued" });
  }
  for (const [name, ids] of enqueues) {
    const rowsOfIt = byNumber.get(name) ?? [];
    for (const id of ids)
      if (!rowsOfIt.includes(id))
        violations.push({ invariant: "I1", job: id, sentence: "was accepted, and is gone" });
  }
  for (const [name, { length }] of byNumber)
    if (length > 1)
      violations.push({ invariant: "I2", sentence: `job ${name} is there ${length} times` });
  for (const { id } of rows.jobs) {
    if (finished.has(id)) continue;
    const where = rows.unfinished.find((row) => row.id === id)?.table ?? "no table";
    if (history.isCutShort && where !== "no table") continue;
    const sentence = `has not ended: it is in ${where}`;
    violations.push({ invariant: "I1", job: id, sentence });
  }
  return { violations, accepted: countAccepted(said) };
}

function countAccepted(said: readonly Said[]): Accepted {
  const enqueues = said.filter((one) => one.f === "enqueue");
  const answered = new Set(enqueues.filter(({ type }) => type === "ok").map(({ n }) => n));
  return { ok: answered.size, unknown: new Set(enqueues.map(({ n }) => n)).size - answered.size };
}

/** The jobs of a flow share its number. */
function nameOf(n: number, part: string | undefined): string {
  return part === undefined ? String(n) : `${n} ${part}`;
}

/** The ids that the enqueues of each job returned. */
function gatherEnqueues(said: readonly Said[]): Map<string, string[]> {
  const enqueues = new Map<string, string[]>();
  for (const one of said) {
    if (one.f !== "enqueue") continue;
    const name = nameOf(one.n, one.type === "ok" ? one.part : undefined);
    const ids = enqueues.get(name) ?? [];
    if (one.type === "ok") ids.push(one.id);
    enqueues.set(name, ids);
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

// Every job of a flow starts after all that it waits for are done, and a flow exists whole or not at all: I11.

/** What each job of a flow waits for, repeated here so that a mistake in the workload is noticed. */
const AFTER: Readonly<Record<string, readonly string[]>> = {
  first: [],
  left: ["first"],
  middle: ["first"],
  right: ["first"],
  last: ["left", "middle", "right"],
};

const SIZE = Object.keys(AFTER).length;

interface Member {
  readonly n: number;
  readonly part: string;
}

/** How many jobs lead to this one, along all ways, with itself: what it must return. */
export function waysTo(part: string): number {
  return (AFTER[part] ?? []).reduce((sum, on) => sum + waysTo(on), 1);
}

export class FlowsCheck {
  readonly violations: Violation[] = [];
  readonly #members = new Map<string, Member>();
  readonly #ids = new Map<string, string>();
  readonly #done = new Set<string>();

  constructor({ rows }: Pick<History, "rows">) {
    for (const { id, task, payload } of rows.jobs) {
      if (task !== "flow") continue;
      const { n, part } = JSON.parse(payload) as Member;
      this.#members.set(id, { n, part });
      this.#ids.set(`${n} ${part}`, id);
    }
  }

  /** How many flows there are. */
  get flows(): number {
    return this.#sizes.size;
  }

  see({ table, before, after }: Witnessed): void {
    const id = String(after?.["id"]);
    if (table === "finished" && after?.["status"] === "done") this.#done.add(id);
    const member = this.#members.get(id);
    if (member === undefined || table !== "lease" || before !== null) return;
    for (const on of AFTER[member.part] ?? []) {
      if (this.#done.has(this.#ids.get(`${member.n} ${on}`) ?? "")) continue;
      this.#violate(`started as '${member.part}' before '${on}' was done`, id);
    }
  }

  /** Called after the last change. */
  end(): void {
    for (const [n, size] of this.#sizes)
      if (size !== SIZE) this.#violate(`flow ${n} has ${size} of its ${SIZE} jobs`);
  }

  get #sizes(): Map<number, number> {
    const flows = Map.groupBy(this.#members.values(), ({ n }) => n);
    return new Map([...flows].map(([n, members]) => [n, members.length]));
  }

  #violate(sentence: string, job?: string): void {
    this.violations.push({ invariant: "I11", sentence, ...(job === undefined ? {} : { job }) });
  }
}

// Every tick of a schedule has exactly one job, and every job of it has a tick: I13.

export function checkTicks({ rows, schedule }: Pick<History, "rows" | "schedule">): Violation[] {
  if (schedule === null) return [];
  const { task, everyMs, from, until } = schedule;
  const violations: Violation[] = [];
  const violate = (sentence: string, job?: string): void =>
    void violations.push({ invariant: "I13", sentence, ...(job === undefined ? {} : { job }) });
  const byTick = Map.groupBy(rows.ticks, ({ tick }) => tick);
  for (let tick = from; tick <= until; tick += everyMs) {
    const runs = byTick.get(tick) ?? [];
    byTick.delete(tick);
    if (runs.length !== 1) violate(`tick ${tick} was handled ${runs.length} times`);
  }
  for (const tick of byTick.keys()) violate(`tick ${tick} is none of the schedule`);
  const jobs = rows.jobs.filter((job) => job.task === task).map(({ id }) => id);
  const byJob = Map.groupBy(rows.ticks, ({ job }) => job);
  for (const id of jobs) {
    const ticks = (byJob.get(id) ?? []).map(({ tick }) => tick);
    if (ticks.length !== 1) violate(`is the job of ${ticks.length} ticks`, id);
  }
  const known = new Set<string | null>(jobs);
  for (const { tick, job } of rows.ticks) if (!known.has(job)) violate(`tick ${tick} has no job`);
  return violations;
}
