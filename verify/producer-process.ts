/**
 * A producer of the kit: it enqueues its share of the jobs at their times, cancels some and emits the events that others
 * wait for.
 *
 * It logs what it is about to do and each answer. The successor of a killed producer continues after the last job that
 * was begun: a call without an answer may have happened, and is not repeated.
 */
import { existsSync } from "node:fs";
import { openHoldfast } from "../src/app/holdfast.ts";
import { OutcomeUnknownError } from "../src/core/errors.ts";
import { sleep, systemRuntime } from "../src/core/runtime.ts";
import { sql } from "../src/database/sql.ts";
import {
  endWithParent,
  type ProcessConfig,
  ProcessLog,
  readProcessLog,
  sayReady,
} from "./process.ts";
import { packed, plain } from "./tasks.ts";
import type { FlowJob } from "../src/flows/builder.ts";
import { FLOW, type Piece, pieceOf } from "./plan.ts";

const TICK_MS = 100;

/** Under way at once: at most this many are in doubt when it is killed. */
const AT_ONCE_MAX = 20;

const AGAIN_MS = 100;

/** An enqueue that failed was not written: it is tried again, at most this often. */
const TRIES_MAX = 600;

const CANCEL_MS_MAX = 500;

/** With so many pending jobs, a run that ends on time waits with more: a slow machine could not end them. */
const PENDING_MAX = 200;

/** The last jobs are due when the time is over. */
const LATE_MS_MAX = 1_000;

const config = JSON.parse(process.argv[2] ?? "{}") as ProcessConfig;

const { place, producers, jobs, ms, isOnTime } = config;

const earlier = existsSync(config.processLog) ? readProcessLog(config.processLog) : [];

const processLog = new ProcessLog(config.processLog);

const chores = new Set<Promise<void>>();

endWithParent();

const holdfast = await openHoldfast(config.url, { migrate: false });

// A producer and its successors follow the clock of the first line.
const startedAt = earlier[0]?.at ?? systemRuntime.now();

processLog.say({ f: "hello", process: config.name, worker: config.name, pid: process.pid });

sayReady();

catchUp();

await produce();

await Promise.all(chores);

await holdfast.close();

processLog[Symbol.dispose]();

process.send?.("finished");

process.disconnect?.();

async function produce(): Promise<void> {
  const begun = earlier.flatMap((one) =>
    one.f === "enqueue" && one.type === "invoke" ? [one.n] : [],
  );
  let n = begun.reduce((most, one) => Math.max(most, one), place - producers) + producers;
  while (n < jobs) {
    const due: Piece[] = [];
    const dueMs = systemRuntime.now() - startedAt;
    if (isOnTime && dueMs > ms + LATE_MS_MAX) return;
    if (isOnTime && !(await mayAdd())) {
      await sleep(systemRuntime, TICK_MS);
      continue;
    }
    for (; due.length < AT_ONCE_MAX && n < jobs && (ms * n) / jobs <= dueMs; n += producers)
      due.push(pieceOf(config, n));
    const together = due.filter(({ kind }) => kind === "plain");
    const others = due.filter(({ kind }) => kind !== "plain");
    await Promise.all([enqueueTogether(together), ...others.map(offer)]);
    if (due.length < AT_ONCE_MAX) await sleep(systemRuntime, TICK_MS);
  }
}

async function mayAdd(): Promise<boolean> {
  try {
    const pending = await holdfast.store.db.engine.all(
      sql`select id from holdfast.ready limit ${PENDING_MAX}`,
    );
    return pending.length < PENDING_MAX;
  } catch {
    return false; // The database is away.
  }
}

/** All of them or none. */
async function enqueueTogether(pieces: readonly Piece[]): Promise<void> {
  if (pieces.length === 0) return;
  const say = (type: "invoke" | "fail" | "info"): void => {
    for (const { n, task } of pieces) processLog.say({ f: "enqueue", type, n, task });
  };
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    say("invoke");
    try {
      const inputs = pieces.map(({ input }) => input);
      const accepted = await holdfast.enqueueMany(plain, inputs);
      for (const [index, { id }] of accepted.entries())
        processLog.say({ f: "enqueue", type: "ok", n: inputs[index]?.n ?? 0, id });
      return;
    } catch (error) {
      const isUnknown = error instanceof OutcomeUnknownError;
      say(isUnknown ? "info" : "fail");
      if (isUnknown) return;
      await sleep(systemRuntime, AGAIN_MS);
    }
  }
}

