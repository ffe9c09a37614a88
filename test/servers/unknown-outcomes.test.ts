/**
 * Writes whose answer was lost on the way, on real servers behind a proxy that loses it: the verb looks up what became of
 * it, and answers as if nothing had happened.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { OutcomeUnknownError, StoreUnavailableError } from "../../src/core/errors.ts";
import type { Engine, Transaction } from "../../src/database/engine.ts";
import type { JobStatements } from "../../src/jobs/store.ts";
import { openStore } from "../../src/app/store.ts";
import { newJob, sortedIds, statusOf, upTo } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { everyNth } from "../support/scale.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { adminOf, engines, type EngineUnderTest } from "./engines.ts";
import { hurried } from "./hurried.ts";
import { changed, Site } from "./site.ts";
import { storyOf, verbs, type Act, type Verb } from "./verbs.ts";

/** How the answer is lost. Resolves when it is, having made sure of it. */
type Loss = (site: Site, verb: Verb, act: Act) => (call: Promise<unknown>) => Promise<void>;

function loseAnswer(site: Site, verb: Verb, act: Act): ReturnType<Loss> {
  const fault = site.proxy.loseAnswer(site.message(verb));
  return async (call) => {
    await firedBy(call, fault.answered);
    await until("it is committed", () => act.isCommitted(site.direct));
    assert.ok(fault.swallowed > 0, "the server answered and no client got it");
    fault.reset();
  };
}

/** So many answers in a row are lost after the first. */
const MORE = 3;

const BEFORE = "before it reached the server";
const AGAIN = "after the server committed, and the next answers as well";

const losses: Readonly<Record<string, Loss>> = {
  "after the server committed": loseAnswer,
  [AGAIN](site, verb, act) {
    const waitForFirst = loseAnswer(site, verb, act);
    return async (call) => {
      await waitForFirst(call);
      for (let more = 0; more < MORE; more += 1) {
        const fault = site.proxy.loseAnswer(/[^]/);
        await firedBy(call, fault.answered);
        fault.reset();
      }
    };
  },
  [BEFORE](site, verb) {
    const fault = site.proxy.loseRequest(site.message(verb));
    return async (call) => {
      await firedBy(call, fault.fired);
      assert.equal(site.proxy.counters.withheld, 1);
      assert.equal(fault.swallowed, 0);
    };
  },
};

/** Waits for a fault; a call that ends without it shows that the fault was never there. */
async function firedBy(call: Promise<unknown>, fired: Promise<void>): Promise<void> {
  const first = await Promise.race([fired.then(() => "fault"), call.then(() => "call")]);
  assert.equal(first, "fault", "the call was answered before its fault fired");
}

/** Does the same twice, once calmly and once with the answer lost: both must look the same. */
async function checkSame(site: Site, verb: Verb, loss: Loss): Promise<void> {
  const calmly = { queue: Site.newQueue(), answer: null as unknown };
  const calm = await verb.prepare(site.direct, calmly.queue);
  calmly.answer = await calm.verb(site.direct);
  const lost = { queue: Site.newQueue(), answer: null as unknown };
  const act = await verb.prepare(site.direct, lost.queue);
  const waitForLoss = loss(site, verb, act);
  const call = act.verb(site.store);
  // Awaited below; until then it has no handler.
  call.catch(() => {});
  await waitForLoss(call);
  lost.answer = await call;
  if (loss === losses[BEFORE] && act.claimRest !== undefined) {
    lost.answer = await act.claimRest(site.direct, lost.answer);
  }
  assert.deepEqual(
    await storyOf(site.direct, { act, ...lost }),
    await storyOf(site.direct, { act: calm, ...calmly }),
  );
}

