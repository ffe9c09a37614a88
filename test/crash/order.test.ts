/**
 * kill -9 at every await of a task that does everything a task can keep, on every database.
 *
 * A rehearsal without a kill counts the points. Then, for each of them, a process on a fresh order is killed exactly
 * there, and the next process finishes the order: nothing is done twice, but what was killed in the middle of it.
 */
import { deepEqual, equal, ok } from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, before, describe, test } from "node:test";
import { openStore, type Store } from "../../src/app/store.ts";
import { type Holdfast, openHoldfast } from "../../src/index.ts";
import { Sql, sql } from "../../src/database/sql.ts";
import { sampledEngines, type Place } from "../registry/places.ts";
import { everyNth, sized } from "../support/scale.ts";
import { TABLES } from "../support/tables.ts";
import { carryOut, Ledger, NEXT_AT, orderTasks, RESULT, testClock, VICTIM_AT } from "./order.ts";

const VICTIM_MS_MAX = 30_000;
const SAMPLE_EVERY = 8;
const CRASHES = { graceMs: 0, maxCrashes: 100, limit: 10 };
const VICTIM = join(import.meta.dirname, "order-victim.ts");
let folder = "";

before(() => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-order-"));
});
after(() => rmSync(folder, { recursive: true, force: true }));

/** What the order did outside, each once. */
const DONE = ["quote", "effect/charge/1", "weigh"];

interface Ended {
  readonly signal: NodeJS.Signals | null;
  readonly points: readonly string[];
  readonly errors: string;
}

async function runVictim(url: string, ledger: string, killAt: number): Promise<Ended> {
  const child = spawn(process.execPath, [VICTIM, url, ledger, String(killAt)], {
    stdio: ["ignore", "pipe", "pipe"],
    timeout: VICTIM_MS_MAX,
    env: { ...process.env, NODE_COMPILE_CACHE: join(folder, "compiled") },
  });
  const closed = once(child, "close");
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await closed;
  const points = output === "" ? [] : (JSON.parse(output) as string[]);
  return { signal: child.signalCode, points, errors };
}

/** One database, emptied for every point: making its tables takes longer than the rest. */
class Site {
  readonly url: string;
  readonly #name: string;
  #orders = 0;
  #seed = 1; // the victim's own

  constructor(url: string, name: string) {
    this.url = url;
    this.#name = name;
  }

  async use<T>(at: number, body: (holdfast: Holdfast, store: Store) => Promise<T>): Promise<T> {
    const runtime = testClock(at, { seed: (this.#seed += 1) });
    const store = await openStore(this.url, { runtime });
    await using holdfast = await openHoldfast(store, { runtime, version: "build-0" });
    return await body(holdfast, store);
  }

  /** A new order, and a ledger without a line. */
  async order(): Promise<{ id: string; ledger: string }> {
    const ledger = join(folder, `${(this.#orders += 1)}-${this.#name}.ledger`);
    const id = await this.use(VICTIM_AT, async (holdfast, { db: { engine } }) => {
      await engine.transaction(async (tx) => {
        for (const table of TABLES) await tx.run(new Sql([`delete from holdfast.${table}`], []));
        await tx.script("delete from shipment");
      });
      const { id: made } = await holdfast.enqueue("ship", null, { maxAttempts: 50 });
      return made;
    });
    return { id, ledger };
  }

  /** The next process finishes it. */
  async finish(id: string, ledger: Ledger): Promise<void> {
    await this.use(NEXT_AT, async (holdfast, store) => {
      await store.jobs.reclaimExpired(CRASHES);
      await carryOut(
        holdfast,
        orderTasks(ledger, () => {}),
      );
      const { status, result, lastError } = (await holdfast.jobs.get(id)) ?? {};
      deepEqual([status, result], ["done", RESULT], JSON.stringify(lastError));
      equal((await holdfast.jobs.list({ task: "weigh" })).length, 1, "one job was called");
      const rows = await store.db.engine.all(sql`select number from shipment`);
      equal(rows.length, 1, "booked once");
    });
  }
}

/** In full it is a process for every await. */
const LIMIT_MS = sized(300_000, 1_500_000);

describe("an order", { concurrency: true }, () => {
  for (const { name, skip, place: open } of sampledEngines) {
    describe(`on ${name}`, { skip, timeout: LIMIT_MS, concurrency: 1 }, () => {
      let place: Place;
      let site: Site;
      before(async () => {
        place = await open();
        site = new Site(place.url, name);
        await site.use(VICTIM_AT, async (_holdfast, { db: { engine } }) => {
          await engine.transaction((tx) => tx.script("create table shipment (number integer)"));
        });
      });
      after(() => place[Symbol.asyncDispose]());

      test("that is killed at any of its awaits is finished, and nothing is done twice", async (t) => {
        const rehearsal = await site.order();
        const { points, errors } = await runVictim(site.url, rehearsal.ledger, 0);
        ok(points.length > 25, `${points.join(", ")} ${errors}`);
        await site.finish(rehearsal.id, new Ledger(rehearsal.ledger));
        const chosen = everyNth(SAMPLE_EVERY, [...points.entries()]);
        for (const [index, label] of chosen) {
          const { id, ledger } = await site.order();
          const ended = await runVictim(site.url, ledger, index + 1);
          const where = `killed at point ${index + 1}: ${label}`;
          equal(ended.signal, "SIGKILL", `no process was ${where}. ${ended.errors}`);
          await site.finish(id, new Ledger(ledger)).catch((error: unknown) => {
            throw new Error(`${where}\n${String(error)}`, { cause: error });
          });
          assertOnce(new Ledger(ledger).lines(), label, where);
        }
        t.diagnostic(`killed at ${chosen.length} of ${points.length} points`);
      });
    });
  }
});

/** A step that was killed after its body, before it was kept, is made again; an effect is not. */
function assertOnce(lines: readonly string[], label: string, where: string): void {
  for (const line of DONE) {
    const times = lines.filter((each) => each === line).length;
    const inIt = line !== "effect/charge/1" && isWithin(label, line);
    ok(times === 1 || (inIt && times === 2), `${where}: '${line}' was done ${times} times`);
  }
}

function isWithin(label: string, line: string): boolean {
  const writes = { quote: "before steps.put", weigh: "before jobs.settle" };
  return label === `after ${line}` || label === writes[line as keyof typeof writes];
}
