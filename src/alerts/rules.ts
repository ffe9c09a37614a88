/**
 * Alerts about statistics: job counts, and the totals of the last minutes.
 *
 * Without recent counts these rules say nothing, which is an alert itself. Where a value moves around its limit, a raised alert
 * stays until the value is well below.
 */
import { formatMs } from "../core/duration.ts";
import type { Finding } from "../core/finding.ts";
import type { LockTimes } from "../locks/stats.ts";
import {
  type CanaryReport,
  LOCKS_OBSERVED_MS,
  type Observation,
} from "../monitoring/observation.ts";
import type { Counts, QueueDepth } from "../stats/counts.ts";
import type { MinuteStats } from "../stats/minute-totals.ts";
import type { AlertRule, AlertView, Trouble } from "./alert.ts";
import { type AlertOptions, type AlertSettings, alertSettings } from "./options.ts";

const MINUTE_MS = 60_000;

/** Counting uses at most a hundredth of the time, so counts of a large database are older. Twice that age is too old. */
const COUNTING_SHARES = 200;

/** A raised alert resolves when the value is below this share of its limit. */
const KEPT_SHARE = 0.8;

function statsRules(settings: AlertSettings): readonly AlertRule[] {
  return [
    pendingOld(settings),
    noWorker(settings),
    failureRate(settings),
    deadLetters(settings),
    backlogGrowing(settings),
    statsStale(settings),
  ];
}

const pendingOld = ({ pendingAge, statsAge }: AlertSettings): AlertRule => ({
  name: "pending-old",
  severity: "warning",
  holdMs: 0,
  when: `the oldest pending job of a queue has waited for more than ${formatMs(pendingAge)}`,
  find: (view, raised) =>
    byQueue(freshCounts(view, statsAge), ({ queue, counts, oldestPendingAt }, { countedAt }) => {
      if (oldestPendingAt === null) return null;
      const waitedMs = countedAt - oldestPendingAt;
      if (waitedMs <= kept(pendingAge, raised.has(queue))) return null;
      const message = `The oldest pending job of queue ${queue} has waited for ${formatMs(waitedMs)}.`;
      return { message, facts: { waitedMs, pending: counts.pending } };
    }),
});

const noWorker = ({ unworkedFor, statsAge }: AlertSettings): AlertRule => ({
  name: "no-worker",
  severity: "critical",
  holdMs: unworkedFor,
  when: `a queue has had pending jobs and no live worker for ${formatMs(unworkedFor)}`,
  find: (view) => {
    const { worked } = view;
    if (worked === null) return null;
    return byQueue(freshCounts(view, statsAge), ({ queue, counts: { pending } }) => {
      if (pending === 0 || worked.has(queue)) return null;
      const message = `Queue ${queue} has ${jobs(pending)} pending but no live worker.`;
      return { message, facts: { pending } };
    });
  },
});

const failureRate = (settings: AlertSettings): AlertRule => {
  const { failureShare, failureWindow, failureEndings, statsAge } = settings;
  const last = formatMs(failureWindow);
  return {
    name: "failure-rate",
    severity: "critical",
    holdMs: 0,
    when: `more than ${percent(failureShare)} of at least ${failureEndings} jobs of a queue that ended within ${last} failed`,
    find: (view, raised) =>
      byTally(
        tallies(view, { windowMs: failureWindow, statsAge: statsAge }),
        (queue, { done, failed }) => {
          const ended = done + failed;
          const isMeant = ended >= failureEndings;
          if (!isMeant || failed / ended <= kept(failureShare, raised.has(queue))) return null;
          const message = `${percent(failed / ended)} of the jobs of queue ${queue} that ended within ${last} failed: ${failed} of ${ended}.`;
          return { message, facts: { failed, ended, windowMs: failureWindow } };
        },
      ),
  };
};

/** Resolves when no dead letter has come for the length of the window. */
const deadLetters = (settings: AlertSettings): AlertRule => {
  const { deadLetters: most, deadLetterWindow: windowMs, statsAge } = settings;
  const last = formatMs(windowMs);
  return {
    name: "dead-letters",
    severity: "warning",
    holdMs: 0,
    when: `${most} or more jobs of a queue became dead letters within ${last}`,
    find: (view, raised) =>
      byTally(tallies(view, { windowMs, statsAge: statsAge }), (queue, { failed }) => {
        if (failed < (raised.has(queue) ? 1 : most)) return null;
        const message = `${jobs(failed)} of queue ${queue} became dead letters within ${last}.`;
        return { message, facts: { failed, windowMs } };
      }),
  };
};

