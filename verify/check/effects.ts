/** Everything was done once: I6 (rows and charges), I11 (steps and called jobs), I3 (one owner for each epoch). */
import { waysTo } from "./jobs.ts";
import type { Charges, History, Rows, Said, Violation } from "./history.ts";
import type { Positions } from "./positions.ts";

type Finished = Rows["finished"][number];

export function checkEffects(history: History, positions: Positions): Violation[] {
  const finished = new Map(history.rows.finished.map((row) => [row.id, row]));
  return [
    ...checkResults(history, finished),
    ...checkLedger(history, finished),
    ...checkCharges(history, finished, positions),
    ...checkOwners(history.said, positions),
    ...checkEnds(history.said, finished),
    ...checkCancels(history, finished),
    ...checkBodies(history.said, positions),
    ...checkKept(history, finished, positions),
    ...checkActs(history.said),
  ];
}

/** What each task must return for its input and last epoch; null: another check judges it. */
function expected(
  task: string,
  { n, part = "" }: { n: number; part?: string },
  epoch: number,
): object | null {
  if (task === "flow") return { n, ways: waysTo(part), epoch };
  if (task === "order") return { n, paid: n * 100, epoch };
  if (task === "parent") return { n, child: n * 2, epoch };
  return task === "child" ? null : { n, epoch };
}

/** A result shows who wrote it: its epoch is that of the attempt, and the row's epoch is that of the lease. */
function checkResults({ rows }: History, finished: Map<string, Finished>): Violation[] {
  return rows.jobs.flatMap(({ id, task, payload }) => {
    const end = finished.get(id);
    const input = JSON.parse(payload) as { n: number; part?: string };
    if (end?.status === "failed" && task !== "doomed")
      return [{ invariant: "I1", job: id, sentence: `${task} ${input.n} failed, and should not` }];
    const wanted = expected(task, input, end?.epoch ?? 0);
    if (end?.status !== "done" || wanted === null) return [];
    const result = end.result === null ? null : (JSON.parse(end.result) as { epoch?: number });
    if (JSON.stringify(result) === JSON.stringify(wanted)) return [];
    const invariant = result?.epoch === end.epoch ? "I6" : "I5";
    return [
      { invariant, job: id, sentence: `ended at epoch ${end.epoch}, returned ${end.result}` },
    ];
  });
}

/** Exactly one row for each order that is done, none for one that never began, one at most for the others. */
function checkLedger({ rows }: History, finished: Map<string, Finished>): Violation[] {
  const counts = countBy(rows.ledger.map(({ job }) => job));
  const orders = rows.jobs.filter(({ task }) => task === "order");
  const known = new Set(orders.map(({ id }) => id));
  const unknown = [...counts.keys()].filter((id) => !known.has(id));
  return [
    ...unknown.map((job) => ({ invariant: "I6", job, sentence: "booked, and is no order" })),
    ...orders.flatMap(({ id }) => {
      const booked = counts.get(id) ?? 0;
      const end = finished.get(id);
      const least = end?.status === "done" ? 1 : 0;
      const most = end?.epoch === 0 ? 0 : 1;
      if (booked >= least && booked <= most) return [];
      return [{ invariant: "I6", job: id, sentence: `is ${end?.status}, booked ${booked} times` }];
    }),
  ];
}

export interface Effects {
  /** Charges at the bank, by key, and their sum. */
  readonly charged: number;
  readonly cents: number;
  /** Rows in the ledger. */
  readonly booked: number;
  /** Charges and rows beyond the first of each order. */
  readonly doubled: number;
  /** How often a worker asked the bank before charging again. */
  readonly asked: number;
}

export function countEffects({ rows, charges, said }: History): Effects {
  const charged = countBy(charges.map(jobOf));
  const booked = countBy(rows.ledger.map(({ job }) => job));
  return {
    charged: charges.length,
    cents: charges.reduce((sum, { cents }) => sum + cents, 0),
    booked: rows.ledger.length,
    doubled: charges.length - charged.size + rows.ledger.length - booked.size,
    asked: said.filter(({ f }) => f === "asked").length,
  };
}

function jobOf({ key }: Charges): string {
  return key.split("/")[0] ?? "";
}

/** One key for each order, with its price, and not more calls than claims. */
function checkCharges(
  { rows, charges }: History,
  finished: Map<string, Finished>,
  positions: Positions,
): Violation[] {
  const calls = Map.groupBy(charges, jobOf);
  const orders = rows.jobs.filter(({ task }) => task === "order" || task === "doubtful");
  const known = new Set(orders.map(({ id }) => id));
  const unknown = [...calls.keys()].filter((id) => !known.has(id));
  return [
    ...unknown.map((job) => ({ invariant: "I6", job, sentence: "charged, and is no order" })),
    ...orders.flatMap(({ id, payload }) => {
      const end = finished.get(id);
      const { n } = JSON.parse(payload) as { n: number };
      const charged = calls.get(id) ?? [];
      const times = charged.reduce((sum, one) => sum + one.calls, 0);
      const sentence = `is ${end?.status}, charged under ${charged.length} keys in ${times} calls`;
      const isWrong =
        charged.length > 1 ||
        charged.some(({ cents }) => cents !== n * 100) ||
        (end?.status === "done" && times === 0) ||
        times > (end?.epoch ?? positions.holdings(id).length);
      return isWrong ? [{ invariant: "I6", job: id, sentence }] : [];
    }),
  ];
}

