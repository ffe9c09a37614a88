/**
 * The rules of alerts. A rule that cannot tell returns null, and its raised alerts stay as they are: missing counts do
 * not mean that nothing is wrong. Where a value moves around its limit, a raised alert stays until the value is well below.
 */
import { formatMs } from "../core/duration.ts";
import type { Finding } from "../database/check.ts";
import { LOCKS_OBSERVED_MS, type Observation } from "../monitoring/monitor.ts";
import type { Counts } from "../stats/counts.ts";
import type { MinuteStats } from "../stats/spans.ts";
import type { AlertRule, AlertView, Trouble } from "./alert.ts";
import { type AlertOptions, type AlertSettings, alertSettings } from "./options.ts";

const MINUTE_MS = 60_000;

/** Counting uses at most a hundredth of the time, so counts of a large database are older. Twice that age is too old. */
const COUNTING_SHARES = 200;

/** A raised alert resolves when the value is below this share of its limit. */
const KEPT_SHARE = 0.8;

/** In the order in which they are listed. */
export function alertRules(options: AlertOptions = {}): readonly AlertRule[] {
  const settings = alertSettings(options);
  return [
    singletonExceeded,
    workerStale(settings),
    workerHung(settings),
    versionDrift(settings),
    enqueuerDrift(settings),
    leaseExpired(settings),
    otherFinding(settings),
    pendingOld(settings),
    noWorker(settings),
    failureRate(settings),
    deadLetters(settings),
    backlogGrowing(settings),
    statsStale(settings),
    lockTimeouts(settings),
    lockContention(settings),
    canaryLate(settings),
    canaryLost(settings),
  ];
}

/** Null: the rule cannot tell. */
function troubles<T>(
  all: Iterable<T> | null | undefined,
  judge: (one: T) => Trouble | null,
): Trouble[] | null {
  if (all === null || all === undefined) return null;
  return Array.from(all, judge).filter((trouble) => trouble !== null);
}

// Statistics: job counts, and the totals of the last minutes. Without recent counts these rules cannot tell, which is an
// alert itself.

const pendingOld = ({ pendingAge, statsAge }: AlertSettings): AlertRule => ({
  name: "pending-old",
  severity: "warning",
  holdMs: 0,
  when: `the oldest pending job of a queue has waited for more than ${formatMs(pendingAge)}`,
  find: (view, raised) => {
    const recent = freshCounts(view, statsAge);
    return troubles(recent?.queues, ({ queue, counts, oldestPendingAt }) => {
      if (recent === null || oldestPendingAt === null) return null;
      const waitedMs = recent.countedAt - oldestPendingAt;
      if (waitedMs <= kept(pendingAge, raised.has(queue))) return null;
      const message = `The oldest pending job of queue ${queue} has waited for ${formatMs(waitedMs)}.`;
      return { subject: queue, message, facts: { waitedMs, pending: counts.pending } };
    });
  },
});

const noWorker = ({ unworkedFor, statsAge }: AlertSettings): AlertRule => ({
  name: "no-worker",
  severity: "critical",
  holdMs: unworkedFor,
  when: `a queue has had pending jobs and no live worker for ${formatMs(unworkedFor)}`,
  find: (view) => {
    const { worked } = view;
    if (worked === null) return null;
    return troubles(freshCounts(view, statsAge)?.queues, ({ queue, counts: { pending } }) => {
      if (pending === 0 || worked.has(queue)) return null;
      const message = `Queue ${queue} has ${jobs(pending)} pending but no live worker.`;
      return { subject: queue, message, facts: { pending } };
    });
  },
});

