/**
 * The process that is killed while it works on an order: `node order-victim.ts <url> <ledger> <point>`.
 *
 * A point is after every call of the store that wrote something, and inside of the task's own functions; what lies between
 * two of them leaves the same behind. With LONG=1 it is before and after every call. With point 0 it lives, and prints
 * all points.
 */
import { writeSync } from "node:fs";
import { openStore, type Store } from "../../src/app/store.ts";
import { openHoldfast } from "../../src/index.ts";
import { isLong } from "../support/scale.ts";
import { carryOut, Ledger, orderTasks, testClock, VICTIM_AT } from "./order.ts";
import { mapParts, onPart } from "../worker/wrapped-store.ts";

const [url = "", ledger = "", killAt = ""] = process.argv.slice(2);
const points: string[] = [];

function point(name: string): void {
  points.push(name);
  if (points.length !== Number(killAt)) return;
  writeSync(process.stdout.fd, JSON.stringify([name]));
  process.kill(process.pid, "SIGKILL");
}

const QUIET = new Set(["db.watch", "db.close"]);
const READS = new Set([
  "jobs.list",
  "jobs.stats",
  "jobs.find",
  "jobs.findFinished",
  "jobs.hasPending",
  "steps.list",
  "steps.findEvent",
  "steps.effectsInDoubt",
]);

/** Whether a call may have changed something. */
function wrote(name: string, answer: unknown): boolean {
  if (READS.has(name)) return false;
  if (name === "jobs.claim") return (answer as unknown[]).length > 0;
  return name !== "jobs.promoteDue" || (answer as number) > 0;
}

function watched(store: Store): Store {
  return mapParts(store, (part, of) =>
    onPart(part, (name, call) => {
      const verb = `${of}.${name}`;
      if (typeof call !== "function" || QUIET.has(verb)) return null;
      return async (...args: unknown[]): Promise<unknown> => {
        if (isLong) point(`before ${verb}`);
        const answer: unknown = await call(...args);
        if (isLong || wrote(verb, answer)) point(`after ${verb}`);
        return answer;
      };
    }),
  );
}

const runtime = testClock(VICTIM_AT);
const store = watched(await openStore(url, { runtime }));
const holdfast = await openHoldfast(store, { runtime, version: "build-0", migrate: false });
await carryOut(holdfast, orderTasks(new Ledger(ledger), point));
await holdfast.close();
process.stdout.write(JSON.stringify(points)); // writeSync may write a part of it
