/**
 * What the demo can show at the end.
 *
 * Nothing here rests on what the workers believed: the accepted ids are kept by the process that enqueued them, and are
 * compared with the bookings and with the tables of jobs as they stand on disk.
 */
import type { Job } from "../../queue/job.ts";
import type { JobSummary } from "../../queue/jobs.ts";
import type { Holdfast } from "../../worker/holdfast.ts";
import type { Crew } from "./crew.ts";
import type { Ledger } from "./ledger.ts";
import type { Order } from "./order.ts";

export interface Evidence {
  readonly accepted: number;
  readonly booked: number;
  /** Accepted, and not both booked and done. */
  readonly lost: number;
  readonly bookedTwice: number;
  /** Bookings and finished jobs that nobody asked for. */
  readonly unasked: number;
  /** Jobs that stand in any other table than that of finished jobs, by the counts of the store. */
  readonly unfinished: number;
  /** Jobs that ended as done more or less often than once, by the history of attempts. */
  readonly notDoneOnce: number;
  readonly centsAsked: number;
  readonly centsBooked: number;
  readonly kills: number;
  readonly freezes: number;
  /** Orders that a frozen worker held and others took over. */
  readonly takenOver: number;
  readonly leasesRecovered: number;
  readonly staleWritesRefused: number;
  /** Attempts beyond the first of each order. */
  readonly attemptsRepeated: number;
  /** Bookings that were tried again and changed nothing. */
  readonly bookingsRepeated: number;
}

const PAGE = 1_000;

export async function gather(parts: {
  holdfast: Holdfast;
  ledger: Ledger;
  crew: Crew;
  orders: readonly Order[];
  accepted: readonly Job<unknown>[];
}): Promise<Evidence> {
  const { holdfast, ledger, crew, orders, accepted } = parts;
  const books = await ledger.read();
  const jobs = await allJobs(holdfast);
  const asked = new Set(accepted.map((job) => job.id));
  const booked = new Set(books.jobs);
  const done = new Set(jobs.filter((job) => job.status === "done").map((job) => job.id));
  const history = await readHistory(holdfast, jobs);
  return {
    accepted: asked.size,
    booked: booked.size,
    lost: [...asked].filter((id) => !booked.has(id) || !done.has(id)).length,
    bookedTwice: books.bookedTwice,
    unasked: [...new Set([...booked, ...done])].filter((id) => !asked.has(id)).length,
    unfinished: await countUnfinished(holdfast),
    notDoneOnce: history.notDoneOnce,
    centsAsked: orders.reduce((sum, { cents }) => sum + cents, 0),
    centsBooked: books.cents,
    kills: crew.kills,
    freezes: crew.freezes,
    takenOver: crew.takenOver,
    leasesRecovered: history.crashed,
    staleWritesRefused: crew.staleWritesRefused,
    attemptsRepeated: history.attempts - jobs.length,
    bookingsRepeated: books.executions - books.jobs.length,
  };
}

/** What contradicts the promise, in words; nothing: it held. */
export function problemsIn(evidence: Evidence): string[] {
  const { accepted, booked, centsAsked, centsBooked, takenOver, staleWritesRefused } = evidence;
  const checks: [boolean, string][] = [
    [evidence.lost > 0, `${evidence.lost} accepted orders are not booked and done`],
    [booked !== accepted, `${booked} orders are booked, and ${accepted} were accepted`],
    [evidence.bookedTwice > 0, `${evidence.bookedTwice} orders are booked more than once`],
    [evidence.unasked > 0, `${evidence.unasked} orders were booked or done that nobody placed`],
    [evidence.unfinished > 0, `${evidence.unfinished} jobs have not finished`],
    [evidence.notDoneOnce > 0, `${evidence.notDoneOnce} jobs were not done exactly once`],
    [centsBooked !== centsAsked, `the till holds ${centsBooked} cents instead of ${centsAsked}`],
    [evidence.kills === 0, "no worker was killed, so nothing was proved"],
    [
      takenOver > 0 && staleWritesRefused === 0,
      "frozen workers lost their orders, but no late write of theirs was refused",
    ],
  ];
  return checks.filter(([wrong]) => wrong).map(([, words]) => words);
}

async function allJobs({ jobs }: Holdfast): Promise<JobSummary[]> {
  const all: JobSummary[] = [];
  for (;;) {
    const last = all.at(-1);
    const page = await jobs.list({
      limit: PAGE,
      ...(last === undefined ? {} : { before: last.id }),
    });
    all.push(...page);
    if (page.length < PAGE) return all;
  }
}

async function readHistory(
  { jobs }: Holdfast,
  all: readonly JobSummary[],
): Promise<{ attempts: number; crashed: number; notDoneOnce: number }> {
  const total = { attempts: 0, crashed: 0, notDoneOnce: 0 };
  for (const { id } of all) {
    const outcomes = (await jobs.attempts(id)).map(({ outcome }) => outcome);
    total.attempts += outcomes.length;
    total.crashed += outcomes.filter((outcome) => outcome === "crashed").length;
    if (outcomes.filter((outcome) => outcome === "done").length !== 1) total.notDoneOnce += 1;
  }
  return total;
}

async function countUnfinished(holdfast: Holdfast): Promise<number> {
  const queues = await holdfast.stats();
  return queues.reduce((sum, { counts }) => {
    const { done: _done, ...others } = counts;
    return sum + Object.values(others).reduce((all, some) => all + some, 0);
  }, 0);
}
