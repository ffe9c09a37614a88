/**
 * plainjob, the fastest SQLite queue we know of, for comparison. Installed on demand beside the bench, never among the
 * package's own dependencies. It asks SQLite for synchronous=NORMAL; here it gets FULL, as we do.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { copies } from "./bench.ts";

const PEERS = fileURLToPath(new URL("./.peers/", import.meta.url));
const WANTED = { plainjob: "0.0.14", "better-sqlite3": "13" };
const INSTALL_MS_MAX = 120_000;

interface Driver {
  pragma(text: string): void;
  close(): void;
}

interface Queue {
  addMany(type: string, data: unknown[]): unknown;
  add(type: string, data: unknown): unknown;
  countJobs(filter: { status: number }): number;
  close(): void;
}

interface PlainjobModule {
  better(driver: Driver): object;
  defineQueue(options: { connection: object; logger: object }): Queue;
  defineWorker(
    type: string,
    run: (job: unknown) => Promise<void>,
    options: { queue: Queue; logger: object; onCompleted: () => void },
  ): { start(): Promise<void>; stop(): Promise<void> };
}

const DONE = 2;
const quiet = { error() {}, warn() {}, info() {}, debug() {} };

export interface Plainjob {
  drain(folder: string, payload: string, jobs: number): Promise<number>;
  enqueueBulk(folder: string, payload: string, jobs: number): number;
  enqueueOneByOne(folder: string, payload: string, jobs: number): number;
}

export async function loadPlainjob(): Promise<Plainjob> {
  install();
  const plainjob = (await import(entry("plainjob"))) as PlainjobModule;
  const { default: Database } = (await import(entry("better-sqlite3"))) as {
    default: new (file: string) => Driver;
  };
  const open = (folder: string): Queue => {
    const driver = new Database(join(folder, "plainjob.db"));
    const queue = plainjob.defineQueue({ connection: plainjob.better(driver), logger: quiet });
    driver.pragma("synchronous = FULL");
    return queue;
  };

  return {
    async drain(folder, payload, jobs) {
      const queue = open(folder);
      queue.addMany("noop", copies(payload, jobs));
      const { promise, resolve } = Promise.withResolvers<void>();
      let done = 0;
      const onCompleted = (): void => {
        done += 1;
        if (done === jobs) resolve();
      };
      const worker = plainjob.defineWorker("noop", async () => {}, {
        queue,
        logger: quiet,
        onCompleted,
      });
      const startedAt = performance.now();
      void worker.start();
      await promise;
      const rate = perSecond(jobs, startedAt);
      const kept = queue.countJobs({ status: DONE });
      await worker.stop();
      queue.close();
      if (kept !== jobs) throw new Error(`plainjob finished ${kept} of ${jobs} jobs`);
      return rate;
    },
    enqueueBulk(folder, payload, jobs) {
      const queue = open(folder);
      const startedAt = performance.now();
      queue.addMany("noop", copies(payload, jobs));
      const rate = perSecond(jobs, startedAt);
      queue.close();
      return rate;
    },
    enqueueOneByOne(folder, payload, jobs) {
      const queue = open(folder);
      const startedAt = performance.now();
      for (let job = 0; job < jobs; job += 1) queue.add("noop", payload);
      const rate = perSecond(jobs, startedAt);
      queue.close();
      return rate;
    },
  };
}

export function plainjobVersions(): string {
  return Object.keys(WANTED)
    .map((name) => `${name} ${manifest(name).version}`)
    .join(" on ");
}

function perSecond(jobs: number, startedAt: number): number {
  return (jobs / (performance.now() - startedAt)) * 1_000;
}

function install(): void {
  if (Object.keys(WANTED).every((name) => existsSync(join(PEERS, "node_modules", name)))) return;
  mkdirSync(PEERS, { recursive: true });
  writeFileSync(join(PEERS, "package.json"), JSON.stringify({ private: true, type: "module" }));
  const packages = Object.entries(WANTED).map(([name, version]) => `${name}@${version}`);
  process.stderr.write(`installing ${packages.join(" and ")} for the bench\n`);
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--no-save", ...packages], {
    cwd: PEERS,
    stdio: ["ignore", "ignore", "inherit"],
    timeout: INSTALL_MS_MAX,
  });
}

function manifest(name: string): { version: string; main?: string } {
  const text = readFileSync(join(PEERS, "node_modules", name, "package.json"), "utf8");
  return JSON.parse(text) as { version: string; main?: string };
}

function entry(name: string): string {
  return new URL(
    join("node_modules", name, manifest(name).main ?? "index.js"),
    new URL("./.peers/", import.meta.url),
  ).href;
}
