/** Settings of the monitor and of webhooks, and the thresholds of alerts. */
import {
  DAY,
  list,
  SECOND,
  secret,
  setting,
  settled,
  span,
  webUrl,
  yesOrNo,
} from "../config/kind.ts";
import { type Duration, formatMs, toMs } from "../core/duration.ts";
import { invalid } from "../core/errors.ts";
import { by, type Checked, optionsOf, shownNumber, whole } from "../core/options.ts";
import { MONITOR_INTERVAL_MS } from "../monitoring/interval.ts";

export const WEBHOOKS_MAX = 10;

export const monitoringSettings = {
  monitor: settled({
    group: "Monitoring",
    env: ["MONITOR_INTERVAL_MS"],
    flag: "--monitor <duration>",
    file: "monitor",
    kind: span({ least: SECOND, most: DAY, off: true }),
    initial: MONITOR_INTERVAL_MS,
    about: "How often the monitor runs; 0 turns it off.",
  }),
  canary: settled({
    group: "Monitoring",
    env: ["HOLDFAST_CANARY_INTERVAL_MS"],
    flag: "--canary <duration>",
    file: "canary",
    kind: span({ least: SECOND, most: DAY, off: true }),
    initial: 0,
    about: "How often to enqueue a canary job that tests the whole system; 0 turns it off.",
  }),
  webhookUrls: setting({
    group: "Monitoring",
    env: ["HOLDFAST_WEBHOOK_URLS"],
    flag: null,
    file: "webhooks.urls",
    kind: list(webUrl(), WEBHOOKS_MAX),
    initial: null,
    about: "Comma-separated webhook URLs that receive alerts.",
  }),
  webhookSecret: setting({
    group: "Monitoring",
    env: ["HOLDFAST_WEBHOOK_SECRET"],
    flag: null,
    file: "webhooks.secret",
    kind: secret(),
    initial: null,
    about: "The key that signs webhook requests.",
  }),
  webhookPrivate: settled({
    group: "Monitoring",
    env: ["HOLDFAST_WEBHOOK_PRIVATE"],
    flag: null,
    file: "webhooks.private",
    kind: yesOrNo(),
    initial: false,
    about: "Whether webhook URLs may point to private networks.",
  }),
};

/** When a condition raises an alert. Every threshold has a default. */
export interface AlertOptions {
  /** A worker has sent no heartbeat for this long. Default 1 min. */
  readonly staleFor?: Duration;
  /** A stopping worker has not ended for this long. Default 2 min. */
  readonly hungFor?: Duration;
  /** Workers of one name run different builds for this long: longer than a deployment takes. Default 10 min. */
  readonly driftFor?: Duration;
  /** A lease has been expired for this long, and no worker reclaimed its job. Default 1 min. */
  readonly leaseFor?: Duration;
  /** Any other check has had a finding for this long; a critical finding raises an alert at once. Default 1 min. */
  readonly findingFor?: Duration;
  /** A pending job has waited for longer than this. Default 5 min. */
  readonly pendingAge?: Duration;
  /** A queue with pending jobs has had no live worker for this long. Default 2 min. */
  readonly unworkedFor?: Duration;
  /** More than this share of the jobs that ended have failed. Default 0.5. */
  readonly failureShare?: number;
  /** … of those that ended within this time. Default 5 min. */
  readonly failureWindow?: Duration;
  /** … if at least this many did. Default 20. */
  readonly failureEndings?: number;
  /** At least this many jobs became dead letters. Default 10. */
  readonly deadLetters?: number;
  /** … within this time. Default 10 min. */
  readonly deadLetterWindow?: Duration;
  /** More than this many jobs are pending, and more arrive than end. Default 1,000. */
  readonly backlog?: number;
  /** … over this time. Default 10 min. */
  readonly backlogWindow?: Duration;
  /** At least this many callers did not get a lock of a type in time, within 5 min. Default 5. */
  readonly lockTimeouts?: number;
  /** One in twenty acquisitions of a type of lock waited for longer than this, within 5 min. Default 1 s. */
  readonly lockWait?: Duration;
  /** A canary was not picked up within this time. Default 30 s. */
  readonly canaryLate?: Duration;
  /** A canary has not been picked up at all for this long. Default 5 min. */
  readonly canaryLost?: Duration;
  /** Jobs have not been counted for this long. Default 3 min. */
  readonly statsAge?: Duration;
  /** A raised alert is resolved when its condition has not been seen for this long. Default 1 min. */
  readonly quiet?: Duration;
}

const MINUTE = 60 * SECOND;

const lasting = (initial: Duration, [min, max]: readonly [min: number, max: number]) =>
  by((field, given: Duration) => toMs(field, given, { min, max }), initial);

const count = (initial: number) => whole(1, 1_000_000_000, initial);

const holds = [0, DAY] as const;

const ages = [SECOND, DAY] as const;

/** An observation covers a quarter of an hour. */
const windows = [MINUTE, 15 * MINUTE] as const;

const alertOptions = optionsOf<AlertOptions>()({
  staleFor: lasting("1m", holds),
  hungFor: lasting("2m", holds),
  driftFor: lasting("10m", holds),
  leaseFor: lasting("1m", holds),
  findingFor: lasting("1m", holds),
  pendingAge: lasting("5m", ages),
  unworkedFor: lasting("2m", holds),
  failureShare: by(checkShare, 0.5),
  failureWindow: lasting("5m", windows),
  failureEndings: count(20),
  deadLetters: count(10),
  deadLetterWindow: lasting("10m", windows),
  backlog: count(1_000),
  backlogWindow: lasting("10m", windows),
  lockTimeouts: count(5),
  lockWait: lasting("1s", [1, DAY]),
  canaryLate: lasting("30s", ages),
  canaryLost: lasting("5m", ages),
  statsAge: lasting("3m", [MINUTE, DAY]),
  quiet: lasting("1m", holds),
});

/** The same, durations in milliseconds. */
export type AlertSettings = Checked<typeof alertOptions.table>;

export function alertSettings(options: AlertOptions = {}): AlertSettings {
  const settings = alertOptions.read(options, { field: "alerts" });
  const { canaryLate, canaryLost } = settings;
  if (canaryLost >= canaryLate) return settings;
  throw invalid(
    "alerts.canaryLost",
    `must not be shorter than alerts.canaryLate (${formatMs(canaryLate)}): a canary is late before it is lost.`,
  );
}

function checkShare(field: string, share: number): number {
  if (typeof share === "number" && share > 0 && share < 1) return share;
  const problem = `must be a number between 0 and 1, such as 0.5 for half of them, not ${shownNumber(share)}.`;
  throw invalid(field, problem);
}