/** The worker that logged a run claimed that epoch, and the worker that logged an end ended the job. */
function checkOwners(said: readonly Said[], positions: Positions): Violation[] {
  const runs = new Set<string>();
  const ends = new Set<string>();
  return said.flatMap((one) => {
    if (one.f !== "run" && one.f !== "done") return [];
    const { job, epoch, worker } = one;
    const owner = positions.holdings(job)[epoch - 1]?.worker;
    const problems: Violation[] = [];
    if (owner !== worker)
      problems.push({ invariant: "I3", job, sentence: `${worker} ran epoch ${epoch} of ${owner}` });
    const place = one.f === "run" ? `${job} ${epoch}` : job;
    const before = one.f === "run" ? runs : ends;
    if (before.has(place))
      problems.push({ invariant: "I3", job, sentence: `${one.f} twice, at epoch ${epoch}` });
    before.add(place);
    return problems;
  });
}

/** A worker whose end was accepted ended the job; a worker that was refused did not. */
function checkEnds(said: readonly Said[], finished: Map<string, Finished>): Violation[] {
  return said.flatMap((one) => {
    if (one.f !== "done" && one.f !== "refused") return [];
    const end = finished.get(one.job);
    const isItsEnd = end?.status === "done" && end.epoch === one.epoch;
    if (isItsEnd === (one.f === "done")) return [];
    const sentence = `epoch ${one.epoch} got "${one.f}", and it is ${end?.status} at ${end?.epoch}`;
    return [{ invariant: "I5", job: one.job, sentence }];
  });
}

/** Only jobs with a cancel request are cancelled, and a confirmed cancellation stays. */
function checkCancels({ rows, said }: History, finished: Map<string, Finished>): Violation[] {
  const wanted = new Set<string>();
  const told = new Map<string, string>();
  for (const one of said) {
    if (one.f !== "cancel") continue;
    wanted.add(one.id);
    if (one.became !== null) told.set(one.id, one.became);
  }
  return rows.finished.flatMap(({ id, status }): Violation[] => {
    if (status === "cancelled" && !wanted.has(id))
      return [{ invariant: "I1", job: id, sentence: "was cancelled without a request" }];
    const answer = told.get(id);
    if ((answer !== "cancelled" && answer !== "processing") || status === "cancelled") return [];
    const sentence = `was to be cancelled (${answer}), and is ${finished.get(id)?.status}`;
    return [{ invariant: "I8", job: id, sentence }];
  });
}

/** The steps that a done job must have saved. */
const KEPT: Readonly<Record<string, readonly string[]>> = {
  order: ["quote/1", "charge/1", "book/1"],
  doubtful: ["charge/1"],
  nap: ["before/1", "nap/1", "after/1"],
  awaiting: ["packed/1"],
  parent: ["child/1"],
};

function checkKept(
  { rows }: History,
  finished: Map<string, Finished>,
  positions: Positions,
): Violation[] {
  return rows.jobs.flatMap(({ id, task }) => {
    if (finished.get(id)?.status !== "done") return [];
    const missing = (KEPT[task] ?? []).filter((step) => positions.stepDone(id, step) === undefined);
    return missing.map((step) => ({ invariant: "I11", job: id, sentence: `kept no ${step}` }));
  });
}

/** The function of a step runs once in an attempt, and never after an attempt in which it was done. */
function checkBodies(said: readonly Said[], positions: Positions): Violation[] {
  const seen = new Set<string>();
  return said.flatMap((one) => {
    if (one.f !== "body") return [];
    const { job, epoch, step } = one;
    const place = `${job} ${step} ${epoch}`;
    const again = seen.has(place);
    seen.add(place);
    const done = positions.stepDone(job, step);
    if (!again && (done === undefined || epoch <= done)) return [];
    const sentence = `ran step ${step} at epoch ${epoch}, done at epoch ${done ?? "none"}`;
    return [{ invariant: "I11", job, sentence }];
  });
}

/**
 * An effect is not repeated before a check found that it had not happened: by the worker, in the same attempt, or by a
 * person, once for every repetition.
 */
function checkActs(said: readonly Said[]): Violation[] {
  const acts = new Map<string, number[]>();
  const asked = new Set<string>();
  for (const one of said) {
    if (one.f === "body" && one.step.startsWith("charge/"))
      acts.set(one.job, [...(acts.get(one.job) ?? []), one.epoch]);
    if (one.f === "asked" && !one.found) asked.add(`${one.job} ${one.epoch}`);
  }
  const resolved = countBy(
    said.flatMap((one) => (one.f === "resolved" && !one.found ? [one.job] : [])),
  );
  return [...acts].flatMap(([job, epochs]) => {
    const [, ...again] = epochs.toSorted((a, b) => a - b);
    const blind = again.filter((epoch) => !asked.has(`${job} ${epoch}`)).length;
    if (blind <= (resolved.get(job) ?? 0)) return [];
    return [{ invariant: "I6", job, sentence: `was charged again ${blind} times without asking` }];
  });
}

export function countBy(values: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}
