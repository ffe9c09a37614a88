/**
 * Raises and resolves alerts from the observations of monitors, and delivers them.
 *
 * Any number of processes do so at once; the database lets one of them make each change, and that process logs it. Nothing
 * here throws into the loop of a monitor: an outage of the database is logged once, and the next observation tries again.
 */
import { describeError } from "../core/error-record.ts";
import { StoreRefusedError } from "../core/errors.ts";
import type { Severity } from "../database/check.ts";
import { makeIds } from "../core/id.ts";
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import type { Observation } from "../monitoring/monitor.ts";
import type { WorkersStore } from "../registry/store.ts";
import { activeStates } from "../registry/worker-record.ts";
import {
  type Alert,
  type AlertRecord,
  type AlertRule,
  type AlertView,
  asSighted,
  OPEN_MAX,
  type Trouble,
} from "./alert.ts";
import { Deliveries } from "./delivery.ts";
import { type AlertsFilter, listAlerts } from "./history.ts";
import { type AlertOptions, alertSettings } from "./options.ts";
import { alertRules, ruleNameOf } from "./rules.ts";
import type { AlertsStore } from "./store.ts";
import { type WebhookOptions, Webhooks } from "./webhook.ts";

/** The parts of the store that are used here. */
interface Stores {
  readonly alerts: AlertsStore;
  readonly jobs: JobsStore;
  readonly workers: WorkersStore;
}

/** What the alerts need: a Holdfast, their rules and their webhooks. */
export interface AlertsParts {
  /** The Holdfast that is watched. */
  readonly holdfast: {
    /** @internal */
    readonly store: Stores;
    /** Its clock and timers. */
    readonly runtime: Runtime;
    /** Gets a line for each alert and each failed delivery. */
    readonly logger: Logger;
  };
  /** The thresholds. */
  readonly rules?: AlertOptions;
  /** The targets. All processes should have the same, because the process that makes a change chooses its targets. */
  readonly webhooks?: WebhookOptions;
}

/** Of one rule. More are left out, open alerts last. */
const SUBJECTS_MAX = 50;

const WORKERS_MAX = 1_000;

/** Older observations say nothing about now: the process may have been suspended. */
const OBSERVATION_MS_MAX = 60_000;

/** Alerts that no rule can judge any more are over after this long: the rule is gone, or a canary is no longer sent. */
const FORGOTTEN_MS = 24 * 3_600_000;

/** How long resolved alerts are kept. */
const KEEP_RESOLVED_MS = 30 * 24 * 3_600_000;

const PRUNE_EVERY_MS = 3_600_000;

const PRUNE_MAX = 500;

const LEVELS = {
  info: "info",
  warning: "warn",
  critical: "error",
} as const satisfies Record<Severity, keyof Logger>;

/** Watches a database, raises alerts, and delivers them to webhooks. */
export class Alerts {
  /** The rules that are evaluated, with the given thresholds. */
  readonly rules: readonly AlertRule[];
  readonly #store: Stores;
  readonly #runtime: Runtime;
  readonly #logger: Logger;
  readonly #targets: readonly string[];
  readonly #deliveries: Deliveries | null;
  readonly #quietMs: number;
  readonly #newId: () => string;
  #looking: Promise<void> | null = null;
  #isStopped = false;
  #failures = 0;
  #prunedAt = -Infinity;

  constructor({ holdfast, rules, webhooks }: AlertsParts) {
    const { store, runtime, logger } = holdfast;
    this.rules = alertRules(rules);
    this.#quietMs = alertSettings(rules).quiet;
    this.#store = store;
    this.#runtime = runtime;
    this.#logger = logger;
    this.#newId = makeIds(runtime);
    const hooks = webhooks === undefined ? null : new Webhooks(webhooks, runtime);
    this.#targets = hooks?.targets ?? [];
    this.#deliveries =
      hooks === null || hooks.targets.length === 0
        ? null
        : new Deliveries({ store, runtime, logger, webhooks: hooks });
  }

  /** Never throws. One at a time: an observation that arrives while the previous one is written is left out. */
  async observe(observation: Observation): Promise<void> {
    const isOld = this.#runtime.now() - observation.at > OBSERVATION_MS_MAX;
    if (this.#isStopped || this.#looking !== null || isOld) return;
    this.#looking = this.#look(observation).then(
      () => this.#works(),
      (error: unknown) => this.#fails(error),
    );
    await this.#looking;
    this.#looking = null;
  }

