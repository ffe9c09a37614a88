/** A file that is deleted, moved or replaced while it is in use: nothing is accepted into it, and what was is not lost. */
import assert from "node:assert/strict";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { basename, dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, suite, test } from "node:test";
import { StoreGoneError } from "../../src/core/errors.ts";
import { defineTask, openHoldfast, StoreUnavailableError } from "../../src/index.ts";
import { Health } from "../../src/monitoring/health.ts";
import { openStore, type Store } from "../../src/app/store.ts";
import { tempFolder } from "../support/folder.ts";
import { newJob } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import { keepLog, until, withCode } from "../worker/observe.ts";

const folder = tempFolder();
const warnings: Error[] = [];
process.on("warning", (warning) => warnings.push(warning));

after(async () => {
  folder[Symbol.dispose]();
  await assertNothingRuns();
});

const echo = defineTask({ name: "echo", run: (value: number) => value });
const QUEUE = "gone";

async function openAt(path: string): Promise<Store> {
  const store = await openStore(`sqlite:${path}`, { runtime: systemRuntime });
  await store.migrate();
  return store;
}

function put(store: Store): Promise<unknown> {
  return store.jobs.enqueue([newJob({ queue: QUEUE })]);
}

function rescuedFrom(path: string): string[] {
  return readdirSync(dirname(path))
    .filter((name) => name.startsWith(`${basename(path)}.rescued-`))
    .map((name) => `${dirname(path)}/${name}`);
}

function modeOf(path: string): number {
  return statSync(path).mode & 0o777;
}

function jobsIn(path: string): number {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    return Number(db.prepare("select count(*) as n from holdfast_job").get()?.["n"]);
  } finally {
    db.close();
  }
}

const ways: Record<string, (path: string) => void> = {
  deleted: (path) => rmSync(path),
  "deleted with all that belongs to it": (path) => {
    for (const ending of ["", "-wal", "-shm"]) rmSync(path + ending);
  },
  "replaced by rename": (path) => {
    copyFileSync(path, `${path}.other`);
    renameSync(`${path}.other`, path);
  },
  "made anew": (path) => {
    for (const ending of ["", "-wal", "-shm"]) rmSync(path + ending);
    new DatabaseSync(path).close();
  },
};

