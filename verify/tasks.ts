/**
 * The tasks of a run: with steps, effects, rows, naps, events and calls. Each logs an act before it, and returns its
 * epoch: the row itself shows only whose lease it was.
 */
import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { defineEvent } from "../src/core/event.ts";
import { type AnyTask, type Context, defineTask } from "../src/core/task.ts";
import { sleep, systemRuntime } from "../src/core/runtime.ts";
import type { Charges } from "./check/history.ts";
import type { ProcessLog } from "./process.ts";
import type { Input } from "./plan.ts";

export const LEDGER = "verify_ledger";

export const packed = defineEvent<{ n: number }>({ name: "packed" });

const FLAKY_TRIES = 2;

/** A kill is not the job's fault, so no job may run out of attempts because of kills. */
const INNOCENT = { maxAttempts: 1_000, backoff: { initial: "10ms", max: "200ms" } } as const;

const work = (ms: number): Promise<void> => sleep(systemRuntime, ms);

const child = defineTask({
  name: "child",
  retry: INNOCENT,
  async run({ n, ms }: Input) {
    await work(ms);
    return n * 2;
  },
});

export const plain = defineTask({
  name: "plain",
  retry: INNOCENT,
  async run({ n, ms }: Input, ctx) {
    await work(ms);
    return { n, epoch: ctx.fence.epoch };
  },
});

/** Tasks that save nothing, and tasks that only wait. */
const simple: readonly AnyTask[] = [
  child,
  plain,
  defineTask({
    name: "flaky",
    retry: INNOCENT,
    async run({ n, ms }: Input, ctx) {
      await work(ms);
      if (ctx.attempt <= FLAKY_TRIES) throw new Error("not yet");
      return { n, epoch: ctx.fence.epoch };
    },
  }),
  defineTask({
    name: "governed",
    retry: INNOCENT,
    async run({ n, ms }: Input, ctx) {
      await work(ms);
      return { n, epoch: ctx.fence.epoch };
    },
  }),
  defineTask({
    name: "tick",
    retry: INNOCENT,
    run: ({ n }: Input, ctx) => ({ n, epoch: ctx.fence.epoch }),
  }),
  defineTask({
    name: "flow",
    retry: INNOCENT,
    async run({ n, ms }: Input, ctx) {
      await work(ms);
      // How many jobs lead to this one, along all ways: shows that it reads the results of all.
      let ways = 1;
      for await (const { result } of ctx.dependencies()) ways += (result as { ways: number }).ways;
      return { n, ways, epoch: ctx.fence.epoch };
    },
  }),
  defineTask({
    name: "doomed",
    retry: { ...INNOCENT, maxAttempts: 2 },
    run(): { n: number } {
      throw new Error("never");
    },
  }),
  defineTask({
    name: "awaiting",
    retry: INNOCENT,
    async run({ n }: Input, ctx) {
      const said = await ctx.event(packed, String(n));
      return { n: said.n, epoch: ctx.fence.epoch };
    },
  }),
  defineTask({
    name: "parent",
    retry: INNOCENT,
    async run({ n, ms }: Input, ctx) {
      const doubled = await ctx.call(child, { n, ms });
      return { n, child: doubled, epoch: ctx.fence.epoch };
    },
  }),
];

