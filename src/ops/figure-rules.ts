/**
 * Alerts about figures: what stands where, and what came and ended in the last minutes.
 *
 * Where nobody counts any more, they tell nothing; that is an alert itself. Where a figure moves around its limit, what was
 * raised is kept until it is well below.
 */
import { formatMs } from "../core/duration.ts";
import type { Census, MinuteFigures, QueueDepth } from "../store/figures.ts";
import type { AlertRule, AlertView, Trouble } from "./alert-rule.ts";
import type { AlertSettings } from "./alert-settings.ts";

const MINUTE_MS = 60_000;
/** Counting takes a hundredth of the time at most, so figures of a large database are older. Twice that is too old. */
const COUNTING_SHARES = 200;
/** What was raised because of a figure is kept until the figure is below this share of its limit. */
const KEPT_SHARE = 0.8;

export function figureRules(settings: AlertSettings): readonly AlertRule[] {
  return [
    pendingOld(settings),
    noWorker(settings),
    failureRate(settings),
    deadLetters(settings),
    backlogGrowing(settings),
    figuresStale(settings),
  ];
}

const pendingOld = ({ pendingAge, figuresAge }: AlertSettings): AlertRule => ({
  name: "pending-old",
  severity: "warning",
  holdMs: 0,
  when: `the oldest pending job of a queue has waited for more than ${formatMs(pendingAge)}`,
  find: (view, raised) =>
    byQueue(freshCensus(view, figuresAge), ({ queue, counts, oldestPendingAt }, { countedAt }) => {
      if (oldestPendingAt === null) return null;
      const waitedMs = countedAt - oldestPendingAt;
      if (waitedMs <= kept(pendingAge, raised.has(queue))) return null;
      const message = `The oldest pending job of queue ${queue} has waited for ${formatMs(waitedMs)}.`;
      return { message, facts: { waitedMs, pending: counts.pending } };
    }),
});

const noWorker = ({ unworkedFor, figuresAge }: AlertSettings): AlertRule => ({
  name: "no-worker",
  severity: "critical",
  holdMs: unworkedFor,
  when: `a queue has pending jobs and no live worker for ${formatMs(unworkedFor)}`,
  find: (view) => {
    const { worked } = view;
    if (worked === null) return null;
    return byQueue(freshCensus(view, figuresAge), ({ queue, counts: { pending } }) => {
      if (pending === 0 || worked.has(queue)) return null;
      const message = `Queue ${queue} has ${jobs(pending)} pending, and no live worker takes jobs from it.`;
      return { message, facts: { pending } };
    });
  },
});

const failureRate = (settings: AlertSettings): AlertRule => {
  const { failureShare, failureWindow, failureEndings, figuresAge } = settings;
  const last = formatMs(failureWindow);
  return {
    name: "failure-rate",
    severity: "critical",
    holdMs: 0,
    when: `more than ${percent(failureShare)} of at least ${failureEndings} jobs of a queue that ended within ${last} failed`,
    find: (view, raised) =>
      byTally(tallies(view, { windowMs: failureWindow, figuresAge }), (queue, { done, failed }) => {
        const ended = done + failed;
        const isMeant = ended >= failureEndings;
        if (!isMeant || failed / ended <= kept(failureShare, raised.has(queue))) return null;
        const message = `${percent(failed / ended)} of the jobs of queue ${queue} that ended within ${last} failed: ${failed} of ${ended}.`;
        return { message, facts: { failed, ended, windowMs: failureWindow } };
      }),
  };
};

/** Until none has come for as long as the window: only then it is over. */
const deadLetters = (settings: AlertSettings): AlertRule => {
  const { deadLetters: most, deadLetterWindow: windowMs, figuresAge } = settings;
  const last = formatMs(windowMs);
  return {
    name: "dead-letters",
    severity: "warning",
    holdMs: 0,
    when: `${most} or more jobs of a queue became dead letters within ${last}`,
    find: (view, raised) =>
      byTally(tallies(view, { windowMs, figuresAge }), (queue, { failed }) => {
        if (failed < (raised.has(queue) ? 1 : most)) return null;
        const message = `${jobs(failed)} of queue ${queue} became dead letters within ${last}.`;
        return { message, facts: { failed, windowMs } };
      }),
  };
};

