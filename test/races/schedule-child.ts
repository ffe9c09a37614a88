/** A scheduler in a process of its own, on a clock that is faster than the real one and the same in all processes. */
import { Loop } from "../../src/core/loop.ts";
import { silentLogger } from "../../src/core/log.ts";
import { type Runtime, systemRuntime } from "../../src/core/runtime.ts";
import { openStore } from "../../src/app/store.ts";
import { Scheduler } from "../../src/schedules/scheduler.ts";

/** So many seconds of the schedules pass in a real one. */
export const SPEED = 20;

/** Counts from `startedAt` on, by the clock of the host. */
export function fastRuntime(startedAt: number): Runtime {
  return {
    ...systemRuntime,
    now: () => Math.floor(startedAt + (Date.now() - startedAt) * SPEED),
    monotonic: () => systemRuntime.monotonic() * SPEED,
    timer: (ms, call, kind) => systemRuntime.timer(ms / SPEED, call, kind),
  };
}

async function work(url: string, startedAt: number): Promise<void> {
  const runtime = fastRuntime(startedAt);
  const store = await openStore(url, { runtime });
  const scheduler = new Scheduler({ store, runtime, logger: silentLogger, idleMs: 1_000 });
  process.once("disconnect", () => process.exit(1)); // the test is gone
  const once = async (): Promise<number> => Math.min(500, await scheduler.once());
  void new Loop({ name: "schedules", runtime, logger: silentLogger, once });
  process.send?.("ready");
}

const [url, startedAt] = process.argv.slice(2);
if (import.meta.main && url !== undefined) await work(url, Number(startedAt));
