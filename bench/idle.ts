/**
 * What does a worker cost that has nothing to do? `npm run bench:idle`
 *
 * One worker on each engine, in a process of its own, left alone for a minute: its CPU time, its memory, and the
 * statements that its server received, by the server's own log. Therefore the servers are always of the bench's own. The
 * worker runs from compiled JavaScript, as it does for those who install the package: compiling TypeScript takes memory. The
 * same for the commands `holdfast work` and `holdfast start`, on SQLite, also after a thousand jobs.
 *
 * Environment: SECONDS (60), ENGINES=sqlite,postgres,mariadb.
 */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { startRedis } from "../test/support/servers.ts";
import { compilePackage } from "./compiled.ts";
import { numberFrom, wordsFrom } from "./environment.ts";
import { printTable, progress, whole } from "./figures.ts";
import { SQL_ENGINES, type SqlEngine } from "./fill.ts";
import { idleCommands } from "./idle/commands.ts";
import { lookAtMachine, sayHowQuiet } from "./machine.ts";
import { openWitness, type Heard } from "./witness.ts";

const SECONDS = numberFrom("SECONDS", 60);
/** A worker that has just started still opens connections, looks around, and prunes. */
const SETTLE_MS = 10_000;
/** The statements that are told one by one: the most frequent ones. */
const FREQUENT_MAX = 6;

/** The worker's process. It says what it has used whenever it is asked. */
const PROGRAM = `
import { defineTask, openHoldfast } from "./index.js";
const [, , url, redis] = process.argv;
const holdfast = await openHoldfast(url, { redis });
const noop = defineTask({ name: "noop", async run() {} });
await holdfast.startWorker({ tasks: [noop] });
process.on("message", () => process.send({ cpu: process.cpuUsage(), rss: process.memoryUsage.rss() }));
process.on("disconnect", () => process.exit());
process.send("ready");
`;

interface Used {
  readonly cpu: { readonly user: number; readonly system: number };
  readonly rss: number;
}

/** What is left alone. */
interface Subject {
  readonly name: string;
  readonly engine: SqlEngine;
  /** Whether a Redis wakes it. */
  readonly redis: boolean;
}

const SUBJECTS: readonly Subject[] = [
  { name: "SQLite", engine: "sqlite", redis: false },
  { name: "PostgreSQL", engine: "postgres", redis: false },
  { name: "MariaDB", engine: "mariadb", redis: false },
  { name: "MariaDB with Redis", engine: "mariadb", redis: true },
];

interface Idled {
  readonly name: string;
  readonly heard: Heard | null;
  readonly cpuShare: number;
  readonly rss: number;
}

async function idle({ name, engine, redis }: Subject, program: string): Promise<Idled> {
  await using witness = await openWitness(engine);
  await using waker = redis ? await startRedis() : null;
  const args = [witness.url, waker?.url ?? ""];
  const worker = fork(program, args, { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const died = once(worker, "exit").then(() => {
    throw new Error(`the worker on ${name} ended`);
  });
  died.catch(() => {}); // no caller may be waiting for it
  await Promise.race([once(worker, "message"), died]);
  await pause(SETTLE_MS);
  const startedAt = performance.now();
  const before = await Promise.race([used(worker), died]);
  await witness.begin();
  await Promise.race([pause(SECONDS * 1_000), died]);
  const heard = await witness.end();
  const after = await Promise.race([used(worker), died]);
  const ms = performance.now() - startedAt;
  worker.disconnect();
  await died.catch(() => {}); // the database goes after it
  return { name, heard, cpuShare: (cpuMs(after) - cpuMs(before)) / ms, rss: after.rss };
}

async function used(worker: ChildProcess): Promise<Used> {
  worker.send("how much?");
  const [answer] = (await once(worker, "message")) as [Used];
  return answer;
}

function cpuMs({ cpu }: Used): number {
  return (cpu.user + cpu.system) / 1_000;
}

function perMinute(count: number): string {
  return whole((count / SECONDS) * 60);
}

function rowFor({ name, heard, cpuShare, rss }: Idled): string[] {
  const statements = heard === null ? "–" : perMinute(heard.statements.length);
  return [name, statements, `${(cpuShare * 100).toFixed(2)} %`, `${whole(rss / 1e6)} MB`];
}

/** What the statements are, most frequent first. */
function printFrequent({ name, heard }: Idled): void {
  if (heard === null) return;
  const counts = Map.groupBy(heard.statements, (text) => text);
  const frequent = [...counts]
    .map(([text, all]) => ({ text, count: all.length }))
    .toSorted((a, b) => b.count - a.count);
  console.log(`\n${name}, ${heard.source}, a minute:`);
  for (const { text, count } of frequent.slice(0, FREQUENT_MAX)) {
    console.log(`  ${perMinute(count).padStart(6)}  ${text}`);
  }
}

async function main(): Promise<void> {
  const machine = await lookAtMachine();
  sayHowQuiet(machine);
  const engines = wordsFrom("ENGINES", SQL_ENGINES);
  const subjects = SUBJECTS.filter(({ engine }) => engines.includes(engine));
  const program = join(await compilePackage(), "idle-worker.mjs");
  writeFileSync(program, PROGRAM);
  progress(`idle for ${SECONDS} s: ${subjects.map(({ name }) => name).join(", ")}`);
  const ended = await Promise.allSettled(subjects.map((subject) => idle(subject, program)));
  const idled = ended.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  console.log(`\nAn idle worker at its defaults for ${SECONDS} s.\n`);
  printTable(["idle worker on", "statements a minute", "of a core", "memory"], idled.map(rowFor));
  for (const each of idled) printFrequent(each);
  if (process.platform === "linux") {
    await idleCommands({ seconds: SECONDS, settleMs: SETTLE_MS });
  }
  console.log(`\nMachine: ${machine.words}.`);
  for (const [index, each] of ended.entries()) {
    if (each.status === "fulfilled") continue;
    console.log(`LEFT OUT: ${subjects[index]?.name}: ${String(each.reason)}`);
    process.exitCode = 1;
  }
}

await main();