const backlogGrowing = (settings: AlertSettings): AlertRule => {
  const { backlog, backlogWindow: windowMs, statsAge } = settings;
  const last = formatMs(windowMs);
  return {
    name: "backlog-growing",
    severity: "warning",
    holdMs: 0,
    when: `more jobs of a queue arrived than ended within ${last}, and more than ${backlog} are pending`,
    find: (view, raised) => {
      const counts = freshCounts(view, statsAge);
      return byTally(tallies(view, { windowMs, statsAge: statsAge }), (queue, tally) => {
        const { arrived } = tally;
        const ended = tally.done + tally.failed + tally.cancelled;
        const pending = pendingIn(counts, queue);
        if (arrived <= ended || pending <= kept(backlog, raised.has(queue))) return null;
        const message = `Queue ${queue} is growing: ${arrived} arrived and ${ended} ended within ${last}; ${jobs(pending)} pending.`;
        return { message, facts: { arrived, ended, pending, windowMs } };
      });
    },
  };
};

const statsStale = ({ statsAge }: AlertSettings): AlertRule => ({
  name: "figures-stale",
  severity: "warning",
  holdMs: 0,
  when: `jobs have not been counted for ${formatMs(statsAge)}: other alerts may be missing`,
  find: ({ observation: { counts }, now }) => {
    // Never counted: the age is the time since this was first seen.
    if (counts === null) {
      const message = "Jobs have not been counted yet.";
      return [{ subject: "", message, facts: {}, holdMs: statsAge }];
    }
    const ageMs = now - counts.countedAt;
    if (ageMs <= oldest(counts, statsAge)) return [];
    const message = `Jobs have not been counted for ${formatMs(ageMs)}.`;
    return [{ subject: "", message, facts: { ageMs } }];
  },
});

/** Null: the counts are too old to say anything about now. */
function freshCounts({ observation: { counts }, now }: AlertView, ageMs: number): Counts | null {
  return counts !== null && now - counts.countedAt <= oldest(counts, ageMs) ? counts : null;
}

function oldest({ tookMs }: Counts, ageMs: number): number {
  return Math.max(ageMs, tookMs * COUNTING_SHARES);
}

type Told = Pick<Trouble, "message" | "facts">;

function byQueue(
  counts: Counts | null,
  judge: (depth: QueueDepth, counts: Counts) => Told | null,
): Trouble[] | null {
  if (counts === null) return null;
  return counts.queues.flatMap((depth) => {
    const told = judge(depth, counts);
    return told === null ? [] : [{ subject: depth.queue, ...told }];
  });
}

type Tally = Omit<MinuteStats, "minute" | "queue" | "runMsSum" | "runMsMax">;

