/**
 * One of the processes of store-cancel.test.ts: `node store-mover.ts <file> <worker>`.
 *
 * It keeps jobs moving through every state as fast as the file allows, and tells the test the ids of
 * jobs as soon as they are accepted. Told to stop, it hands back what it holds.
 */
import type { Outcome, Settlement } from "../../src/core/job.ts";
import { makeIds } from "../../src/core/id.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import type { NewJob } from "../../src/jobs/store.ts";
import { awaitGo, leave, listen, openFile, tell } from "./store-crew.ts";

const TURNS_MAX = 100_000;
const ENQUEUE_BATCH = 6;
const CLAIM_BATCH = 40;
/** How many jobs each process adds: enough for the cancels, few enough to keep them all moving. */
const JOBS_MAX = 1_200;
const DELAY_MS_MAX = 20;

async function main(path: string, worker: string): Promise<void> {
  const store = await openFile(path);
  const nextId = makeIds(systemRuntime);
  const told = await awaitGo();
  const wanted = { worker, queues: ["race"], tasks: null, limit: CLAIM_BATCH, leaseMs: 60_000 };
  let ours: Settlement[] = [];
  for (let turn = 0; turn < TURNS_MAX && !told.stop; turn += 1) {
    if (turn * ENQUEUE_BATCH < JOBS_MAX) {
      const news = Array.from({ length: ENQUEUE_BATCH }, (_, at) => newJob(nextId(), at));
      await store.jobs.enqueue(news);
      tell(news.map(({ id }) => id));
    }
    await store.jobs.promoteDue({ limit: CLAIM_BATCH });
    const { claimed } = await store.jobs.settleAndClaim(ours, wanted);
    ours = claimed.map(({ id, epoch }) => ({ id, worker, epoch, outcome: drawOutcome() }));
    await listen();
  }
  await store.jobs.release(ours);
  await store.close();
  leave();
}

function newJob(id: string, at: number): NewJob {
  const start = at % 2 === 0 ? null : { delayMs: drawDelayMs() };
  const plain = { queue: "race", task: "run", payload: "{}", priority: 0, key: null };
  return { id, ...plain, maxAttempts: 1_000_000, start };
}

/** Most keep a job moving; few end it. */
function drawOutcome(): Outcome {
  const draw = Math.random();
  if (draw < 0.4) return { kind: "released" };
  if (draw < 0.7) return { kind: "retry", delayMs: drawDelayMs(), error: "again" };
  if (draw < 0.99) return { kind: "suspended", delayMs: drawDelayMs() };
  return draw < 0.995 ? { kind: "failed", error: "no" } : { kind: "done", result: null };
}

function drawDelayMs(): number {
  return Math.floor(Math.random() * DELAY_MS_MAX);
}

const [path = "", worker = ""] = process.argv.slice(2);
await main(path, worker);