  /** Open alerts: the worst first, then the oldest. With `all`: the newest first. */
  list(filter?: AlertsFilter): Promise<Alert[]> {
    return listAlerts(this.#store.alerts, filter);
  }

  /** Runs the deliveries that are due now. Returns how many. */
  async sendDue(): Promise<number> {
    return (await this.#deliveries?.sendDue()) ?? 0;
  }

  /** Stops watching. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#looking;
    await this.#deliveries?.stop();
  }

  async #look(observation: Observation): Promise<void> {
    const { now, alerts } = await this.#store.alerts.open(OPEN_MAX);
    const view: AlertView = { observation, now, worked: await this.#worked() };
    const open = Map.groupBy(alerts, ({ rule }) => ruleNameOf(rule));
    for (const rule of this.rules) {
      await this.#apply(rule, view, open.get(rule.name) ?? []);
      open.delete(rule.name);
    }
    // The rest belongs to rules that this version does not know.
    for (const others of open.values()) await this.#forget(others, now);
    await this.#prune();
  }

  /** The queues that workers take jobs from, registered or not; a stopping worker takes none. */
  async #worked(): Promise<ReadonlySet<string> | null> {
    const workers = await this.#store.workers.list({ alive: true, limit: WORKERS_MAX });
    if (workers.length === WORKERS_MAX) return null;
    const active = workers.filter(({ status }) => activeStates.some((state) => state === status));
    const outside = await this.#store.workers.outsideQueues();
    return new Set([...active.flatMap(({ queues }) => queues), ...outside]);
  }

  async #apply(rule: AlertRule, view: AlertView, open: readonly AlertRecord[]): Promise<void> {
    const raised = open.filter(({ status }) => status === "raised");
    const found = this.#find(rule, view, new Set(raised.map(({ subject }) => subject)));
    if (found === null) return this.#forget(open, view.now);
    const known = new Set(open.map(keyOf));
    const sighted = found
      .map((trouble) => asSighted(rule, trouble))
      .toSorted((a, b) => Number(known.has(keyOf(b))) - Number(known.has(keyOf(a))))
      .slice(0, SUBJECTS_MAX);
    for (const one of sighted) await this.#note(one);
    const held = new Set(sighted.map(keyOf));
    for (const alert of open) if (!held.has(keyOf(alert))) await this.#clear(alert, this.#quietMs);
  }

  /** A rule that throws cannot tell. */
  #find(rule: AlertRule, view: AlertView, raised: ReadonlySet<string>): readonly Trouble[] | null {
    try {
      return rule.find(view, raised);
    } catch (error) {
      const facts = { event: "alert:rule-failed", rule: rule.name, err: error };
      this.#logger.error(facts, `the alert rule ${rule.name} failed`);
      return null;
    }
  }

  async #note(sighted: ReturnType<typeof asSighted>): Promise<void> {
    const { rule, subject, severity, message } = sighted;
    try {
      const sighting = { ...sighted, id: this.#newId(), targets: this.#targets };
      const { change, id } = await this.#store.alerts.note(sighting);
      if (change !== "raised") return;
      const facts = { event: "alert:raised", alert: id, rule, subject, severity };
      this.#logger[LEVELS[severity]](facts, `alert raised: ${message}`);
      this.#deliveries?.wake();
    } catch (error) {
      // The database refused this alert; it may accept others.
      if (!(error instanceof StoreRefusedError)) throw error;
      const facts = { event: "alert:not-written", rule, subject, err: error };
      this.#logger.error(facts, `alert not written: ${message}`);
    }
  }

  async #clear(alert: AlertRecord, quietMs: number): Promise<void> {
    const { id, rule, subject, severity, message, seenAt } = alert;
    const targets = this.#targets;
    const clearing = { alert: id, id: this.#newId(), seenAt, quietMs, targets };
    if ((await this.#store.alerts.clear(clearing)) !== "resolved") return;
    const facts = { event: "alert:resolved", alert: id, rule, subject, severity };
    this.#logger.info(facts, `alert resolved: ${message}`);
    this.#deliveries?.wake();
  }

  async #forget(open: readonly AlertRecord[], now: number): Promise<void> {
    for (const alert of open)
      if (now - alert.seenAt >= FORGOTTEN_MS) await this.#clear(alert, FORGOTTEN_MS);
  }

  async #prune(): Promise<void> {
    const now = this.#runtime.monotonic();
    if (now - this.#prunedAt < PRUNE_EVERY_MS) return;
    const pruned = await this.#store.alerts.prune({ forMs: KEEP_RESOLVED_MS, limit: PRUNE_MAX });
    // After a full batch there may be more: the next observation continues.
    if (pruned < PRUNE_MAX) this.#prunedAt = now;
  }

  #works(): void {
    if (this.#failures === 0) return;
    this.#logger.info({ failures: this.#failures }, "alerts: working again");
    this.#failures = 0;
  }

  #fails(error: unknown): void {
    if (this.#failures === 0) {
      const { name, message } = describeError(error);
      this.#logger.error({ err: error }, `alerts: ${name}: ${message}`);
    }
    this.#failures += 1;
  }
}

function keyOf({ rule, subject }: { readonly rule: string; readonly subject: string }): string {
  return JSON.stringify([rule, subject]);
}