const failureRate = (settings: AlertSettings): AlertRule => {
  const { failureShare, failureWindow: windowMs, failureEndings, statsAge } = settings;
  const last = formatMs(windowMs);
  return {
    name: "failure-rate",
    severity: "critical",
    holdMs: 0,
    when: `more than ${percent(failureShare)} of at least ${failureEndings} jobs of a queue that ended within ${last} failed`,
    find: (view, raised) =>
      troubles(tallies(view, { windowMs, statsAge }), ([queue, { done, failed }]) => {
        const ended = done + failed;
        if (ended < failureEndings) return null;
        if (failed / ended <= kept(failureShare, raised.has(queue))) return null;
        const message = `${percent(failed / ended)} of the jobs of queue ${queue} that ended within ${last} failed: ${failed} of ${ended}.`;
        return { subject: queue, message, facts: { failed, ended, windowMs } };
      }),
  };
};

/** Resolves when no dead letter has been added for the length of the window. */
const deadLetters = (settings: AlertSettings): AlertRule => {
  const { deadLetters: most, deadLetterWindow: windowMs, statsAge } = settings;
  const last = formatMs(windowMs);
  return {
    name: "dead-letters",
    severity: "warning",
    holdMs: 0,
    when: `${most} or more jobs of a queue became dead letters within ${last}`,
    find: (view, raised) =>
      troubles(tallies(view, { windowMs, statsAge }), ([queue, { failed }]) => {
        if (failed < (raised.has(queue) ? 1 : most)) return null;
        const message = `${jobs(failed)} of queue ${queue} became dead letters within ${last}.`;
        return { subject: queue, message, facts: { failed, windowMs } };
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
      const depths = freshCounts(view, statsAge)?.queues;
      return troubles(tallies(view, { windowMs, statsAge }), ([queue, tally]) => {
        const { arrived } = tally;
        const ended = tally.done + tally.failed + tally.cancelled + tally.expired;
        const pending = depths?.find((depth) => depth.queue === queue)?.counts.pending ?? 0;
        if (arrived <= ended || pending <= kept(backlog, raised.has(queue))) return null;
        const message = `Queue ${queue} is growing: ${arrived} jobs arrived and ${ended} ended within ${last}; ${pending} are pending.`;
        return { subject: queue, message, facts: { arrived, ended, pending, windowMs } };
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
  for (const { minute, queue, arrived, done, failed, cancelled, expired } of observation.minutes) {
    if (minute < fromAt) continue;
    const tally = found.get(queue);
    found.set(queue, {
      arrived: arrived + (tally?.arrived ?? 0),
      done: done + (tally?.done ?? 0),
      failed: failed + (tally?.failed ?? 0),
      cancelled: cancelled + (tally?.cancelled ?? 0),
      expired: expired + (tally?.expired ?? 0),
    });
  }
  return found;
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

// Canaries. Where none is sent, these rules cannot tell.

const canaryLate = ({ canaryLate: mostMs }: AlertSettings): AlertRule => ({
  name: "canary-late",
  severity: "warning",
  holdMs: 0,
  when: `a canary was not picked up within ${formatMs(mostMs)}`,
  find: (view) =>
    troubles(waits(view), ({ queue, pickupMs, waitedMs }) => {
      if (waitedMs <= mostMs) return null;
      const has = pickupMs === null ? "has waited" : "waited";
      const message = `The canary of queue ${queue} ${has} for ${formatMs(waitedMs)} to be picked up.`;
      return { subject: queue, message, facts: { waitedMs } };
    }),
});

const canaryLost = ({ canaryLost: mostMs }: AlertSettings): AlertRule => ({
  name: "canary-lost",
  severity: "critical",
  holdMs: 0,
  when: `a canary has not been picked up at all for ${formatMs(mostMs)}`,
  find: (view) =>
    troubles(waits(view), ({ queue, pickupMs, waitedMs }) => {
      if (pickupMs !== null || waitedMs <= mostMs) return null;
      const message = `No worker has picked up the canary of queue ${queue} for ${formatMs(waitedMs)}.`;
      return { subject: queue, message, facts: { waitedMs } };
    }),
});

function waits({ observation: { canaries }, now }: AlertView) {
  if (canaries.length === 0) return null;
  return canaries.map((one) => ({ ...one, waitedMs: one.pickupMs ?? now - one.sentAt }));
}

// Findings of checks: some have a rule of their own, and one rule covers the rest.

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

const singletonExceeded: AlertRule = {
  name: "singleton-exceeded",
  severity: "critical",
  holdMs: 0,
  when: "more workers of a type are active than it has slots",
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
  find: ({ observation, now }) =>
    troubles(findingsOf(observation, CHECKS.expired), (finding) => {
      const offenders = finding.offenders.filter(
        ({ sinceAt }) => sinceAt === null || now - sinceAt >= leaseFor,
      );
      return offenders.length === 0 ? null : troubleOf({ ...finding, offenders }, "");
    }),
});

const otherFinding = ({ findingFor }: AlertSettings): AlertRule => ({
  name: OTHERS,
  severity: "warning",
  holdMs: findingFor,
  when: `another check of the doctor has reported a finding for ${formatMs(findingFor)}; immediately if it is critical`,
  find: ({ observation }) =>
    troubles(findingsOf(observation), (finding) => {
      const { check, severity } = finding;
      if (severity === "info" || MAPPED.has(check)) return null;
      return {
        ...troubleOf(finding, check),
        rule: `${PREFIX}${check}`,
        severity,
        ...(severity === "critical" ? { holdMs: 0 } : {}),
      };
    }),
});

/** Of one check, or all. Null: the checks did not run. */
function findingsOf({ findings, examined = true }: Observation, check?: string): Finding[] | null {
  return examined ? findings.filter((one) => check === undefined || one.check === check) : null;
}

function byOffender(observation: Observation, check: string): Trouble[] | null {
  const offenders = findingsOf(observation, check)?.flatMap((finding) =>
    finding.offenders.map((offender) => ({ ...offender, ...finding })),
  );
  return troubles(offenders, ({ problem, remedy, subject, detail, sinceAt, happened }) => ({
    subject,
    message: `${problem} ${subject}: ${detail}`,
    facts: { detail, remedy },
    sinceAt,
    ...(happened === true ? { holdMs: 0 } : {}),
  }));
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

// Locks: callers that gave up waiting, and types of locks that callers wait long for.

const WINDOW = formatMs(LOCKS_OBSERVED_MS);

/** Fewer acquisitions are not significant. */
const ACQUISITIONS_MIN = 20;

const lockTimeouts = ({ lockTimeouts: most }: AlertSettings): AlertRule => ({
  name: "lock-timeouts",
  severity: "warning",
  holdMs: 0,
  when: `${most} or more acquisitions of a type of lock timed out within ${WINDOW}`,
  find: ({ observation: { locks } }, raised) =>
    troubles(locks, ({ type, timeouts, acquisitions }) => {
      if (timeouts < (raised.has(type) ? 1 : most)) return null;
      const message = `${timeouts} of ${timeouts + acquisitions} requests for locks of type ${type} timed out within ${WINDOW}.`;
      return {
        subject: type,
        message,
        facts: { timeouts, acquisitions, windowMs: LOCKS_OBSERVED_MS },
      };
    }),
});

const lockContention = ({ lockWait }: AlertSettings): AlertRule => ({
  name: "lock-contention",
  severity: "warning",
  holdMs: 0,
  when: `one in twenty acquisitions of a type of lock waited for more than ${formatMs(lockWait)} within ${WINDOW}`,
  find: ({ observation: { locks } }, raised) =>
    troubles(locks, ({ type, acquisitions, waitMs }) => {
      const limitMs = kept(lockWait, raised.has(type));
      if (waitMs === null || acquisitions < ACQUISITIONS_MIN || waitMs.p95 <= limitMs) return null;
      const message = `Locks of type ${type} are contended: one in twenty acquisitions waited for more than ${formatMs(waitMs.p95)}.`;
      return {
        subject: type,
        message,
        facts: { p95Ms: waitMs.p95, p99Ms: waitMs.p99, acquisitions },
      };
    }),
});