async function offer(piece: Piece): Promise<void> {
  const { n, kind, luck } = piece;
  if (kind === "flow") return enqueueFlow(piece);
  if (kind === "awaiting" && luck < 0.5) await tell(n);
  // Twice at once under one key, and again when the outcome is unknown: there must still be one job.
  await Promise.all(kind === "keyed" ? [enqueue(piece), enqueue(piece)] : [enqueue(piece)]);
  if (kind === "awaiting" && luck >= 0.5) later(() => tell(n));
}

async function enqueue(piece: Piece): Promise<void> {
  const { n, task, kind, luck } = piece;
  // By its name alone a job gets the defaults, not the settings of its task.
  const options = { ...piece.options, maxAttempts: kind === "doomed" ? 2 : 1_000 };
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    processLog.say({ f: "enqueue", type: "invoke", n, task });
    try {
      const { id } = await holdfast.enqueue(task, piece.input, options);
      processLog.say({ f: "enqueue", type: "ok", n, id });
      if (kind === "cancelled") later(() => cancel(id, luck * CANCEL_MS_MAX));
      return;
    } catch (error) {
      const type = error instanceof OutcomeUnknownError ? "info" : "fail";
      processLog.say({ f: "enqueue", type, n, task, error: String(error) });
      if (type === "info" && kind !== "keyed") return;
      await sleep(systemRuntime, AGAIN_MS);
    }
  }
}

/** All jobs of the flow or none. */
async function enqueueFlow({ n, task, input }: Piece): Promise<void> {
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    processLog.say({ f: "enqueue", type: "invoke", n, task });
    try {
      const parts = new Map<string, FlowJob>();
      await holdfast.flows.enqueue("verify", (flow) => {
        for (const [part, after] of Object.entries(FLOW)) {
          const options = {
            maxAttempts: 1_000,
            after: after.map((one) => parts.get(one)?.id ?? ""),
          };
          parts.set(part, flow.job(task, { ...input, part }, options));
        }
      });
      for (const [part, { id }] of parts) processLog.say({ f: "enqueue", type: "ok", n, id, part });
      return;
    } catch (error) {
      const type = error instanceof OutcomeUnknownError ? "info" : "fail";
      processLog.say({ f: "enqueue", type, n, task, error: String(error) });
      if (type === "info") return;
      await sleep(systemRuntime, AGAIN_MS);
    }
  }
}

/** Without this, the waiting jobs of a killed producer would wait for ever. */
function catchUp(): void {
  const told = new Set(earlier.flatMap((one) => (one.f === "emit" ? [one.n] : [])));
  const begun = new Set(earlier.flatMap((one) => (one.f === "enqueue" ? [one.n] : [])));
  for (const n of begun)
    if (!told.has(n) && pieceOf(config, n).kind === "awaiting") later(() => tell(n));
}

function later(chore: () => Promise<void>): void {
  const done: Promise<void> = chore().finally(() => chores.delete(done));
  chores.add(done);
}

/** Emitting is idempotent, so it is repeated until it succeeds. */
async function tell(n: number): Promise<void> {
  await untilDone(() => holdfast.emit(packed, String(n), { n }));
  processLog.say({ f: "emit", n });
}

async function cancel(id: string, afterMs: number): Promise<void> {
  await sleep(systemRuntime, afterMs);
  processLog.say({ f: "cancel", id, became: null });
  const became = await untilDone(() => holdfast.jobs.cancel(id));
  if (became !== undefined) processLog.say({ f: "cancel", id, became });
}

async function untilDone<T>(act: () => Promise<T>): Promise<T | undefined> {
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    try {
      return await act();
    } catch {
      await sleep(systemRuntime, AGAIN_MS);
    }
  }
  return undefined;
}
