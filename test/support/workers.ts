/** Workers for tests: every fact has a default, and a test names only those it is about. */
import type { NewWorker, WorkerVitals } from "../../src/registry/worker-record.ts";
import type { Store } from "../../src/app/store.ts";
import { nextId } from "./jobs.ts";

export const STALE_MS = 30_000;
export const HUNG_MS = 60_000;
export const silence = { staleMs: STALE_MS, hungMs: HUNG_MS, gone: [] as string[] };

export function newWorker(facts: Partial<NewWorker> = {}): NewWorker {
  return {
    id: `mailer-${nextId()}`,
    type: "mailer",
    slots: 1,
    hostname: "host-a",
    pid: 4711,
    hostBoot: "boot-1 pid:[1]",
    processStart: "12345",
    version: "abc1234",
    nodeVersion: "v24.0.0",
    platform: "linux",
    arch: "x64",
    queues: ["default"],
    tasks: ["mail"],
    concurrency: 10,
    silence,
    waitLimits: { lockMs: 5_000, allMs: 10_000 },
    ...facts,
  };
}

export const vitals: WorkerVitals = {
  claimed: 7,
  done: 4,
  failed: 1,
  retried: 2,
  leasesLost: 0,
  running: 3,
  loopDelayMs: 12,
  memoryBytes: 90_000_000,
};

export async function start(store: Store, facts: Partial<NewWorker> = {}): Promise<NewWorker> {
  const worker = newWorker(facts);
  await store.workers.register(worker);
  await store.workers.move(worker.id, { state: "running", reason: null });
  return worker;
}
