/** The same promises for every library that brings a transaction of its own. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import {
  defineEvent,
  defineTask,
  type Holdfast,
  openHoldfast,
  type Worker,
} from "../../src/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { sampledEngines, type EngineUnderTest, type Place } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until, withCode } from "../worker/observe.ts";
import { Rollback, rolledBack, type App, type Kind } from "./apps/app.ts";
import { openWitness, type Witness } from "./apps/witness.ts";

/** Loaded when they are wanted: some of these libraries take seconds. */
async function kindsOf(database: Kind["database"]): Promise<Kind[]> {
  const { drivers } = await import("./apps/drivers.ts");
  const { kyselys } = await import("./apps/kysely.ts");
  const kinds = [...drivers, ...kyselys];
  if (database !== "SQLite") {
    const { knexes } = await import("./apps/knex.ts");
    const { drizzles } = await import("./apps/drizzle.ts");
    const { prismas } = await import("./apps/prisma.ts");
    const { typeorms } = await import("./apps/typeorm.ts");
    kinds.push(...knexes, ...drizzles, ...prismas, ...typeorms);
  }
  return kinds.filter((kind) => kind.database === database);
}

const packed = defineEvent<string>({ name: "packed" });
const ship = defineTask({ name: "ship", run: (input: unknown) => input });
const pack = defineTask({ name: "pack", run: (key: string, ctx) => ctx.event(packed, key) });

/** A queue that no worker takes from. */
const held = { queue: "held" };

const ada = { actor: "ada" };
const shopping = defineWorkflow({
  name: "order",
  initial: "open",
  states: {
    open: { limit: { after: "1h", move: "finish" } },
    done: { final: true, enter: ({ item, enqueue }) => enqueue(ship, item.id, held) },
  },
  moves: { finish: { from: "open", to: "done" } },
  whenChildrenEnd: "finish",
});
const boxes = defineWorkflow({
  name: "box",
  parent: shopping,
  initial: "new",
  states: { new: {}, packed: { final: true } },
  moves: { pack: { from: "new", to: "packed", guard: ({ parent }) => parent?.status === "open" } },
});

/** What some library or other takes for a placeholder, an escape or the end of a text. */
const odd = String.raw`? ?? :name @name $1 $$ %s ${"`"}" ' '' \ \' \? {} returning é 😀 -- /* ;`;

