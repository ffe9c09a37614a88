/** kill -9 around the commit with which a job ends: before it the job is tried again, after it the job is done, once. */
import { deepEqual, equal } from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, before, describe, test } from "node:test";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { drawnEngines, type Place } from "../registry/places.ts";
import { connections, type Connection } from "../within/connections.ts";

const VICTIM_MS_MAX = 30_000;
const VICTIM = join(import.meta.dirname, "complete-victim.ts");

/** Where it is killed, and how many attempts the job takes then. */
const points = {
  nowhere: 1,
  "before complete": 2,
  "before commit": 2,
  "after commit": 1,
} as const;

for (const { name, skip, place: open } of drawnEngines("complete")) {
  describe(`a job that ends in a transaction on ${name}`, { skip, timeout: 120_000 }, () => {
    let place: Place;
    let holdfast: Holdfast;
    let shop: Connection;
    before(async () => {
      place = await open();
      holdfast = await openHoldfast(place.url, { version: "build-0" });
      shop = (await connections[name]?.(place.url)) as Connection;
      await shop.run("create table orders (id integer)");
    });
    after(async () => {
      await shop[Symbol.asyncDispose]();
      await holdfast.close();
      await place[Symbol.asyncDispose]();
    });

    for (const [point, attempts] of Object.entries(points)) {
      test(`and whose process is killed ${point}, is done once`, async () => {
        await shop.run("delete from orders");
        const job = await holdfast.enqueue("ship", null);
        const child = spawn(process.execPath, [VICTIM, place.url, name, point], {
          stdio: ["ignore", "ignore", "pipe"],
          timeout: VICTIM_MS_MAX,
        });
        const closed = once(child, "close");
        const errors = await text(child.stderr);
        await closed;
        equal(child.signalCode, point === "nowhere" ? null : "SIGKILL", errors);

        const ship = defineTask({
          name: "ship",
          async run(_order: null, ctx) {
            await shop.run("begin");
            await shop.run("insert into orders values (1)");
            const number = await ctx.complete(shop.tx, 7);
            await shop.run("commit");
            return number;
          },
        });
        await using next = await holdfast.startWorker({
          tasks: [ship],
          grace: 0,
          maintenanceInterval: 20,
        });
        equal(await job.result({ timeout: "20s" }), 7);
        equal(await shop.count(), 1);
        equal(next.status().failed, 0);
        const tried = await holdfast.jobs.attempts(job.id);
        deepEqual([tried.length, tried.at(-1)?.outcome], [attempts, "done"]);
      });
    }
  });
}
