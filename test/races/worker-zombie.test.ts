/**
 * F2: a worker that was frozen for longer than its lease wakes up and goes on as if nothing had
 * happened. Its jobs belong to another worker by then, and nothing that it writes may count.
 *
 * The writes are noted down by a witness in the zombie's own process, so the test knows that they
 * were attempted. And with a fence removed from the store, the same checks must find the damage.
 */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { after, suite, test } from "node:test";
import { type Holdfast, openHoldfast } from "../../src/index.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { everyNth } from "../support/scale.ts";
import { until } from "../worker/observe.ts";
import { WorkerProcess } from "./worker-process.ts";
import type { Write } from "./worker-witness.ts";

after(assertNothingRuns);

/** Long enough for a keeper that waits for a processor behind everything else that runs here. */
const LEASE_MS = 3_000;
const worker = {
  lease: LEASE_MS,
  grace: 200,
  maintenanceInterval: 50,
  poll: "1s",
  runSuspectsAlone: false, // The successor runs them all at once.
};
const TASKS = ["settled", "released", "finished"] as const;
const VERBS = ["settle", "extend", "release"] as const;

interface Graveyard {
  readonly holdfast: Holdfast;
  readonly zombie: WorkerProcess;
  readonly successor: WorkerProcess;
  /** The jobs' ids by their tasks. */
  readonly ids: Readonly<Record<(typeof TASKS)[number], string>>;
  readonly frozenMs: number;
  /** What the zombie wrote about these jobs, under its old leases, since it woke up. */
  readonly lateWrites: () => Write[];
}

/** The story up to the zombie's awakening. What it does then is the caller's to wait for. */
async function awaken(plant: string | null, tell: (scene: Graveyard) => Promise<void>) {
  using folder = tempFolder();
  const path = folder.file(".db");
  const journal = folder.file(".journal");
  writeFileSync(journal, "");
  const url = `sqlite:${path}`;
  await using holdfast = await openHoldfast(url);
  const ids = await enqueueAll(holdfast);

  const planted = plant === null ? {} : { plant };
  const zombieConfig = { url, role: "zombie", worker, journal, ...planted };
  await using zombie = new WorkerProcess("worker-zombie-child.ts", zombieConfig);
  await zombie.until("started", TASKS.length);
  await until("its keeper has a thread", () => zombie.hasThread);
  await using successor = new WorkerProcess("worker-zombie-child.ts", {
    url,
    role: "successor",
    worker,
  });
  await successor.until("ready");

  await zombie.freeze(path);
  const frozenAt = performance.now();
  const before = readJournal(journal).length;
  await successor.until("started", TASKS.length);
  await until("one of the jobs is finished", async () => {
    return (await holdfast.jobs.get(ids.finished))?.status === "done";
  });
  await until("two leases have passed", () => performance.now() - frozenAt > 2 * LEASE_MS);
  const frozenMs = performance.now() - frozenAt;
  const lateWrites = (): Write[] => readJournal(journal).slice(before).flatMap(underOldLease);

  zombie.signal("SIGCONT");
  await tell({ holdfast, zombie, successor, ids, frozenMs, lateWrites });
}

async function enqueueAll(holdfast: Holdfast): Promise<Graveyard["ids"]> {
  const entries: [string, string][] = [];
  for (const task of TASKS) entries.push([task, (await holdfast.enqueue(task, null)).id]);
  return Object.fromEntries(entries) as Graveyard["ids"];
}

