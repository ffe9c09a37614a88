/** Where alerts are tried: each database, opened by two monitors, with a clock that is the test's and a log that is kept. */
import type { Logger } from "../../src/core/log.ts";
import { ALERT_QUEUE } from "../../src/core/name.ts";
import { type AlertsParts, Alerts } from "../../src/alerts/alerts.ts";
import type { Observation } from "../../src/monitoring/monitor.ts";
import { openStore, type Store } from "../../src/app/store.ts";
import type { JobSummary } from "../../src/jobs/store.ts";
import { tempFolder } from "../support/folder.ts";
import { testRuntime, type TestRuntime } from "../support/runtime.ts";
import { notItsTurn, reasonOf } from "../support/scale.ts";
import { missing, scratchDatabase } from "../support/servers.ts";
import { emptyTables } from "../support/tables.ts";

export interface Line {
  readonly level: string;
  readonly facts: Record<string, unknown>;
  readonly message: string;
}

export class KeptLog implements Logger {
  readonly lines: Line[] = [];
  debug = this.#keep("debug");
  info = this.#keep("info");
  warn = this.#keep("warn");
  error = this.#keep("error");

  count(pattern: RegExp): number {
    return this.lines.filter(({ message }) => pattern.test(message)).length;
  }

  #keep(level: string) {
    return (facts: object, message: string): void =>
      void this.lines.push({ level, facts: facts as Record<string, unknown>, message });
  }
}

/** One database and several who have it open. */
export class Site implements AsyncDisposable {
  readonly runtime: TestRuntime;
  readonly log = new KeptLog();
  readonly stores: readonly Store[];
  readonly #drop: () => Promise<void> | void;
  #alerts: Alerts[] = [];

  constructor(stores: readonly Store[], runtime: TestRuntime, drop: () => Promise<void> | void) {
    this.stores = stores;
    this.runtime = runtime;
    this.#drop = drop;
  }

  get store(): Store {
    return this.stores[0] as Store;
  }

  /** One for each of the stores. */
  monitors(parts: Omit<AlertsParts, "holdfast"> = {}): Alerts[] {
    const { runtime, log: logger } = this;
    this.#alerts = this.stores.map(
      (store) => new Alerts({ holdfast: { store, runtime, logger }, ...parts }),
    );
    return this.#alerts;
  }

  /** All of them see the same at the same moment. */
  async observe(seen: Partial<Observation>): Promise<void> {
    const observation = this.observation(seen);
    await Promise.all(this.#alerts.map((alerts) => alerts.observe(observation)));
  }

  observation(seen: Partial<Observation> = {}): Observation {
    const now = this.runtime.now();
    return {
      at: now,
      counts: { countedAt: now, tookMs: 5, queues: [] },
      minutes: [],
      findings: [],
      canaries: [],
      ...seen,
    };
  }

  /** Those that were ever raised, as `rule subject status`. */
  async raised(): Promise<string[]> {
    const alerts = await this.store.alerts.list({ which: "all", limit: 100 });
    const raised = alerts.filter(({ raisedAt }) => raisedAt !== null);
    return raised.map(({ rule, subject, status }) => `${rule} ${subject} ${status}`).toSorted();
  }

  /** The deliveries that were enqueued, as `rule event`. */
  async deliveries(): Promise<string[]> {
    const found: string[] = [];
    for (const { key } of await this.#jobs()) {
      const [id = "", event = ""] = key?.split(".") ?? [];
      found.push(`${(await this.store.alerts.find(id))?.rule ?? ""} ${event}`);
    }
    return found;
  }

  /** What became of them, and how often each was tried. */
  async tried(): Promise<{ event: string; tries: number; state: string; error: string | null }[]> {
    const jobs = await this.#jobs();
    return jobs
      .map(({ key, attempts: tries, status: state, lastError: error }) => {
        return { event: key?.split(".")[1] ?? "", tries, state, error };
      })
      .toSorted((a, b) => (a.event < b.event ? -1 : 1));
  }

  #jobs(): Promise<JobSummary[]> {
    return this.store.jobs.list({ queue: ALERT_QUEUE, limit: 100 });
  }

  async empty(): Promise<void> {
    await this.#stop();
    await emptyTables(this.store.db.engine);
    this.log.lines.length = 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop();
    for (const store of this.stores) await store.close();
    await this.#drop();
  }

  async #stop(): Promise<void> {
    await Promise.all(this.#alerts.map((alerts) => alerts.stop()));
    this.#alerts = [];
  }
}

async function openSite(url: string, drop: () => Promise<void> | void, openers = 2): Promise<Site> {
  const runtime = testRuntime();
  const stores: Store[] = [];
  for (let opened = 0; opened < openers; opened += 1) {
    stores.push(await openStore(url, { runtime }));
  }
  await stores[0]?.migrate();
  return new Site(stores, runtime, drop);
}

export async function onFile(openers = 2): Promise<Site> {
  const folder = tempFolder();
  return openSite(`sqlite:${folder.file(".db")}`, () => folder[Symbol.dispose](), openers);
}

async function onServer(kind: "postgres" | "mysql"): Promise<Site> {
  const scratch = await scratchDatabase(kind);
  return openSite(scratch.url, () => scratch.drop());
}

/** A file, and the server whose turn it is. A long run has both servers. */
const skipOf = (kind: "postgres" | "mysql") => reasonOf(missing(kind), notItsTurn(kind));

export const sites = [
  { name: "SQLite", skip: false as string | false, open: () => onFile() },
  { name: "PostgreSQL", skip: skipOf("postgres"), open: () => onServer("postgres") },
  { name: "MariaDB", skip: skipOf("mysql"), open: () => onServer("mysql") },
] as const;