/** An engine that makes a write again whose answer was lost, instead of asking what became of it. */
function repeatingBlindly(engine: Engine, statements: JobStatements): [Engine, JobStatements] {
  const again = async <T>(write: () => Promise<T>): Promise<T> => {
    try {
      return await write();
    } catch (error) {
      if (!(error instanceof OutcomeUnknownError)) throw error;
      return write();
    }
  };
  const blindly = {
    transaction: <T>(body: (tx: Transaction) => Promise<T>) =>
      again(() => engine.transaction(body)),
  };
  return [
    changed(engine, blindly),
    {
      ...statements,
      insert: (jobs) => again(() => statements.insert(jobs)),
      settleAndClaim: (settlements, wanted) =>
        again(() => statements.settleAndClaim(settlements, wanted)),
    },
  ];
}

/** Does not make sure that a session whose answer was lost writes no more. */
function leavingSessionsAlone(engine: Engine, statements: JobStatements): [Engine, JobStatements] {
  return [changed(engine, { endSession: () => Promise.resolve() }), statements];
}

/** A test that fails because its fault did not happen has noticed nothing. */
function notInVain(error: unknown): boolean {
  assert.doesNotMatch(String(error), /before its fault fired|in vain/);
  return true;
}

/** Statements that let others read the leases but not write them, and those that end it. */
const LOCKING = {
  postgres: ["begin", "lock table holdfast.lease in share mode", "rollback"],
  mysql: ["do 1", "lock tables holdfast_lease read", "unlock tables"],
} as const;

const BLOCKED = {
  postgres:
    "select pid as session from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
  mysql:
    "select id as session from information_schema.processlist where db = database() and state like 'Waiting for table%'",
} as const;

const BUSY = {
  postgres: (session: number) =>
    `select pid from pg_stat_activity where pid = ${session} and state = 'active'`,
  mysql: (session: number) =>
    `select id from information_schema.processlist where id = ${session} and command = 'Query'`,
};

/** A claim that the server has begun and cannot end is lost; then it could end. The owner of the job must know it. */
async function loseClaimUnderWay(site: Site, url: string): Promise<void> {
  await using admin = await adminOf(url);
  await using locker = await adminOf(url);
  const { kind } = site.engine;
  const [begin, lock, unlock] = LOCKING[kind];
  const blocked = async (): Promise<number[]> =>
    (await admin.rows<{ session: number }>(BLOCKED[kind])).map(({ session }) => session);
  const queue = Site.newQueue();
  // One for the claim that is lost, one for the next claim.
  await site.direct.jobs.enqueue([newJob({ queue }), newJob({ queue })]);
  await locker.rows(begin);
  await locker.rows(lock);
  const fault = site.proxy.loseAnswer(site.message({ message: "claim" }));
  const call = site.store.jobs.claim(upTo(1, { queues: [queue], worker: "the one that lost it" }));
  call.catch(() => {});
  let first = 0;
  try {
    await firedBy(call, fault.fired);
    first = await until("the server is at it", async () => (await blocked())[0]);
    fault.reset();
    const isGone = async (): Promise<boolean> => !(await blocked()).includes(first);
    // The check below is what counts: a session that stays may still do no harm.
    await until("its session is ended", isGone, ENDED_MS_MAX).catch(() => {});
  } finally {
    await locker.rows(unlock);
  }
  const claimed = await call;
  await until("it is at an end", async () => (await admin.rows(BUSY[kind](first))).length === 0);
  const taken = await site.direct.jobs.list({ queue, status: "processing", limit: 10 });
  assert.deepEqual(sortedIds(taken), sortedIds(claimed), "a job was taken and no worker knows it");
  assert.ok(taken.every(({ epoch }) => epoch === 1));
}

/** Ending a session takes less. */
const ENDED_MS_MAX = 1_000;

/** How much faster our own limits pass. */
const HURRY = 20;

/** Tests of their own queues do not disturb each other. */
const beside = { concurrency: 4 };

/** Through PgBouncer every write is a transaction. */
const pooled: readonly EngineUnderTest[] = engines
  .filter(({ kind }) => kind === "postgres")
  .map(({ commit, ...postgres }) => ({
    ...postgres,
    label: "PostgreSQL through PgBouncer",
    missing: missing("pgbouncer"),
    commit,
    alone: { insert: commit, claim: commit, settle: commit, extend: commit },
  }));

