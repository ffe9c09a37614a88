import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { type Holdfast, openHoldfast } from "../../src/index.ts";
import { LockNotAcquiredError } from "../../src/locks/index.ts";
import { sql } from "../../src/database/sql.ts";
import { assertRefused, TestCli } from "./command.ts";

suite("holdfast locks", () => {
  let cli: TestCli;
  let holdfast: Holdfast;
  before(async () => {
    cli = new TestCli();
    holdfast = await openHoldfast(`sqlite:${join(cli.folder, "holdfast.db")}`, { locks: "sql" });
  });
  after(async () => {
    await holdfast.close();
    await cli[Symbol.asyncDispose]();
  });

  test("says that there are none", async () => {
    assert.equal((await cli.holdfast(["locks"])).stdout, "No locks.\n");
    const { stdout } = await cli.holdfast(["locks", "stats"]);
    assert.equal(stdout, "No locks in the last 1h.\n");
  });

  test("lists locks with their owners, and every field as JSON", async () => {
    const lock = await holdfast.locks.acquire("order:42", { trace: "refund 7", ttl: "5m" });
    await holdfast.locks.acquire("invoice:1", { ttl: "5m" });
    const { stdout } = await cli.holdfast(["locks"]);
    assert.match(stdout, /^LOCK +OWNER +HELD +EXPIRES IN +TOKEN +FOR\n/);
    assert.match(
      stdout,
      new RegExp(`^order:42 +${lock.owner} .+ 4m +${lock.token} +refund 7$`, "m"),
    );
    assert.match(stdout, /^2 locks$/m);
    const { locks } = await cli.json(["locks", "list", "--type", "order"]);
    assert.equal(locks.length, 1);
    const { key, token, owner, trace, expiresInMs } = locks[0];
    assert.deepEqual([key, token, owner, trace], ["order:42", lock.token, lock.owner, "refund 7"]);
    assert.ok(expiresInMs > 0);
  });

  test("releases a lock by force, and the audit log records the actor", async () => {
    const lock = await holdfast.locks.acquire("order:43", { ttl: "5m" });
    const { stdout } = await cli.holdfast(["locks", "release", "order:43"]);
    assert.equal(stdout, `Released order:43, which was held by ${lock.owner}\n`);
    await assert.rejects(lock.extend());
    const { engine } = holdfast.store.db;
    const [line] = await engine.all<{ actor: string; action: string; subject: string }>(
      sql`select actor, action, subject from holdfast.audit`,
    );
    assert.match(line?.actor ?? "", /^cli \S/);
    assert.deepEqual([line?.action, line?.subject], ["lock.release", "lock order:43"]);
    assertRefused(
      await cli.holdfast(["locks", "release", "order:43"]),
      4,
      /Lock order:43 is not held/,
    );
  });

  test("shows how long callers waited", async () => {
    await assert.rejects(holdfast.locks.acquire("order:42", { wait: 0 }), LockNotAcquiredError);
    await holdfast.locks.stats(); // which writes what was counted
    const { stdout } = await cli.holdfast(["locks", "stats", "--last", "10m"]);
    assert.match(stdout, /^TYPE +ACQUIRED +TIMED OUT +WAIT AVG +P50 +P95 +P99 +MAX HELD\n/);
    assert.match(stdout, /^order +2 +1 +[\d.]+ms /m);
    const { types, minutes, partial } = await cli.json(["locks", "stats", "--type", "order"]);
    assert.deepEqual([types.length, types[0].acquisitions, types[0].timeouts], [1, 2, 1]);
    assert.ok(minutes.length > 0 && partial === false);
    assertRefused(await cli.holdfast(["locks", "stats", "--last", "soon"]), 2, /duration/);
  });
});
