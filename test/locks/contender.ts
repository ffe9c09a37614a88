/** A process that wants locks, and does with them what its parent says. */
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { type HoldfastOptions, openHoldfast } from "../../src/index.ts";

export interface Errand {
  readonly does: "count" | "count without" | "hog" | "let go" | "hold";
  readonly key: string;
  /** A number in a file, that is read, and written a little later. */
  readonly file: string;
  readonly times: number;
  readonly ttl: number;
}

export type Told =
  | { readonly said: "ready" }
  | { readonly said: "done"; readonly what: Errand["does"] }
  | { readonly said: "held"; readonly token: number }
  | { readonly said: "lost"; readonly error: string; readonly heldOnWaking: boolean };

const [url = "", options = "{}"] = process.argv.slice(2);
const { locks, ...holdfast } = await open();
const stopped = new AbortController();

async function open() {
  const opened = await openHoldfast(url, JSON.parse(options) as HoldfastOptions);
  return { locks: opened.locks, close: () => opened.close() };
}

function tell(told: Told): void {
  if (process.connected) process.send?.(told);
}

/** Of two processes that do this at the same time, one counts in vain. */
async function addOne(file: string): Promise<void> {
  const before = Number(readFileSync(file, "utf8"));
  await pause(1);
  writeFileSync(file, String(before + 1));
}

const errands: Record<Errand["does"], (errand: Errand) => Promise<void>> = {
  async count({ key, file, times }) {
    for (let time = 0; time < times; time += 1) await locks.with(key, {}, () => addOne(file));
  },
  async "count without"({ file, times }) {
    for (let time = 0; time < times; time += 1) await addOne(file);
  },
  /** Lets go and asks again at once. */
  async hog({ key, file }) {
    while (!stopped.signal.aborted) await locks.with(key, {}, () => addOne(file));
  },
  async "let go"() {
    stopped.abort();
  },
  async hold({ key, ttl }) {
    const lock = await locks.acquire(key, { ttl });
    lock.signal.addEventListener("abort", () => {
      const error = (lock.signal.reason as Error).name;
      tell({ said: "lost", error, heldOnWaking: lock.held });
    });
    tell({ said: "held", token: lock.token });
  },
};

async function run(errand: Errand): Promise<void> {
  await errands[errand.does](errand);
  tell({ said: "done", what: errand.does });
}

process.on("message", (errand) => void run(errand as Errand));
process.on("disconnect", () => void holdfast.close().then(() => process.exit()));
tell({ said: "ready" });
