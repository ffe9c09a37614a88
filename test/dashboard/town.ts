/** A database that real workers filled, with names as long as people make them: what the page shows of it is held against SQL. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { Alerts } from "../../src/alerts/alerts.ts";
import { startServer, type Server } from "../../src/app/server.ts";
import { sql, type Sql } from "../../src/database/sql.ts";
import { Doctor } from "../../src/doctor/doctor.ts";
import { defineTask, type Holdfast, openHoldfast, type Worker } from "../../src/index.ts";
import { type Monitor, startMonitor } from "../../src/monitoring/monitor.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { until } from "../worker/observe.ts";
import { SILENT, Visitors } from "./browser.ts";
import { jobInDoubt } from "./shop.ts";

/** Names of 40 letters. */
export const long = (start: string): string => start.padEnd(40, "-of-the-northern-warehouse");

export const QUEUE = long("shipping-labels");
export const PAUSED = long("letters");
export const UNSERVED = long("invoices");
/** Each of its lanes runs one job at once. */
export const LANED = long("photos");
/** Its worker runs one job at once. */
export const FULL = long("videos");
export const CRASHED = long("images");
const BLOCKED = long("exports");
export const LANE = long("acme");

class CarrierTimeoutOfTheNorthernWarehouse extends Error {
  override readonly name = "CarrierTimeoutOfTheNorthernWarehouse";
}

interface Order {
  readonly fails?: "disk" | "address" | "refused" | "carrier";
}

function fail(how: NonNullable<Order["fails"]>): never {
  switch (how) {
    case "disk":
      throw new Error("disk full");
    case "address":
      throw new Error("no postal address");
    case "refused":
      throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
    case "carrier":
      throw new CarrierTimeoutOfTheNorthernWarehouse("no answer within 10 s");
  }
}

const ship = defineTask({
  name: long("order.ship"),
  queue: QUEUE,
  retry: { maxAttempts: 1 },
  run({ fails }: Order) {
    if (fails !== undefined) fail(fails);
    return "shipped";
  },
});

const pack = defineTask({
  name: long("order.pack"),
  queue: QUEUE,
  async run(_: unknown, ctx) {
    await ctx.step(long("weigh"), async () => ({ grams: 2_750 }));
    await ctx.effect(long("print the label"), async () => "printed", {
      verify: async () => "printed",
    });
  },
});

const remind = defineTask({
  name: long("cart.remind"),
  queue: QUEUE,
  retry: { maxAttempts: 3, backoff: { initial: "10m", max: "1h" } },
  run() {
    fail("carrier");
  },
});

function endless(name: string, queue: string) {
  return defineTask({
    name: long(name),
    queue,
    run: (_: unknown, ctx) => wait(600_000, undefined, { signal: ctx.signal }),
  });
}

const hold = endless("report.hold", QUEUE);
const develop = endless("photo.develop", LANED);
const encode = endless("video.encode", FULL);

const orders = defineWorkflow({
  name: long("order"),
  initial: long("open"),
  states: { [long("open")]: {}, [long("paid")]: {}, [long("shipped")]: { final: true } },
  moves: {
    [long("pay")]: { from: long("open"), to: long("paid") },
    [long("ship")]: { from: long("paid"), to: long("shipped") },
  },
});

const tasks = [ship, pack, remind, hold, develop, encode];

/** More failed jobs than a page has rows, and fewer of each kind. */
const FAILURES = { disk: 31, address: 23, refused: 12, carrier: 6 } as const;
const DONE = 60;
const HELD = 2;
const RETRIED = 4;
/** Of the flows and the batch, the runs of the schedules, and the job with steps. */
const MORE_ENDED = 8 + 2 + 3 + 1;

export interface TownIds {
  readonly packed: string;
  readonly doubt: string;
  readonly item: string;
  readonly workflow: string;
  readonly flow: string;
  readonly failedFlow: string;
  readonly schedule: string;
  readonly bulk: string;
}

/** What is slow to come about is made by workers with short limits. */
const settings = {
  version: long("build"),
  shutdown: "50ms",
  maintenanceInterval: "500ms",
} as const;

/** A critical alert would be the verdict of the overview. */
const ALERTS = { unworkedFor: "1h", pendingAge: "1s", findingFor: 0, failureShare: 0.9 } as const;

export class Town implements AsyncDisposable {
  readonly holdfast: Holdfast;
  readonly url: string;
  readonly workers: readonly Worker[];
  readonly ids: TownIds;
  readonly visitors: Visitors;
  readonly #alerts: Alerts;
  readonly #monitor: Monitor;
  readonly #server: Server;

