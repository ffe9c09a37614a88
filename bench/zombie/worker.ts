/**
 * One of the two workers: A, which is frozen in the middle of its job, or B, which gets it next. A returns as soon as it
 * has slept; B when it is told to.
 */
import { setTimeout as pause } from "node:timers/promises";
import { keyOf } from "../systems/system.ts";
import { SUBJECTS } from "./all.ts";
import type { Config } from "./process.ts";
import type { Say } from "./subject.ts";

/** Shorter than any lease: left alone, A would have been in time. */
const WORK_MS = 2_000;

const { subject: key, role, place, pace } = JSON.parse(process.argv[2] ?? "") as Config;
const subject = SUBJECTS.find((each) => keyOf(each) === key);
if (subject === undefined) throw new Error(`There is no system '${key}'.`);

const say: Say = (word, facts = "") => void process.send?.({ word, facts });

const finish = Promise.withResolvers<void>();
process.on("message", () => finish.resolve());
process.on("disconnect", () => process.exit());

async function handler(signal: AbortSignal | null): Promise<string> {
  // What aborts after the function has returned tells it nothing: some abort every signal in the end.
  const abort = (): void => say("heard", `its signal aborted: ${nameOf(signal?.reason)}`);
  signal?.addEventListener("abort", abort);
  say("started");
  await (role === "A" ? pause(WORK_MS) : finish.promise);
  signal?.removeEventListener("abort", abort);
  say("returns");
  return role;
}

function nameOf(reason: unknown): string {
  return reason instanceof Error ? reason.name : String(reason);
}

try {
  await subject.work(place, { handler, say, pace });
} catch (error) {
  say("failed", error instanceof Error ? (error.stack ?? error.message) : String(error));
}