export function tasksOf(parts: {
  readonly processLog: ProcessLog;
  readonly bank: string;
}): AnyTask[] {
  const { processLog, bank } = parts;
  const begin = ({ fence: { id, epoch } }: Context, step: string): void =>
    processLog.say({ f: "body", job: id, epoch, step });
  const look = async (ctx: Context, key: string): Promise<number | null> => {
    const found = await Bank.find(bank, key);
    const { id, epoch } = ctx.fence;
    processLog.say({ f: "asked", job: id, epoch, step: "charge/1", found: found !== null });
    return found;
  };
  const charge = (ctx: Context, n: number, key: string): Promise<number> => {
    begin(ctx, "charge/1");
    return Bank.charge(bank, key, n * 100);
  };
  return [
    ...simple,
    defineTask({
      name: "order",
      retry: INNOCENT,
      async run({ n, ms }: Input, ctx) {
        ctx.log("begins", { n });
        const cents = await ctx.step("quote", async () => {
          begin(ctx, "quote/1");
          await work(ms);
          return n * 100;
        });
        await ctx.effect("charge", ({ key }) => charge(ctx, n, key), {
          verify: ({ key }) => look(ctx, key),
        });
        await ctx.commit("book", (tx) => {
          begin(ctx, "book/1");
          const { id, epoch } = ctx.fence;
          return tx.query(`insert into ${LEDGER} (job_id, epoch) values ('${id}', ${epoch})`);
        });
        ctx.progress(1);
        return { n, paid: cents, epoch: ctx.fence.epoch };
      },
    }),
    defineTask({
      name: "doubtful",
      retry: INNOCENT,
      async run({ n }: Input, ctx) {
        await ctx.effect("charge", ({ key }) => charge(ctx, n, key));
        return { n, epoch: ctx.fence.epoch };
      },
    }),
    defineTask({
      name: "nap",
      retry: INNOCENT,
      async run({ n, ms }: Input, ctx) {
        await ctx.step("before", () => begin(ctx, "before/1"));
        await ctx.sleep("nap", ms);
        await ctx.step("after", () => begin(ctx, "after/1"));
        return { n, epoch: ctx.fence.epoch };
      },
    }),
  ];
}

// A service outside of the database, on loopback: it charges, honours idempotency keys, counts its calls, and sometimes
// loses the answer after it has charged.

/** Not imported: an import reads every name of the module, and one of these loads all of `fetch`, which is slow. */
const { Agent, createServer, request } = process.getBuiltinModule("node:http");

const HOST = "127.0.0.1";

/** One answer in this many charges is lost. */
const LOST_EVERY = 50;

const ANSWER_MS_MAX = 10_000;

interface Account {
  cents: number;
  calls: number;
}

export class Bank implements AsyncDisposable {
  readonly url: string;
  readonly #server: Server;
  readonly #accounts = new Map<string, Account>();
  #charges = 0;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://${HOST}:${(server.address() as AddressInfo).port}`;
    server.on("request", (asked: IncomingMessage, response: ServerResponse) =>
      this.#answer(asked, response),
    );
  }

  static async open(): Promise<Bank> {
    const server = createServer();
    server.listen(0, HOST);
    await once(server, "listening");
    return new Bank(server);
  }

  /** Called by a worker. */
  static async charge(bank: string, key: string, cents: number): Promise<number> {
    const url = `${bank}/charge?key=${encodeURIComponent(key)}&cents=${cents}`;
    return Number(await ask(url, "POST"));
  }

  /** The cents charged under a key, or null. */
  static async find(bank: string, key: string): Promise<number | null> {
    const cents = await ask(`${bank}/find?key=${encodeURIComponent(key)}`, "GET");
    return cents === "" ? null : Number(cents);
  }

  get charges(): Charges[] {
    return [...this.#accounts].map(([key, { cents, calls }]) => ({ key, cents, calls }));
  }

  charged(key: string): number | null {
    return this.#accounts.get(key)?.cents ?? null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  #answer(asked: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(asked.url ?? "/", this.url);
    const key = searchParams.get("key") ?? "";
    if (pathname === "/find") return void response.end(String(this.charged(key) ?? ""));
    const account = this.#accounts.get(key) ?? {
      cents: Number(searchParams.get("cents")),
      calls: 0,
    };
    account.calls += 1;
    this.#accounts.set(key, account);
    this.#charges += 1;
    if (this.#charges % LOST_EVERY === 0) asked.socket.destroy();
    else response.end(String(account.cents));
  }
}

/** After the timeout the outcome of the request is unknown. Not `fetch`, which is slow to load. */
async function ask(url: string, method: string): Promise<string> {
  const asked = request(url, { method, agent, timeout: ANSWER_MS_MAX });
  asked.on("timeout", () => asked.destroy(new Error("the bank does not answer")));
  asked.end();
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  return text(answer);
}

const agent = new Agent({ keepAlive: true });