/** On one database, with all that works there. */
export async function promisesOf(database: Kind["database"]): Promise<void> {
  const kinds = await kindsOf(database);
  const { skip, place: open } = sampledEngines.find(
    ({ name }) => name === database,
  ) as EngineUnderTest;
  describe(`within transactions on ${database}`, { skip, timeout: 60_000 }, () => {
    let place: Place;
    let holdfast: Holdfast;
    let witness: Witness;
    let worker: Worker;
    before(async () => {
      place = await open();
      holdfast = await openHoldfast(place.url, { version: "build-0" });
      witness = await openWitness(place.url);
      await witness.run("create table orders (id integer)");
      await holdfast.workflows.declare(boxes);
      worker = await holdfast.startWorker({ tasks: [ship, pack], poll: "1h", heartbeat: "1h" });
    });
    after(async () => {
      await worker?.stop();
      await witness?.[Symbol.asyncDispose]();
      await holdfast?.close();
      await place?.[Symbol.asyncDispose]();
    });

    for (const kind of kinds) {
      describe(kind.name, () => {
        let app: App;
        before(async () => {
          app = await kind.open(place.url);
        });
        after(() => app?.[Symbol.asyncDispose]());

        /** Keys of this library's own. */
        const named = (what: string): string => `${kind.name}: ${what}`;

        test("committed jobs are there unchanged, with the application's own rows", async () => {
          const orders = await witness.orders();
          const [job, later] = await app.transaction(async (tx) => {
            await app.order(tx, 1);
            const within = holdfast.within(tx);
            const options = { ...held, priority: 3, key: named(odd) };
            const first = await within.enqueue(ship, { odd }, options);
            return [first, await within.enqueue(ship, 2, { ...held, delay: "1h" })] as const;
          });
          const { status, input, priority, key } = await job.get();
          assert.deepEqual(
            { status, input, priority, key },
            { status: "pending", input: { odd }, priority: 3, key: named(odd) },
          );
          assert.equal((await later.get()).status, "scheduled");
          assert.equal(await witness.orders(), orders + 1);
        });

        test("rolled-back jobs never existed", async () => {
          const orders = await witness.orders();
          const ids: string[] = [];
          await rolledBack(() =>
            app.transaction(async (tx) => {
              await app.order(tx, 2);
              const within = holdfast.within(tx);
              const many = await within.enqueueMany(ship, [1, 2, 3], held);
              const keyed = await within.enqueue(ship, 1, { ...held, key: named("undone") });
              ids.push(...many.map(({ id }) => id), keyed.id);
              await within.emit(packed, named("undone"), "7");
              throw new Rollback();
            }),
          );
          assert.equal(ids.length, 4);
          for (const id of ids) assert.equal(await holdfast.jobs.get(id), null);
          assert.equal(await holdfast.store.steps.findEvent("packed", named("undone")), null);
          assert.equal(await witness.orders(), orders);
          const again = await holdfast.enqueue(ship, 1, { ...held, key: named("undone") });
          assert.equal(again.added, true);
        });

        test("a worker is woken by the commit", async () => {
          const { id } = await app.transaction(async (tx) => holdfast.within(tx).enqueue(ship, 1));
          await until("it has run", async () => (await holdfast.jobs.get(id))?.status === "done");
        });

        test("no notification is sent for a rolled-back job", async (t) => {
          if (database !== "PostgreSQL") return t.skip("only there a commit says what it changed");
          const heard: string[] = [];
          const stop = holdfast.store.db.watch((hint) => {
            if (hint.kind === "pending") heard.push(hint.queue);
          });
          const enqueue = (queue: string, error?: Error) =>
            app.transaction(async (tx) => {
              await holdfast.within(tx).enqueue(ship, 1, { queue });
              if (error !== undefined) throw error;
            });
          await rolledBack(() => enqueue("undone", new Rollback()));
          await enqueue("told");
          await until("it is told", () => heard.includes("told"));
          stop();
          assert.equal(heard.includes("undone"), false); // they are heard in the order of their commits
        });

        test("jobs rolled back to a savepoint are gone, and the others are there", async (t) => {
          if (app.nested === undefined) return t.skip("its transactions do not nest");
          const ids: string[] = [];
          const enqueue = async (tx: unknown): Promise<void> => {
            ids.push((await holdfast.within(tx).enqueue(ship, 1, held)).id);
          };
          await app.nested(enqueue, enqueue);
          const [outer = "", inner = ""] = ids;
          assert.equal((await holdfast.jobs.get(outer))?.status, "pending");
          assert.equal(await holdfast.jobs.get(inner), null);
        });

        test("a serializable transaction takes it too", async () => {
          const job = await app.transaction(
            async (tx) => {
              await app.order(tx, 3);
              await holdfast.within(tx).emit(packed, named("serializable"), "1");
              return holdfast.within(tx).enqueue(ship, 1, { ...held, key: named("serializable") });
            },
            { serializable: true },
          );
          assert.equal((await job.get()).status, "pending");
        });

        test("a key that a live job holds gives that job, one of the same transaction's too", async () => {
          const key = named("held");
          const holder = await holdfast.enqueue(ship, 1, { ...held, key });
          const [late, first, second] = await app.transaction(async (tx) => {
            const enqueue = (input: number, name: string) =>
              holdfast.within(tx).enqueue(ship, input, { ...held, key: name });
            return [
              await enqueue(2, key),
              await enqueue(3, named("new")),
              await enqueue(4, named("new")),
            ] as const;
          });
          assert.deepEqual([late.id, late.added], [holder.id, false]);
          assert.deepEqual([second.id, first.added, second.added], [first.id, true, false]);
          assert.equal((await first.get()).input, 3);
        });

        test("a cancelling is true when it is committed", async () => {
          const job = await holdfast.enqueue(ship, 1, held);
          await rolledBack(() =>
            app.transaction(async (tx) => {
              assert.equal(await holdfast.within(tx).cancel(job.id), "cancelled");
              throw new Rollback();
            }),
          );
          assert.equal((await job.get()).status, "pending");
          await app.transaction((tx) => holdfast.within(tx).cancel(job.id));
          assert.equal((await job.get()).status, "cancelled");
        });

        test("an event reaches the job that waits for it", async () => {
          const job = await holdfast.enqueue(pack, named("event"));
          await until("it waits", async () => (await job.get()).status === "waiting");
          const emitted = await app.transaction((tx) =>
            holdfast.within(tx).emit(packed, named("event"), odd),
          );
          assert.deepEqual(emitted, { first: true, woken: 1 });
          assert.equal(await job.result({ timeout: "10s" }), odd);
          const again = await app.transaction((tx) =>
            holdfast.within(tx).emit(packed, named("event"), "too late"),
          );
          assert.deepEqual(again, { first: false, woken: 0 });
        });

        for (const serializable of [false, true]) {
          const words = serializable ? " in a serializable transaction too" : "";
          test(`items are started, moved and read${words}, and are there when it is committed`, async () => {
            const { order, jobs } = await app.transaction(
              async (tx) => {
                const { workflows } = holdfast.within(tx);
                const started = await workflows.start(shopping, { data: { odd }, ...ada });
                const below = { parent: started, data: { n: 1 } };
                const [first, second] = await workflows.startMany(boxes, [below, below], ada);
                await first?.move("pack", { ...ada, expect: 1 });
                assert.deepEqual(await started.progress(), [
                  { workflow: "box", status: "new", isFinal: false, children: 1 },
                  { workflow: "box", status: "packed", isFinal: true, children: 1 },
                ]);
                const packed2 = await second?.move("pack", { ...ada, patch: { n: 2 } });
                assert.deepEqual([packed2?.revision, packed2?.data], [2, { n: 2 }]);
                const listed = await workflows.list(boxes, { parent: started.id, limit: 1 });
                assert.deepEqual(
                  listed.map(({ id, status }) => [id, status]),
                  [[second?.id, "packed"]],
                );
                const [, closing] = await started.history();
                return { order: await started.refresh(), jobs: closing?.jobs ?? [] };
              },
              { serializable },
            );
            assert.deepEqual([order.status, order.revision, order.data], ["done", 4, { odd }]);
            assert.deepEqual(await holdfast.workflows.item(shopping, order.id), order);
            assert.equal(jobs.length, 1);
            assert.equal((await holdfast.jobs.get(jobs[0] as string))?.status, "pending");
          });
        }

        test("items that are rolled back never were, nor what they enqueued", async () => {
          const order = await holdfast.workflows.start(shopping, { data: {}, ...ada });
          const ids: string[] = [];
          await rolledBack(() =>
            app.transaction(async (tx) => {
              const { workflows } = holdfast.within(tx);
              const box = await workflows.start(boxes, { parent: order, data: { n: 1 }, ...ada });
              await box.move("pack", ada);
              const [line] = await workflows.history(order.id, { after: 1 });
              assert.equal(line?.newStatus, "done");
              ids.push(box.id, ...(line?.jobs ?? []));
              throw new Rollback();
            }),
          );
          const [box = "", job = ""] = ids;
          assert.deepEqual(await order.refresh(), order);
          assert.equal(await holdfast.store.items.find(box), null);
          assert.equal(await holdfast.jobs.get(job), null);
        });

        test("a key that another transaction takes at the same moment is refused as busy", async (t) => {
          if (database === "SQLite") return t.skip("one transaction at a time writes there");
          const key = named("raced");
          const theirs = await witness.takeKey("ship", key);
          const ours = app.transaction(async (tx) => {
            await app.order(tx, 4);
            return holdfast.within(tx).enqueue(ship, 1, { ...held, key });
          });
          const refused = assert.rejects(ours, withCode("STORE_BUSY"));
          await until("we wait for them", () => witness.someoneWaits());
          await theirs.commit();
          await refused;
        });

        test("a transaction that has ended is refused", async () => {
          const { over } = await app.transaction(async (tx) => {
            await app.order(tx, 5);
            return { over: tx }; // in an object: some are thenable
          });
          const key = named("late");
          const late = holdfast.within(over).enqueue(ship, 1, { ...held, key });
          await assert.rejects(late, { message: app.over });
          assert.equal((await holdfast.enqueue(ship, 1, { ...held, key })).added, true);
        });

        test("a value that is not a transaction is refused with what to pass instead", async () => {
          for (const [wrong, remedy] of app.notTx) {
            const enqueuing = holdfast.within(wrong).enqueue(ship, 1, held);
            await assert.rejects(enqueuing, (error: Error) => {
              assert.match(error.message, remedy);
              return withCode("INVALID_ARGUMENT", "tx")(error);
            });
          }
        });
      });
    }
  });
  after(assertNothingRuns);
}
