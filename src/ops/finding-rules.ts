/** Alerts about what checks find: those with a duration of their own, and one rule for all others. */
import { formatMs } from "../core/duration.ts";
import type { Finding } from "../core/finding.ts";
import type { AlertRule, Trouble } from "./alert-rule.ts";
import type { AlertSettings } from "./alert-settings.ts";
import type { Observation } from "./observation.ts";

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

/** Of which rule an alert is: those of checks share one. */
export function ruleNameOf(alertRule: string): string {
  return alertRule.startsWith(PREFIX) ? OTHERS : alertRule;
}

export function findingRules(settings: AlertSettings): readonly AlertRule[] {
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

/** From when the drift was first seen: that an old build has been running for long is no reason to hurry. */
const versionDrift = ({ driftFor }: AlertSettings): AlertRule => ({
  name: "version-drift",
  severity: "warning",
  holdMs: driftFor,
  when: `workers of one name run different builds for ${formatMs(driftFor)}`,
  find: ({ observation }) =>
    byOffender(observation, CHECKS.drift)?.map((one) => ({ ...one, sinceAt: null })) ?? null,
});

const enqueuerDrift = ({ driftFor }: AlertSettings): AlertRule => ({
  name: "enqueuer-drift",
  severity: "warning",
  holdMs: driftFor,
  when: `a build that no worker runs enqueues jobs for ${formatMs(driftFor)}`,
  find: ({ observation }) =>
    byOffender(observation, CHECKS.enqueuers)?.map((one) => ({ ...one, sinceAt: null })) ?? null,
});

/** One alert for all of them: when nobody takes jobs back, there are many. Each lease has to be over for that long. */
const leaseExpired = ({ leaseFor }: AlertSettings): AlertRule => ({
  name: "lease-expired",
  severity: "warning",
  holdMs: 0,
  when: `a lease is over for ${formatMs(leaseFor)}, and nobody took its job back`,
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
  when: `another check of the doctor finds something for ${formatMs(findingFor)}; what is critical, at once`,
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
