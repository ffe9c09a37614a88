/** Some of the clients of the load: each sends its updates at times that were fixed before, one after the other. */
import { setTimeout as pause } from "node:timers/promises";
import { HoldfastError } from "../../src/index.ts";
import { openIn, type Mode } from "./open.ts";
import { ACTOR, part } from "./order.ts";

export interface ClientsConfig {
  readonly url: string;
  readonly mode: Mode;
  /** Of all clients, those in this process. */
  readonly clients: readonly number[];
  /** All of them together. */
  readonly all: number;
  readonly updates: number;
  /** Milliseconds between two updates of one client. */
  readonly everyMs: number;
  /** The children, by parent. */
  readonly parts: readonly (readonly string[])[];
}

export interface ClientsReport {
  /** Milliseconds that an update took, from when it was to be sent. */
  readonly took: readonly number[];
  /** By code. */
  readonly errors: readonly string[];
}

const config = JSON.parse(process.argv[2] ?? "") as ClientsConfig;
const { workflows, ...holdfast } = await opened();
const took: number[] = [];
const errors: string[] = [];

async function opened() {
  const all = await openIn(config.url, config.mode);
  await all.workflows.declare(part);
  return { workflows: all.workflows, close: () => all.close() };
}

/** Clients and parents are shared out evenly: who meets whom is left to the moment. */
async function client(number: number): Promise<void> {
  const { all, updates, everyMs, parts } = config;
  const firstAt = performance.now() + (number / all) * everyMs;
  for (let update = 0; update < updates; update += 1) {
    const at = firstAt + (update + Math.random() - 0.5) * everyMs;
    await pause(Math.max(0, at - performance.now()));
    const sentAt = performance.now();
    try {
      await workflows.updateChild(part, drawn(drawn(parts)), {
        patch: { [`client${number % 10}`]: update },
        actor: ACTOR,
      });
      took.push(performance.now() - sentAt);
    } catch (error) {
      errors.push(error instanceof HoldfastError ? error.code : String(error));
    }
  }
}

function drawn<T>(list: readonly T[]): T {
  return list[Math.floor(Math.random() * list.length)] as T;
}

async function run(): Promise<void> {
  await Promise.all(config.clients.map(client));
  const report: ClientsReport = { took, errors };
  process.send?.(report, () => process.disconnect());
  await holdfast.close();
}

process.once("message", () => void run());
process.send?.("ready");