for (const engine of [...engines, ...pooled]) {
  describe(engine.label, { skip: engine.missing, timeout: 60_000 }, () => {
    let database: ScratchDatabase;
    const isPooled = pooled.includes(engine);
    const url = (): string => (isPooled ? String(database.pooledUrl) : database.url);
    before(async () => {
      database = await scratchDatabase(engine.kind);
      const store = await openStore(database.url);
      await store.migrate();
      await store.close();
    });
    after(() => database.drop());

    for (const [when, loss] of Object.entries(losses)) {
      describe(`a write is answered rightly that was lost ${when}`, beside, () => {
        for (const verb of everyNth(3, verbs, `${engine.label} ${when}`)) {
          // An extension cannot wait for long: a second loss is reported.
          if (verb.name === "extend" && loss === losses[AGAIN]) continue;
          test(verb.name, async () => {
            await using own = await Site.open(engine, url());
            await checkSame(own, verb, loss);
          });
        }
      });
    }

    test("a caller gets OUTCOME_UNKNOWN if the database stays unavailable", async () => {
      await using own = await Site.open(engine, url(), { runtime: hurried(HURRY) });
      const job = newJob({ queue: Site.newQueue() });
      const fault = own.proxy.loseAnswer(own.message({ message: "insert" }));
      const call = own.store.jobs.enqueue([job]);
      call.catch(() => {});
      await firedBy(call, fault.answered);
      own.proxy.refuse();
      own.proxy.cut();
      await assert.rejects(call, OutcomeUnknownError);
      assert.equal(await statusOf(own.direct, job.id), "pending");
      assert.equal(own.proxy.open, 0, "no look-up was possible");
    });

    test("the function of a commit runs once, also when its connection is lost behind it", async () => {
      await using own = await Site.open(engine, url());
      const queue = Site.newQueue();
      await own.direct.jobs.enqueue([newJob({ queue })]);
      const [job] = await own.direct.jobs.claim(upTo(1, { queues: [queue] }));
      assert.ok(job !== undefined);
      const step = { name: "book", occurrence: 1, position: 1, kind: "commit" } as const;
      let runs = 0;
      const committing = own.store.steps.commit(job, step, async (tx) => {
        await tx.query("select 1");
        runs += 1;
        own.proxy.cut();
        return null;
      });
      await assert.rejects(committing, StoreUnavailableError);
      assert.equal(runs, 1);
      assert.deepEqual(await own.direct.steps.list(job.id), []);
    });

    // A session behind PgBouncer has no number that we could know.
    const underWay = { skip: isPooled };
    describe(
      "a claim whose connection broke while the server executed it takes no job afterwards",
      underWay,
      () => {
        test("as a rule", async () => {
          await using own = await Site.open(engine, database.url);
          await loseClaimUnderWay(own, database.url);
        });

        const named = { skip: engine.kind !== "postgres" };
        test("also of an application that says its name in the URL", named, async () => {
          await using own = await Site.open(engine, `${database.url}?application_name=shop`);
          await loseClaimUnderWay(own, database.url);
        });
      },
    );

    const once = { ...beside, skip: isPooled };
    describe("these tests notice", once, () => {
      const planted = verbs.filter(
        ({ name }) => !/^(extend|cancel|enqueue with a (key|delay))/.test(name),
      );
      const loss = losses["after the server committed"] as Loss;
      for (const verb of everyNth(3, planted, engine.label)) {
        test(`a store that repeats blindly: ${verb.name}`, async () => {
          await using own = await Site.open(engine, url(), { change: repeatingBlindly });
          await assert.rejects(checkSame(own, verb, loss), notInVain);
        });
      }
    });

    describe("the test of a claim under way notices", underWay, () => {
      test("a store that leaves lost sessions alone", async () => {
        await using own = await Site.open(engine, database.url, { change: leavingSessionsAlone });
        await assert.rejects(loseClaimUnderWay(own, database.url), notInVain);
      });
    });
  });
}

after(assertNothingRuns);
