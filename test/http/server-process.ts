/** A server in a process of its own, to be killed; it may die by itself at a point that the test names. */
import { openHoldfast } from "../../src/app/holdfast.ts";
import { startServer } from "../../src/app/server.ts";
import { openStore, type Store } from "../../src/app/store.ts";
import type { Limits } from "../../src/http-kernel/limits.ts";
import { order, tally } from "./shop.ts";

export interface Order {
  readonly url: string;
  readonly port?: number;
  readonly limits?: Partial<Limits>;
  readonly token?: string;
  /** How long a lock lasts without an extension, and how long a caller waits for it. */
  readonly locks?: { readonly lockTtl: number; readonly lockWait: number };
  /** The verb of the store in which it dies, before it is done or after. */
  readonly dies?: {
    readonly in: "jobs.enqueue" | "jobs.retry" | "requests.answer" | "items.change";
    readonly when: "before" | "after";
  };
}

const orders = JSON.parse(process.argv[2] ?? "{}") as Order;

function mortal(store: Store, { dies }: Order): Store {
  if (dies === undefined) return store;
  const [part, name] = dies.in.split(".") as [keyof Store, string];
  const on: object = store[part];
  const verb = Reflect.get(on, name).bind(on) as (...args: unknown[]) => Promise<unknown>;
  const die = (): void => void process.kill(process.pid, "SIGKILL");
  const fatal = async (...args: unknown[]): Promise<unknown> => {
    if (dies.when === "before") die();
    const done = await verb(...args);
    die();
    return done;
  };
  Object.assign(on, { [name]: fatal });
  return store;
}

const errors: string[] = [];
process.on("uncaughtException", (error) => errors.push(String(error.stack)));
process.on("unhandledRejection", (error) => errors.push(String(error)));

const logger = {
  debug() {},
  info() {},
  warn() {},
  error: (facts: object, message: string) =>
    void errors.push(`${message} ${JSON.stringify(facts)}`),
};
const holdfast = await openHoldfast(mortal(await openStore(orders.url), orders), orders.locks);
const { port = 0, limits = {}, token } = orders;
const server = await startServer({
  holdfast,
  port,
  limits,
  logger,
  workflows: [order, tally],
  ...(token === undefined ? {} : { token }),
});

process.on("message", (message) => {
  if (message !== "facts") return;
  (globalThis as { gc?: () => void }).gc?.();
  process.send?.({ rss: process.memoryUsage.rss(), errors });
});
process.on("disconnect", () => process.exit(0));
process.send?.({ port: server.port });