  private constructor(parts: {
    readonly holdfast: Holdfast;
    readonly url: string;
    readonly workers: readonly Worker[];
    readonly ids: TownIds;
    readonly alerts: Alerts;
    readonly monitor: Monitor;
    readonly server: Server;
  }) {
    this.holdfast = parts.holdfast;
    this.url = parts.url;
    this.workers = parts.workers;
    this.ids = parts.ids;
    this.#alerts = parts.alerts;
    this.#monitor = parts.monitor;
    this.#server = parts.server;
    this.visitors = new Visitors(`${parts.server.url}/`);
  }

  static async open(url: string): Promise<Town> {
    const holdfast = await openHoldfast(url, { logger: SILENT });
    await fillQueues(holdfast);
    const victim = await startVictim(url, { queue: CRASHED, how: "endless" }, holdfast);
    await victim.kill();
    const workers = await startWorkers(holdfast);
    await fillWork(holdfast);
    const ids = await fillRest(holdfast);
    const alerts = new Alerts({ holdfast, rules: ALERTS });
    const monitor = startMonitor(holdfast, {
      interval: "1s",
      examine: () => new Doctor(holdfast).quick(),
      onObservation: (seen) => alerts.observe(seen),
    });
    const shown = { holdfast, tasks, workflows: [orders], logger: SILENT, monitor };
    const server = await startServer({ ...shown, port: 0 });
    return new Town({ holdfast, url, workers, ids, alerts, monitor, server });
  }

  all<Row>(query: Sql): Promise<Row[]> {
    return this.holdfast.store.db.engine.all<Row>(query);
  }

  async number(query: Sql): Promise<number> {
    const [row] = await this.all<{ n: number }>(query);
    return row?.n ?? 0;
  }

  /** Every job that can end has ended, and the killed worker was found. */
  async comeToRest(): Promise<void> {
    const ended = DONE + Object.values(FAILURES).reduce((sum, n) => sum + n, 0) + MORE_ENDED;
    await until(
      "all jobs have come to rest",
      async () =>
        (await this.number(sql`select count(*) as n from holdfast.finished`)) === ended &&
        (await this.number(
          sql`select count(*) as n from holdfast.waiting where status = 'retry'`,
        )) === RETRIED &&
        (await this.number(sql`select count(*) as n from holdfast.lease`)) === HELD + 2 &&
        (await this.lost()) === 1,
    );
  }

  /** How many workers were found dead. */
  lost(): Promise<number> {
    return this.number(sql`
      select count(*) as n from holdfast.worker where status = 'stopped' and reason = 'gone'`);
  }

  /** Errors are counted by kind once their minute is over: they are made older. */
  async foldErrors(): Promise<void> {
    const { store } = this.holdfast;
    const ago = 180_000;
    const now = Math.floor((await store.db.clock()) / 60_000) * 60_000;
    await store.db.engine.transaction(async (tx) => {
      await tx.run(
        store.db.engine.kind === "postgres"
          ? sql`drop trigger finished_is_written_once on holdfast.finished`
          : sql`drop trigger holdfast.finished_is_written_once`,
      );
      await tx.run(sql`update holdfast.finished set finished_at = finished_at - ${ago}`);
      await tx.run(sql`
        update holdfast.attempt set ended_at = ended_at - ${ago}, started_at = started_at - ${ago}
         where ended_at is not null`);
      await tx.run(sql`update holdfast.counts set folded_until = ${now - 2 * ago} where id = 1`);
    });
    while ((await store.stats.foldMinutes({ limit: 100 })) > 0);
  }

  /** A process whose task blocks its event loop, with two jobs. */
  async startBlocked(): Promise<Victim> {
    return startVictim(this.url, { queue: BLOCKED, how: "block", jobs: 2 }, this.holdfast);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.visitors.leave();
    await this.#server.close();
    await this.#monitor.stop();
    await this.#alerts.stop();
    for (const worker of this.workers) await worker.stop();
    await this.holdfast.close();
  }
}

async function fillQueues(holdfast: Holdfast): Promise<void> {
  await holdfast.queues.pause(PAUSED, {
    actor: long("on-call"),
    reason: long("the provider is down"),
  });
  await holdfast.queues.set(LANED, { eachLane: { concurrency: 1 } });
  for (let at = 0; at < 3; at += 1) await holdfast.enqueue("letter", null, { queue: PAUSED });
  for (let at = 0; at < 5; at += 1) await holdfast.enqueue("bill", null, { queue: UNSERVED });
}

async function startWorkers(holdfast: Holdfast): Promise<Worker[]> {
  return [
    await holdfast.startWorker({
      ...settings,
      name: long("shop-worker"),
      tasks: [ship, pack, remind, hold],
      workflows: [orders],
      concurrency: 8,
    }),
    await holdfast.startWorker({
      ...settings,
      name: long("photo-worker"),
      tasks: [develop],
      concurrency: 4,
    }),
    await holdfast.startWorker({
      ...settings,
      name: long("video-worker"),
      tasks: [encode],
      concurrency: 1,
    }),
  ];
}

