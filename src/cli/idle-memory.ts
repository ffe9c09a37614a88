/**
 * An idle service gives memory back. V8 keeps room for garbage that it needed while modules were loaded or jobs ran, and does
 * not collect as long as nothing is allocated: 5 MB in a worker, 18 MB in a service with a server.
 */
import type { Runtime, Timer } from "../core/runtime.ts";
import type { WorkerStatus } from "../worker/worker.ts";

const LOOK_EVERY_MS = 20_000;

/** Collecting stops the process: for 50 ms with the heap of an idle service, for longer with the data of tasks. */
const HEAP_BYTES_MAX = 64 * 1_024 * 1_024;

interface Parts {
  readonly runtime: Runtime;
  readonly status: () => Pick<WorkerStatus, "claimed" | "running" | "buffered">;
  readonly lookEveryMs?: number;
  readonly collect?: () => Promise<void>;
}

/** Collects once after the start and once after each busy time. */
export class IdleMemory {
  readonly #parts: Parts;
  #claimed: number | null = null;
  #isCollected = false;
  #timer: Timer | null = null;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#lookLater();
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #lookLater(): void {
    const { runtime, lookEveryMs = LOOK_EVERY_MS } = this.#parts;
    this.#timer = runtime.timer(lookEveryMs, () => this.#look(), "background");
  }

  #look(): void {
    const { status, collect = collectGarbage } = this.#parts;
    const { claimed, running, buffered } = status();
    const isIdle = claimed === this.#claimed && running + buffered === 0;
    if (!isIdle) this.#isCollected = false;
    else if (!this.#isCollected) {
      this.#isCollected = true;
      collect().catch(() => {}); // some builds of Node have no inspector
    }
    this.#claimed = claimed;
    this.#lookLater();
  }
}

/** The inspector is the only way that needs no flag at the start of the process. */
async function collectGarbage(): Promise<void> {
  if (process.memoryUsage().heapUsed > HEAP_BYTES_MAX) return;
  const { Session } = await import("node:inspector/promises");
  const session = new Session();
  session.connect();
  try {
    await session.post("HeapProfiler.collectGarbage");
  } finally {
    session.disconnect();
  }
}
