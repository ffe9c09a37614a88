/** Where alerts are tried: each database, opened by two monitors, with a clock that is the test's and a log that is kept. */
import type { Logger } from "../../src/core/log.ts";
import type { AlertsParts } from "../../src/ops/alerts.ts";
import { Alerts } from "../../src/ops/alerts.ts";
import type { Observation } from "../../src/ops/observation.ts";
import { openStore } from "../../src/store/open.ts";
import { sql } from "../../src/store/sql.ts";
import type { SqlStore } from "../../src/store/sql-store.ts";
import { tempFolder } from "../support/folder.ts";
import { testRuntime, type TestRuntime } from "../support/runtime.ts";
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
  readonly stores: readonly SqlStore[];
  readonly #drop: () => Promise<void> | void;
  #alerts: Alerts[] = [];

  constructor(stores: readonly SqlStore[], runtime: TestRuntime, drop: () => Promise<void> | void) {
    this.stores = stores;
    this.runtime = runtime;
    this.#drop = drop;
  }

  get store(): SqlStore {
    return this.stores[0] as SqlStore;
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
      census: { countedAt: now, tookMs: 5, queues: [] },
      minutes: [],
      findings: [],
      canaries: [],
      ...seen,
    };
  }

  /** Those that were ever raised, as `rule subject status`. */
  async raised(): Promise<string[]> {
    const alerts = await this.store.alerts({ which: "all", limit: 100 });
    return alerts.map(({ rule, subject, status }) => `${rule} ${subject} ${status}`).toSorted();
  }

  /** Who is to be told of what, as `rule event`. */
  async deliveries(): Promise<string[]> {
    const rows = await this.store.engine.all<{ rule: string; event: string }>(sql`
      select a.rule, d.event
        from holdfast.alert_delivery d
        join holdfast.alert a on a.id = d.alert_id`);
    return rows.map(({ rule, event }) => `${rule} ${event}`);
  }

  /** What became of those: how often each was tried, and whether it is over. */
  async tried(): Promise<{ event: string; tries: number; state: string; error: string | null }[]> {
    return this.store.engine.all(sql`
      select event, tries, error,
             case when delivered_at is not null then 'delivered'
                  when due_at is null then 'given up'
                  when error is null then 'new'
                  else 'due' end as state
        from holdfast.alert_delivery
       order by event`);
  }

  async empty(): Promise<void> {
    await this.#stop();
    await emptyTables(this.store.engine);
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
  const stores: SqlStore[] = [];
  for (let opened = 0; opened < openers; opened += 1) {
    stores.push((await openStore(url, { runtime })) as SqlStore);
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

export const sites = [
  { name: "SQLite", skip: false as string | false, open: () => onFile() },
  { name: "PostgreSQL", skip: missing("postgres"), open: () => onServer("postgres") },
  { name: "MariaDB", skip: missing("mysql"), open: () => onServer("mysql") },
] as const;