/** Totals of every queue over that many full minutes. Null: the counts are too old. */
function tallies(
  view: AlertView,
  { windowMs, statsAge }: { windowMs: number; statsAge: number },
): Map<string, Tally> | null {
  if (freshCounts(view, statsAge) === null) return null;
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

function pendingIn(counts: Counts | null, queue: string): number {
  return counts?.queues.find((depth) => depth.queue === queue)?.counts.pending ?? 0;
}

/** The limit, or a lower one for a raised alert. */
function kept(limit: number, isRaised: boolean): number {
  return isRaised ? limit * KEPT_SHARE : limit;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function jobs(count: number): string {
  return count === 1 ? "1 job" : `${count} jobs`;
}

// All rules of alerts, in the order they are told in.
//
// A rule that cannot tell says so, and whatever it has raised stays as it is: that nobody counts any more does not mean that
// nothing is wrong.

export function alertRules(options: AlertOptions = {}): readonly AlertRule[] {
  const settings = alertSettings(options);
  return [
    ...findingRules(settings),
    ...statsRules(settings),
    ...lockRules(settings),
    ...canaryRules(settings),
  ];
}

// Alerts about canaries. Where none is sent, nothing can be told about any.

function canaryRules(settings: AlertSettings): readonly AlertRule[] {
  return [canaryLate(settings), canaryLost(settings)];
}

const canaryLate = ({ canaryLate: mostMs }: AlertSettings): AlertRule => ({
  name: "canary-late",
  severity: "warning",
  holdMs: 0,
  when: `a canary was not picked up within ${formatMs(mostMs)}`,
  find: (view) =>
    byCanary(view, ({ queue, pickupMs }, waitedMs) => {
      if (waitedMs <= mostMs) return null;
      const waits = pickupMs === null ? "has waited" : "waited";
      return `The canary of queue ${queue} ${waits} for ${formatMs(waitedMs)} to be picked up.`;
    }),
});

const canaryLost = ({ canaryLost: mostMs }: AlertSettings): AlertRule => ({
  name: "canary-lost",
  severity: "critical",
  holdMs: 0,
  when: `a canary has not been picked up at all for ${formatMs(mostMs)}`,
  find: (view) =>
    byCanary(view, ({ queue, pickupMs }, waitedMs) =>
      pickupMs !== null || waitedMs <= mostMs
        ? null
        : `Nobody has picked up the canary of queue ${queue} for ${formatMs(waitedMs)}.`,
    ),
});

function byCanary(
  { observation: { canaries }, now }: AlertView,
  judge: (canary: CanaryReport, waitedMs: number) => string | null,
): Trouble[] | null {
  if (canaries.length === 0) return null;
  return canaries.flatMap((canary) => {
    const waitedMs = canary.pickupMs ?? now - canary.sentAt;
    const message = judge(canary, waitedMs);
    return message === null ? [] : [{ subject: canary.queue, message, facts: { waitedMs } }];
  });
}

// Alerts about findings of checks: some have a duration of their own, one rule covers the rest.

const OFFENDERS_SHOWN_MAX = 10;

/** Checks that have a rule of their own. */
export const CHECKS = {
  tooMany: "worker-too-many",
  stale: "worker-stale",
  hung: "worker-hung",
  drift: "worker-version-drift",
  enqueuers: "enqueuer-version-drift",
  expired: "lease-expired",
} as const;

const MAPPED = new Set<string>(Object.values(CHECKS));

const OTHERS = "finding";

const PREFIX = `${OTHERS}:`;

/** The rule of an alert; alerts of checks share one rule. */
export function ruleNameOf(alertRule: string): string {
  return alertRule.startsWith(PREFIX) ? OTHERS : alertRule;
}

function findingRules(settings: AlertSettings): readonly AlertRule[] {
  return [
    singletonExceeded,
    workerStale(settings),
    workerHung(settings),
    versionDrift(settings),
    enqueuerDrift(settings),
    leaseExpired(settings),
    otherFinding(settings),
  ];
}

const singletonExceeded: AlertRule = {
  name: "singleton-exceeded",
  severity: "critical",
  holdMs: 0,
  when: "more workers of a name are active than it has slots",
  find: ({ observation }) => byOffender(observation, CHECKS.tooMany),
};

const workerStale = ({ staleFor }: AlertSettings): AlertRule => ({
  name: "worker-stale",
  severity: "warning",
  holdMs: staleFor,
  when: `another worker found it dead, or it has sent no heartbeat for ${formatMs(staleFor)}`,
  find: ({ observation }) => byOffender(observation, CHECKS.stale),
});

const workerHung = ({ hungFor }: AlertSettings): AlertRule => ({
  name: "worker-hung",
  severity: "warning",
  holdMs: hungFor,
  when: `another worker found it dead while it was stopping, or it has been stopping without a heartbeat for ${formatMs(hungFor)}`,
  find: ({ observation }) => byOffender(observation, CHECKS.hung),
});

/** The duration starts when the drift is first seen; how long an old build has run does not matter. */
const versionDrift = ({ driftFor }: AlertSettings): AlertRule => ({
  name: "version-drift",
  severity: "warning",
  holdMs: driftFor,
  when: `workers of one name have run different builds for ${formatMs(driftFor)}`,
  find: ({ observation }) =>
    byOffender(observation, CHECKS.drift)?.map((one) => ({ ...one, sinceAt: null })) ?? null,
});

const enqueuerDrift = ({ driftFor }: AlertSettings): AlertRule => ({
  name: "enqueuer-drift",
  severity: "warning",
  holdMs: driftFor,
  when: `a build without a running worker has enqueued jobs for ${formatMs(driftFor)}`,
  find: ({ observation }) =>
    byOffender(observation, CHECKS.enqueuers)?.map((one) => ({ ...one, sinceAt: null })) ?? null,
});

/** One alert for all leases: without maintenance there are many. Each must have expired that long ago. */
const leaseExpired = ({ leaseFor }: AlertSettings): AlertRule => ({
  name: "lease-expired",
  severity: "warning",
  holdMs: 0,
  when: `a lease expired ${formatMs(leaseFor)} ago and was not reclaimed`,
  find: ({ observation, now }) => {
    const found = findingsOf(observation, ({ check }) => check === CHECKS.expired);
    return (
      found?.flatMap((finding) => {
        const offenders = finding.offenders.filter(
          ({ sinceAt }) => sinceAt === null || now - sinceAt >= leaseFor,
        );
        return offenders.length === 0 ? [] : [troubleOf({ ...finding, offenders }, "")];
      }) ?? null
    );
  },
});

const otherFinding = ({ findingFor }: AlertSettings): AlertRule => ({
  name: OTHERS,
  severity: "warning",
  holdMs: findingFor,
  when: `another check of the doctor has a finding for ${formatMs(findingFor)}; a critical finding, at once`,
  find: ({ observation }) => {
    const others = findingsOf(
      observation,
      ({ check, severity }) => severity !== "info" && !MAPPED.has(check),
    );
    return (
      others?.map((finding) => ({
        ...troubleOf(finding, finding.check),
        rule: `${PREFIX}${finding.check}`,
        severity: finding.severity,
        ...(finding.severity === "critical" ? { holdMs: 0 } : {}),
      })) ?? null
    );
  },
});

function findingsOf(
  { findings, examined = true }: Observation,
  isMeant: (finding: Finding) => boolean,
): Finding[] | null {
  return examined ? findings.filter(isMeant) : null;
}

function byOffender(observation: Observation, name: string): Trouble[] | null {
  const found = findingsOf(observation, ({ check }) => check === name);
  return (
    found?.flatMap(({ problem, remedy, offenders }) =>
      offenders.map(({ subject, detail, sinceAt, happened }) => ({
        subject,
        message: `${problem} ${subject}: ${detail}`,
        facts: { detail, remedy },
        sinceAt,
        ...(happened === true ? { holdMs: 0 } : {}),
      })),
    ) ?? null
  );
}

function troubleOf({ problem, remedy, offenders, more }: Finding, subject: string): Trouble {
  const [first] = offenders;
  const shown = offenders.slice(0, OFFENDERS_SHOWN_MAX).map((offender) => offender.subject);
  return {
    subject,
    message: first === undefined ? problem : `${problem} ${first.subject}: ${first.detail}`,
    facts: { remedy, offenders: shown, more: more || offenders.length > shown.length },
  };
}

// Alerts about locks: callers that gave up waiting, and locks that most callers wait long for.

const WINDOW = formatMs(LOCKS_OBSERVED_MS);

/** Fewer acquisitions are not significant. */
const ACQUISITIONS_MIN = 20;

function lockRules(settings: AlertSettings): readonly AlertRule[] {
  return [lockTimeouts(settings), lockContention(settings)];
}

const lockTimeouts = ({ lockTimeouts: most }: AlertSettings): AlertRule => ({
  name: "lock-timeouts",
  severity: "warning",
  holdMs: 0,
  when: `${most} or more acquisitions of a type of lock timed out within ${WINDOW}`,
  find: ({ observation: { locks } }, raised) =>
    byType(locks, ({ type, timeouts, acquisitions }) => {
      if (timeouts < (raised.has(type) ? 1 : most)) return null;
      const message = `${timeouts} of ${timeouts + acquisitions} requests for locks of type ${type} timed out within ${WINDOW}.`;
      return { message, facts: { timeouts, acquisitions, windowMs: LOCKS_OBSERVED_MS } };
    }),
});

const lockContention = ({ lockWait }: AlertSettings): AlertRule => ({
  name: "lock-contention",
  severity: "warning",
  holdMs: 0,
  when: `one in twenty acquisitions of a type of lock waited for more than ${formatMs(lockWait)} within ${WINDOW}`,
  find: ({ observation: { locks } }, raised) =>
    byType(locks, ({ type, acquisitions, waitMs }) => {
      const limitMs = raised.has(type) ? lockWait * KEPT_SHARE : lockWait;
      if (waitMs === null || acquisitions < ACQUISITIONS_MIN || waitMs.p95 <= limitMs) return null;
      const message = `Locks of type ${type} are contended: one acquisition in twenty waited for more than ${formatMs(waitMs.p95)}.`;
      return { message, facts: { p95Ms: waitMs.p95, p99Ms: waitMs.p99, acquisitions } };
    }),
});

/** Null: the lock statistics could not be read this time. */
function byType(
  locks: readonly LockTimes[] | null | undefined,
  judge: (figures: LockTimes) => Pick<Trouble, "message" | "facts"> | null,
): Trouble[] | null {
  if (locks === null || locks === undefined) return null;
  return locks.flatMap((figures) => {
    const trouble = judge(figures);
    return trouble === null ? [] : [{ subject: figures.type, ...trouble }];
  });
}