async function fillWork(holdfast: Holdfast): Promise<void> {
  await holdfast.enqueueMany(
    ship,
    Array.from({ length: DONE }, () => ({})),
  );
  for (const [fails, jobs] of Object.entries(FAILURES) as ["disk", number][]) {
    await holdfast.enqueueMany(
      ship,
      Array.from({ length: jobs }, () => ({ fails })),
    );
  }
  for (let at = 0; at < RETRIED; at += 1) {
    await holdfast.enqueue(remind, null, { key: long(`cart-${at}`), tags: [long("acme")] });
  }
  for (let at = 0; at < HELD; at += 1) await holdfast.enqueue(hold, null);
  for (let at = 0; at < 3; at += 1) await holdfast.enqueue(develop, null, { lane: LANE });
  for (let at = 0; at < 3; at += 1) await holdfast.enqueue(encode, null);
}

async function fillRest(holdfast: Holdfast): Promise<TownIds> {
  const { id: packed } = await holdfast.enqueue(pack, null, { key: long("order-1") });
  const flows = await fillFlows(holdfast);
  const schedule = await fillSchedules(holdfast);
  await fillLocks(holdfast);
  const item = await holdfast.workflows.start(orders, {
    data: { cents: 1_999 },
    identifier: long("A-48213"),
    tenant: long("acme"),
    actor: long("shop-web"),
  });
  const { id: bulk } = await holdfast.bulk.start(
    { action: "cancel", filter: { queue: UNSERVED }, dryRun: true },
    { actor: long("on-call"), reason: long("to see") },
  );
  await holdfast.bulk.run(bulk);
  const doubt = await jobInDoubt(holdfast);
  return { packed, ...flows, schedule, item: item.id, workflow: orders.name, bulk, doubt };
}

/** One that is done, one that failed, one that waits, and a batch. */
async function fillFlows(holdfast: Holdfast): Promise<{ flow: string; failedFlow: string }> {
  const regions = ["north", "south", "west"];
  const build = (name: string, fails: Order, last: string) =>
    holdfast.flows.enqueue(long(name), (flow) => {
      const parts = regions.map((region, at) =>
        flow.job(ship, at === 0 ? fails : {}, { name: long(`fetch-${region}`) }),
      );
      flow.job(last, null, { after: parts, name: long("merge"), queue: PAUSED });
    });
  const { id: flow } = await build("monthly-report", {}, "letter");
  const { id: failedFlow } = await build("weekly-report", { fails: "address" }, "letter");
  await holdfast.flows.enqueue(long("daily-report"), (one) => one.job(ship, {}));
  await holdfast.batches.enqueue(long("newsletter"), [
    [ship, {}],
    [ship, {}],
  ]);
  return { flow, failedFlow };
}

async function fillSchedules({ schedules }: Holdfast): Promise<string> {
  const [nightly, hourly, paused] = [long("nightly-report"), long("hourly"), long("stock-sync")];
  await schedules.create({ name: nightly, task: ship, input: {}, cron: "30 2 * * *" });
  await schedules.create({ name: hourly, task: ship, input: { fails: "address" }, every: "30d" });
  await schedules.create({ name: paused, task: ship, input: {}, every: "30d" });
  await schedules.pause(paused, { actor: long("on-call") });
  for (const name of [nightly, nightly, hourly]) await schedules.run(name);
  return nightly;
}

async function fillLocks({ locks }: Holdfast): Promise<void> {
  const [stock, order] = [`${long("stock")}:${long("7")}`, `${long("order")}:42`];
  for (const key of [stock, order]) {
    await locks.acquire(key, { ttl: "1h", trace: long("sync") });
  }
  for (let times = 0; times < 2; times += 1) {
    await locks.acquire(stock, { wait: 20 }).catch(() => {});
  }
  for (let times = 0; times < 3; times += 1) {
    await locks.with(`${long("order")}:43`, {}, async () => {});
  }
}

export interface Victim {
  readonly name: string;
  kill(): Promise<void>;
}

/** A process with a worker whose job never ends. */
async function startVictim(
  url: string,
  { queue, how, jobs = 1 }: { queue: string; how: "endless" | "block"; jobs?: number },
  holdfast: Holdfast,
): Promise<Victim> {
  const [task, name] = [long(`${how}.run`), long(`${how}-worker`)];
  for (let at = 0; at < jobs; at += 1) await holdfast.enqueue(task, null, { queue });
  const program = join(import.meta.dirname, "victim.ts");
  const child = spawn(process.execPath, [program, url, name, queue, task, how], {
    stdio: ["ignore", "pipe", "inherit"],
    timeout: 120_000,
    killSignal: "SIGKILL",
  });
  const ended = once(child, "close");
  await once(child.stdout, "data");
  return {
    name,
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
