/** What a step costs on the wire, in round trips: made by a whole worker, beside a transaction that a user makes alone. */
import { createConnection } from "mysql2/promise";
import { Client } from "pg";
import { type Context, defineTask, openHoldfast } from "../../src/index.ts";
import { scratchPlace } from "../places.ts";
import { CountingProxy } from "./counting-proxy.ts";

/** Those with a wire. */
export const SERVERS = ["postgres", "mariadb"] as const;
export type ServerEngine = (typeof SERVERS)[number];

export interface RoundTrips {
  readonly engine: ServerEngine;
  /** begin, insert, commit, by the driver alone. */
  readonly transaction: number;
  /** ctx.commit with the same insert. */
  readonly commit: number;
  readonly step: number;
  readonly effect: number;
}

/** Each is counted this often, one at a time. What else a worker sends now and then only adds, so the least counts. */
const TIMES = 20;
const RESULT_MS_MAX = 30_000;

const INSERT: Readonly<Record<ServerEngine, string>> = {
  postgres: "insert into shipment (job) values ($1)",
  mariadb: "insert into shipment (job) values (?)",
};

export async function countRoundTrips(engine: ServerEngine): Promise<RoundTrips> {
  await using place = await scratchPlace(engine);
  await using proxy = await CountingProxy.before(place.url);
  const transaction = await alone(engine, proxy);
  const count = (act: (ctx: Context) => Promise<unknown>): Promise<number> =>
    inWorker(proxy, TIMES, act);
  const insert = INSERT[engine];
  return {
    engine,
    transaction,
    commit: await count((ctx) => ctx.commit("book", (tx) => tx.query(insert, [ctx.id]))),
    step: await count((ctx) => ctx.step("quote", () => 1)),
    effect: await count((ctx) => ctx.effect("charge", () => 1)),
  };
}

async function least(times: number, once: () => Promise<number>): Promise<number> {
  const counted: number[] = [];
  for (let time = 0; time < times; time += 1) counted.push(await once());
  return Math.min(...counted);
}

/** Makes the table, and counts what the driver needs for a transaction with one insert. */
async function alone(engine: ServerEngine, proxy: CountingProxy): Promise<number> {
  await using user = await connectTo(engine, proxy.url);
  await user.query("create table shipment (job varchar(36) primary key)", []);
  let made = 0;
  return await least(TIMES, async () => {
    const before = proxy.trips;
    await user.query("begin", []);
    await user.query(INSERT[engine], [`alone-${(made += 1)}`]);
    await user.query("commit", []);
    return proxy.trips - before;
  });
}

interface User extends AsyncDisposable {
  query(text: string, values: readonly string[]): Promise<unknown>;
}

async function connectTo(engine: ServerEngine, url: string): Promise<User> {
  if (engine === "postgres") {
    const client = new Client({ connectionString: url });
    await client.connect();
    return {
      query: (text, values) => client.query(text, [...values]),
      [Symbol.asyncDispose]: () => client.end(),
    };
  }
  const connection = await createConnection(url);
  return {
    query: (text, values) => connection.query(text, [...values]),
    [Symbol.asyncDispose]: () => connection.end(),
  };
}

/** Jobs one after the other, each of which does this once. */
async function inWorker(
  proxy: CountingProxy,
  times: number,
  act: (ctx: Context) => Promise<unknown>,
): Promise<number> {
  await using holdfast = await openHoldfast(proxy.url, { redis: "" });
  const counted = defineTask({
    name: "counted",
    async run(_input: null, ctx) {
      const before = proxy.trips;
      await act(ctx);
      return proxy.trips - before;
    },
  });
  await holdfast.startWorker({ tasks: [counted] });
  return await least(times, async () => {
    const job = await holdfast.enqueue(counted, null);
    return job.result({ timeout: RESULT_MS_MAX });
  });
}
