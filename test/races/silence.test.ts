/**
 * Transactions that are silent: their process is frozen, blocked or cut off, and they hold locks. A server ends them soon,
 * and nothing else waits for them for long.
 */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { openStore, type Store } from "../../src/app/store.ts";
import type { MysqlEngine } from "../../src/database/mysql/engine.ts";
import { limitTexts } from "../../src/database/mysql/session.ts";
import { sql } from "../../src/database/sql.ts";
import { claimOne, done, enqueueOne, nextId, upTo } from "../support/jobs.ts";
import { notItsTurn } from "../support/scale.ts";
import { missing, scratchDatabase } from "../support/servers.ts";

/** Much longer than any test takes: the server would not end this transaction. */
const NEVER_MS = 60_000;

/** More than the buffers of a connection take. */
const LARGE = Array.from({ length: 20 }, () => "select repeat('x', 1000000)");

/** The part of both drivers that the test pauses. */
interface Client {
  readonly connection: { readonly stream: { pause(): void; destroy(): void } };
}

const FREE = "free";
const LIMITED = "limited";

for (const kind of ["postgres", "mysql"] as const) {
  suite(`silent transactions on ${kind}`, { skip: missing(kind), concurrency: true }, () => {
    for (const next of ["a statement", "the commit"]) {
      test(`the server ends one of ours before ${next}, and it is repeated`, async () => {
        await withStores(kind, async (silent, other) => {
          await pause(other);
          let tries = 0;
          await silent.db.engine.transaction(async (tx) => {
            tries += 1;
            await tx.run(sql`update holdfast.queue set pause_reason = 'ours' where name = ${FREE}`);
            // Until its lock is free, this waits. Nothing is sent meanwhile.
            if (tries === 1) await other.db.engine.run(setReason("theirs"));
            if (next === "the commit") return;
            await tx.run(sql`update holdfast.queue set paused_by = 'ours' where name = ${FREE}`);
          });
          assert.equal(tries, 2, "it was repeated once");
          assert.equal((await other.queues.find(FREE))?.paused?.reason, "ours");
        });
      });
    }

    const turn = notItsTurn(kind); // most of its ten seconds are waiting
    test("the server ends one that does not read its answer", { skip: turn }, async () => {
      await withStores(kind, async (silent, other) => {
        await pause(other);
        const silence = silent.db.engine.userTransaction(
          async (user) => {
            const name = kind === "postgres" ? "holdfast.queue" : "holdfast_queue";
            await user.query(`update ${name} set pause_reason = 'ours'`);
            (user.client as Client).connection.stream.pause();
            const lost = assert.rejects(user.query(LARGE.join(" union all ")));
            await other.db.engine.run(setReason("theirs"));
            (user.client as Client).connection.stream.destroy();
            await lost;
          },
          () => Promise.resolve(),
        );
        await assert.rejects(silence);
        assert.equal((await other.queues.find(FREE))?.paused?.reason, "theirs");
      });
    });

    test("outcomes and other queues do not wait for gates that another claim keeps", async () => {
      await withStores(kind, async (store, other) => {
        const rate = null;
        const rules = [{ kind: "queue", name: "", concurrency: 10, rate, weight: null } as const];
        await store.queues.change({ queue: LIMITED, rules }, { id: nextId(), actor: "ada" });
        await enqueueOne(store, { queue: LIMITED });
        const running = await claimOne(store, { queues: [LIMITED] }); // learns that it has rules
        const behindGate = await enqueueOne(store, { queue: LIMITED });
        const free = await enqueueOne(store, { queue: FREE });
        const wanted = upTo(5, { queues: [LIMITED, FREE], leaseMs: 2_000 });
        await other.db.engine.transaction(
          async (tx) => {
            const lock = other.db.engine.lockRows();
            await tx.all(sql`select name from holdfast.gate where queue = ${LIMITED} ${lock}`);
            const cycle = await store.jobs.settleAndClaim([done(running)], wanted);
            assert.deepEqual(idsOf(cycle.settled), [running.id]);
            assert.deepEqual(idsOf(cycle.claimed), [free.id]);
            assert.equal(cycle.lookInMs, 0, "the worker looks again at once");
          },
          { idleMs: NEVER_MS },
        );
        const { claimed } = await store.jobs.settleAndClaim([], wanted);
        assert.deepEqual(idsOf(claimed), [behindGate.id]);
      });
    });
  });
}

suite("the limits of silence on PostgreSQL", { skip: missing("postgres") }, () => {
  test("are longer for a user's function, and short again behind it", async () => {
    await withStores("postgres", async ({ db: { engine } }) => {
      const asked = "select current_setting('idle_in_transaction_session_timeout') as silence";
      const seen: unknown[] = [];
      const look = async (rows: Promise<unknown[]>): Promise<void> =>
        void seen.push(...(await rows));
      await engine.userTransaction(
        (user) => look(user.query(asked)),
        (tx) =>
          look(
            tx.all(sql`select current_setting('idle_in_transaction_session_timeout') as silence`),
          ),
      );
      assert.deepEqual(seen, [{ silence: "30s" }, { silence: "2s" }]);
    });
  });
});

suite("the limits of silence on MariaDB", { skip: missing("mysql"), concurrency: true }, () => {
  const shown = sql`select @@idle_transaction_timeout as silence`;

  test("are longer for a user's function, short again behind it, and restored", async () => {
    await withStores("mysql", async ({ db: { engine } }) => {
      const seen: unknown[] = [];
      const look = async (rows: Promise<unknown[]>): Promise<void> =>
        void seen.push(...(await rows));
      const asked = "select @@idle_transaction_timeout as silence";
      await engine.userTransaction(
        (user) => look(user.query(asked)),
        (tx) => look(tx.all(shown)),
      );
      await look(engine.all(shown));
      const failing = engine.userTransaction(
        () => Promise.reject(new Error("theirs")),
        () => Promise.resolve(),
      );
      await assert.rejects(failing, /theirs/);
      await look(engine.all(shown));
      assert.deepEqual(
        seen,
        [90, 2, 2, 2].map((silence) => ({ silence })),
      );
    });
  });

  test("on MySQL, which has none for transactions, are set and restored by each", async () => {
    await withStores("mysql", async ({ db }) => {
      const engine = db.engine as MysqlEngine;
      const { set, restore } = limitTexts({ lockMs: 900, idleMs: 1_200 }, false);
      const asked = "select @@wait_timeout, @@innodb_lock_wait_timeout";
      const rows = await engine.main.alone((session) =>
        session.send([asked, ...set, asked, ...restore, asked], { rows: "arrays" }),
      );
      assert.deepEqual([rows[0], rows[2], rows[4]], [[[90, 10]], [[2, 1]], [[90, 10]]]);
    });
  });
});

function setReason(reason: string) {
  return sql`update holdfast.queue set pause_reason = ${reason} where name = ${FREE}`;
}

async function pause(store: Store): Promise<void> {
  await store.queues.pause(FREE, { id: nextId(), actor: "ada" });
}

function idsOf(some: readonly { readonly id: string }[]): string[] {
  return some.map(({ id }) => id);
}

async function withStores(
  kind: "postgres" | "mysql",
  body: (one: Store, other: Store) => Promise<void>,
): Promise<void> {
  await using database = await scratchDatabase(kind);
  const one = await openStore(database.url);
  const other = await openStore(database.url);
  try {
    await one.migrate();
    await body(one, other);
  } finally {
    await one.close();
    await other.close();
  }
}
