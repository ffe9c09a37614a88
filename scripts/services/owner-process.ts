/**
 * The process that owns servers on behalf of another. When the other one ends, however it does, the
 * channel between them closes, and the servers and their folder go.
 *
 * The other end is `guard.ts`.
 */
import { ServerPool, type StartOptions, type Started } from "./server-pool.ts";
import { KNOWN, TEMPLATES_VARIABLE, type ServerName } from "./names.ts";
import type { Sql } from "./scratch.ts";

/** Clients that block the cleanup for this long are abandoned. */
const END_LIMIT_MS = 30_000;

export type Request =
  | { readonly kind: "start"; readonly name: ServerName; readonly options: StartOptions }
  | { readonly kind: "stop" | "kill" | "restart" | "discard"; readonly server: number }
  | { readonly kind: "sweep"; readonly sweep: Sweep }
  | { readonly kind: "end" };

export type Reply =
  | { readonly kind: "value"; readonly call: number; readonly value: ServerFacts | null }
  | { readonly kind: "error"; readonly call: number; readonly message: string }
  | { readonly kind: "death"; readonly sentence: string };

/** Scratch databases to drop at the end, on a server that is not ours. */
export interface Sweep {
  readonly sql: Sql;
  readonly url: string;
  readonly prefix: string;
}

export interface ServerFacts {
  readonly server: number;
  readonly url: string;
  readonly port: number;
  readonly folder: string;
  readonly pid: number;
  readonly version: string;
  /** Where the data folders are that others may copy. */
  readonly templates: string;
}

const pool = new ServerPool(process.env[TEMPLATES_VARIABLE]);
const servers: Started[] = [];
const sweeps: Sweep[] = [];

async function answer(request: Request): Promise<ServerFacts | null> {
  switch (request.kind) {
    case "start":
      return start(request.name, request.options);
    case "sweep":
      sweeps.push(request.sweep);
      return null;
    case "end":
      await cleanUp();
      return null;
    default:
      return change(request.kind, request.server);
  }
}

async function start(name: ServerName, options: StartOptions): Promise<ServerFacts> {
  const started = await pool.start(name, options, (how) => {
    send({ kind: "death", sentence: `${KNOWN[name].label} ended by itself (${how}).` });
  });
  return facts(started, servers.push(started) - 1);
}

async function change(
  kind: "stop" | "kill" | "restart" | "discard",
  index: number,
): Promise<ServerFacts> {
  const started = servers[index];
  if (started === undefined) throw new Error(`There is no server ${index}.`);
  const { server } = started;
  if (kind === "discard") await pool.discard(server);
  else if (kind === "kill") await server.kill();
  else await server.stop();
  if (kind === "restart") await server.start();
  return facts(started, index);
}

function facts({ server, port, folder }: Started, index: number): ServerFacts {
  const { url, pid, version } = server;
  return { server: index, url, port, folder, pid, version, templates: pool.templates };
}

function send(reply: Reply): void {
  // The other process may be gone by now; then the answer has no reader.
  if (process.connected) process.send?.(reply, () => {});
}

async function cleanUp(): Promise<void> {
  await Promise.allSettled([pool.end(), ...sweeps.splice(0).map(dropScratch)]);
}

async function dropScratch({ sql, url, prefix }: Sweep): Promise<void> {
  const { dropAll } = await import("./scratch.ts"); // Most runs have servers of their own, and need no driver here.
  await dropAll(sql, url, prefix);
}

async function end(): Promise<void> {
  setTimeout(() => process.exit(1), END_LIMIT_MS).unref();
  await cleanUp();
  process.exit();
}

process.on("message", ({ call, request }: { call: number; request: Request }) => {
  void answer(request).then(
    (value) => send({ kind: "value", call, value }),
    (error: unknown) => send({ kind: "error", call, message: (error as Error).message }),
  );
});
process.on("disconnect", () => void end());
// Whatever goes wrong in here, no server stays behind.
process.on("uncaughtException", () => void end());
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"]) process.once(signal, () => void end());