const backlogGrowing = (settings: AlertSettings): AlertRule => {
  const { backlog, backlogWindow: windowMs, figuresAge } = settings;
  const last = formatMs(windowMs);
  return {
    name: "backlog-growing",
    severity: "warning",
    holdMs: 0,
    when: `more jobs of a queue arrived than ended within ${last}, and more than ${backlog} are pending`,
    find: (view, raised) => {
      const census = freshCensus(view, figuresAge);
      return byTally(tallies(view, { windowMs, figuresAge }), (queue, tally) => {
        const { arrived } = tally;
        const ended = tally.done + tally.failed + tally.cancelled;
        const pending = pendingIn(census, queue);
        if (arrived <= ended || pending <= kept(backlog, raised.has(queue))) return null;
        const message = `Queue ${queue} grows: ${arrived} arrived and ${ended} ended within ${last}; ${jobs(pending)} pending.`;
        return { message, facts: { arrived, ended, pending, windowMs } };
      });
    },
  };
};

const figuresStale = ({ figuresAge }: AlertSettings): AlertRule => ({
  name: "figures-stale",
  severity: "warning",
  holdMs: 0,
  when: `nobody has counted for ${formatMs(figuresAge)}: other alerts may be missing`,
  find: ({ observation: { census }, now }) => {
    // Nobody has counted yet: that is as long ago as it was first seen.
    if (census === null) {
      const message = "Nobody has counted what stands where yet.";
      return [{ subject: "", message, facts: {}, holdMs: figuresAge }];
    }
    const ageMs = now - census.countedAt;
    if (ageMs <= oldest(census, figuresAge)) return [];
    const message = `Nobody has counted what stands where for ${formatMs(ageMs)}.`;
    return [{ subject: "", message, facts: { ageMs } }];
  },
});

/** Null: nobody has counted lately, so it tells nothing about now. */
function freshCensus({ observation: { census }, now }: AlertView, ageMs: number): Census | null {
  return census !== null && now - census.countedAt <= oldest(census, ageMs) ? census : null;
}

function oldest({ tookMs }: Census, ageMs: number): number {
  return Math.max(ageMs, tookMs * COUNTING_SHARES);
}

type Told = Pick<Trouble, "message" | "facts">;

function byQueue(
  census: Census | null,
  judge: (depth: QueueDepth, census: Census) => Told | null,
): Trouble[] | null {
  if (census === null) return null;
  return census.queues.flatMap((depth) => {
    const told = judge(depth, census);
    return told === null ? [] : [{ subject: depth.queue, ...told }];
  });
}

type Tally = Omit<MinuteFigures, "minute" | "queue" | "runMsSum" | "runMsMax">;

/** What happened in every queue within so many full minutes. Null: nobody has counted lately. */
function tallies(
  view: AlertView,
  { windowMs, figuresAge }: { windowMs: number; figuresAge: number },
): Map<string, Tally> | null {
  if (freshCensus(view, figuresAge) === null) return null;
  const { observation, now } = view;
  const fromAt = Math.floor(now / MINUTE_MS) * MINUTE_MS - windowMs;
  const found = new Map<string, Tally>();
  for (const figures of observation.minutes) {
    if (figures.minute >= fromAt) found.set(figures.queue, sum(found.get(figures.queue), figures));
  }
  return found;
}

function sum(tally: Tally | undefined, { arrived, done, failed, cancelled }: Tally): Tally {
  return {
    arrived: arrived + (tally?.arrived ?? 0),
    done: done + (tally?.done ?? 0),
    failed: failed + (tally?.failed ?? 0),
    cancelled: cancelled + (tally?.cancelled ?? 0),
  };
}

function byTally(
  found: Map<string, Tally> | null,
  judge: (queue: string, tally: Tally) => Told | null,
): Trouble[] | null {
  if (found === null) return null;
  return [...found].flatMap(([queue, tally]) => {
    const told = judge(queue, tally);
    return told === null ? [] : [{ subject: queue, ...told }];
  });
}

function pendingIn(census: Census | null, queue: string): number {
  return census?.queues.find((depth) => depth.queue === queue)?.counts.pending ?? 0;
}

/** The limit of what is not raised yet, and a lower one for what is. */
function kept(limit: number, isRaised: boolean): number {
  return isRaised ? limit * KEPT_SHARE : limit;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function jobs(count: number): string {
  return count === 1 ? "1 job" : `${count} jobs`;
}