function readJournal(path: string): Write[] {
  const lines = readFileSync(path, "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as Write);
}

/** The zombie's own leases were the first on these jobs. */
function underOldLease(write: Write): Write[] {
  const offered = write.offered.filter(({ epoch }) => epoch === 1);
  const accepted = write.accepted.filter(({ epoch }) => epoch === 1);
  return offered.length === 0 ? [] : [{ ...write, offered, accepted }];
}

/** A constraint behind the fence may have stopped it, but it is no longer the fence that did. */
function hasPassed({ accepted, error }: Write): boolean {
  return accepted.length > 0 || error === "STORE_REFUSED";
}

/** The check itself: each kind of write was attempted, and the fence refused it. */
function checkFence(writes: readonly Write[]): void {
  assert.deepEqual(writes.filter(hasPassed), [], "a late write got past the fence");
  for (const verb of VERBS) {
    const attempted = writes.some((write) => write.verb === verb);
    assert.ok(attempted, `no late ${verb} was attempted`);
  }
}

suite("a worker that was frozen for two leases", { concurrency: true, skip: noFreezing() }, () => {
  test("cannot write to its former jobs, and logs once for each that it lost it", async () => {
    await awaken(null, async ({ holdfast, zombie, successor, ids, frozenMs, lateWrites }) => {
      assert.ok(frozenMs >= 2 * LEASE_MS);
      await zombie.until("aborted", TASKS.length);
      await zombie.until("released");
      await until("everything was attempted", () => {
        const settles = lateWrites().filter(({ verb }) => verb === "settle");
        const jobs = new Set(settles.flatMap(({ offered }) => offered.map(({ id }) => id)));
        return jobs.size === TASKS.length;
      });
      checkFence(lateWrites());
      const byKeeper = lateWrites().filter(({ verb }) => verb === "extend");
      assert.ok(byKeeper.every(({ thread }) => thread === "keeper"));
      assert.deepEqual(
        zombie.of("released").map(({ accepted }) => accepted),
        [0],
      );

      const everyId = Object.values(ids).toSorted();
      const aborts = zombie.of("aborted");
      assert.deepEqual(aborts.map(({ id }) => String(id)).toSorted(), everyId);
      assert.deepEqual(new Set(aborts.map(({ code }) => code)), new Set(["LEASE_LOST"]));

      zombie.tell("status 1");
      const status = await zombie.until("status");
      assert.equal(status["leasesLost"], TASKS.length);
      assert.equal(status["staleWritesRefused"], TASKS.length);
      assert.equal(status["done"], 0);
      assert.equal(status["running"], 0);

      const lines = zombie.of("log").filter(({ message }) => message === "job ownership lost");
      assert.deepEqual(lines.map(({ job }) => String(job)).toSorted(), everyId);
      const { worker: zombieId } = await zombie.until("ready");
      assert.deepEqual(new Set(lines.map((line) => line["worker"])), new Set([zombieId]));

      successor.tell("finish");
      await checkSuccessor(holdfast, await successor.until("ready"), zombieId as string, ids);
    });
  });

  const plants = [
    ["findLease", ["settle", "release"]],
    ["extendLease", ["extend"]],
  ] as const;
  for (const [plant, verbs] of everyNth(plants.length, plants)) {
    test(`is caught by this test when ${plant} has no fence: ${verbs.join(", ")}`, async () => {
      await awaken(plant, async ({ lateWrites }) => {
        const isDamaged = (verb: string): boolean =>
          lateWrites().some((write) => write.verb === verb && hasPassed(write));
        await until("the damage is done", () => verbs.every(isDamaged));
        assert.throws(() => checkFence(lateWrites()), /got past the fence/);
        for (const verb of VERBS)
          assert.equal(
            isDamaged(verb),
            verbs.some((one) => one === verb),
          );
      });
    });
  }
});

/** Each job was lost by the zombie and done by the successor, once. */
async function checkSuccessor(
  holdfast: Holdfast,
  ready: Readonly<Record<string, unknown>>,
  zombieId: string,
  ids: Graveyard["ids"],
): Promise<void> {
  for (const id of Object.values(ids)) {
    const job = await until("the successor has done it", async () => {
      const found = await holdfast.jobs.get(id);
      return found?.status === "done" ? found : null;
    });
    assert.equal(job.result, "successor");
    assert.deepEqual([job.epoch, job.attempts, job.crashes], [2, 2, 1]);
    const history = await holdfast.jobs.attempts(id);
    assert.deepEqual(
      history.map(({ epoch, outcome, worker: owner }) => [epoch, outcome, owner]),
      [
        [1, "crashed", zombieId],
        [2, "done", ready["worker"]],
      ],
    );
  }
}

function noFreezing(): string | false {
  return process.platform === "linux"
    ? false
    : "only Linux shows in /proc that a process is frozen";
}