suite("a file in use", () => {
  for (const [way, harm] of Object.entries(ways)) {
    test(`that is ${way}: the very next job is refused, and so is every other verb`, async () => {
      const path = folder.file(".db");
      const store = await openAt(path);
      await put(store);
      harm(path);
      await assert.rejects(put(store), withCode("STORE_GONE"));
      const verbs = [
        () => put(store),
        () => store.jobs.stats(),
        () => store.jobs.upcoming(),
        () => store.checkSchema(),
        () =>
          store.jobs.claim({ queues: [QUEUE], tasks: null, limit: 1, worker: "w", leaseMs: 1_000 }),
      ];
      for (const verb of verbs) await assert.rejects(verb(), withCode("STORE_GONE"));
      const error = await put(store).then(
        () => null,
        (thrown: unknown) => thrown,
      );
      assert.ok(error instanceof StoreGoneError && error instanceof StoreUnavailableError);
      assert.ok(error.message.includes(path) && error.message.includes(error.rescuePath));
      await store.close();
      // What was accepted is in the file that is left.
      assert.deepEqual(rescuedFrom(path), [error.rescuePath]);
      assert.ok(jobsIn(error.rescuePath) >= 1);
      assert.equal(modeOf(error.rescuePath), 0o600);
      await until("its operator is told", () =>
        warnings.some(({ message }) => message.includes(error.rescuePath)),
      );
    });
  }

  test("is created for its owner alone, with all that belongs to it", async () => {
    const path = folder.file(".db");
    const store = await openAt(path);
    await put(store);
    const endings = ["", "-wal", "-shm"];
    assert.deepEqual(
      endings.map((ending) => modeOf(path + ending)),
      [0o600, 0o600, 0o600],
    );
    await store.close();
    chmodSync(path, 0o640); // as its owner wants it
    const again = await openAt(path);
    await put(again);
    assert.deepEqual(
      endings.map((ending) => modeOf(path + ending)),
      [0o640, 0o640, 0o640],
    );
    await again.close();
  });

  test("whose log alone is deleted takes nothing that would be lost with it", async () => {
    const path = folder.file(".db");
    const store = await openAt(path);
    await put(store);
    rmSync(`${path}-wal`);
    await until("it is noticed", () => put(store).then(() => false, withCode("STORE_GONE")));
    await store.close();
    const [rescued = ""] = rescuedFrom(path);
    assert.ok(jobsIn(rescued) >= 1);
  });

  test("that is moved away and back continues, and no rescue file is written", async () => {
    const path = folder.file(".db");
    const store = await openAt(path);
    await put(store);
    renameSync(path, `${path}.elsewhere`);
    await assert.rejects(put(store), withCode("STORE_GONE"));
    renameSync(`${path}.elsewhere`, path);
    await put(store);
    await store.close();
    assert.deepEqual(rescuedFrom(path), []);
    // The refused one may be there, too: it is written if the file was looked at a few milliseconds before.
    assert.ok([2, 3].includes(jobsIn(path)));
  });

  test("that is moved without its log is saved as a whole", async () => {
    const path = folder.file(".db");
    const store = await openAt(path);
    await put(store);
    renameSync(path, `${path}.elsewhere`);
    await store.close(); // which is when it is noticed
    const [rescued = ""] = rescuedFrom(path);
    assert.equal(jobsIn(rescued), 1);
  });

  test("of which two connections know is saved once", async () => {
    const path = folder.file(".db");
    const [one, other] = [await openAt(path), await openAt(path)];
    await put(one);
    rmSync(path);
    await one.close();
    const [rescued = ""] = rescuedFrom(path);
    const { mtimeMs } = statSync(rescued);
    await other.close();
    assert.deepEqual(rescuedFrom(path), [rescued]);
    assert.equal(statSync(rescued).mtimeMs, mtimeMs);
  });

  test("in memory has no file to lose", async () => {
    const store = await openAt(":memory:");
    await put(store);
    await store.close();
    assert.ok(!existsSync(":memory:"));
  });
});

suite("a service whose file is deleted", () => {
  test("logs it once, is down and alive, runs nothing, and saves its data when it stops", async () => {
    const path = folder.file(".db");
    const log = keepLog();
    await using holdfast = await openHoldfast(`sqlite:${path}`, {
      logger: log.logger,
      locks: "sql",
    });
    const health = new Health({ holdfast });
    const worker = await holdfast.startWorker({ tasks: [echo], poll: "50ms", heartbeat: "1s" });
    health.watch(worker);
    assert.equal(await (await holdfast.enqueue(echo, 1)).result({ timeout: "10s" }), 1);
    await until("there are two", () => log.of("the lease renewer's thread is ready").length === 1);
    const later = await holdfast.enqueue(echo, 2, { delay: "1h" });
    for (const ending of ["", "-wal", "-shm"]) rmSync(path + ending);

    await assert.rejects(holdfast.enqueue(echo, 3), withCode("STORE_GONE"));
    const said = () => log.lines.filter(({ message }) => message.includes("was deleted or moved"));
    await until("the health says so", async () => (await health.health()).status === "down");
    await until("both threads have said so", () => said().length === 2);
    const told = await health.health();
    assert.match(String(told.checks[0]?.detail), /file was deleted or replaced/);
    assert.ok(!JSON.stringify(told).includes(path), "the caller need not know where it is");
    assert.equal((await health.ready()).status, "down");
    assert.deepEqual(await health.live(), { status: "ok", reasons: [] }); // a new start would lose all
    await assert.rejects(holdfast.enqueue(echo, 4), withCode("STORE_GONE"));
    await holdfast.close();
    assert.equal(said().length, 2, JSON.stringify(said().map(({ message }) => message)));

    const [rescued = ""] = rescuedFrom(path);
    assert.ok(warnings.some(({ message }) => message.includes(rescued)));
    await using again = await openHoldfast(`sqlite:${rescued}`);
    assert.equal((await again.jobs.get(later.id))?.status, "scheduled");
  });
});
