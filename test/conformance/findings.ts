/** Checks: a healthy store has no findings, and what can be mended is mended. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { InvalidArgumentError } from "../../src/core/errors.ts";
import { Sql } from "../../src/database/sql.ts";
import { violations } from "../support/violations.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import { enqueueOne, jobIn, nextId, headOf } from "../support/jobs.ts";
import { near } from "../support/near.ts";
import { statuses } from "../../src/core/job.ts";

const by = { actor: "ada", limit: 100 };
const text = (words: string): Sql => new Sql([words], []);

const MENDED = [
  "lease-of-stopped-worker",
  "lease-expired",
  "job-overdue",
  "wait-unheard",
  "wait-orphaned",
  "dependency-miscounted",
  "dependency-unheard",
  "dependency-orphaned",
  "key-orphaned",
  "kept-key-orphaned",
  "tag-orphaned",
  "trace-orphaned",
  "schedule-run-orphaned",
  "item-due-orphaned",
  "item-job-orphaned",
];

async function plant(bundle: Bundle, name: string): Promise<string> {
  const violation = violations[name];
  assert.ok(violation !== undefined);
  const byHand = (words: string): Promise<number> => bundle.byHand(text(words));
  return violation.plant({ store: await near(bundle), clock: bundle.clock, byHand });
}

export const findings: Group = (open) => {
  test("every check can run, and finds nothing in an undamaged store", async () => {
    const { store } = await open();
    for (const status of statuses.filter((each) => each !== "processing" && each !== "pending")) {
      await jobIn(store, status, { queue: status });
    }
    await enqueueOne(store, { queue: "late" });
    for (const { name } of await store.checks.list()) {
      const found = await store.checks.examine(name, {
        limit: 10,
        deep: true,
        sinceAt: Number.MAX_SAFE_INTEGER,
      });
      assert.equal(found, null, name);
    }
  });

  test("an unknown check, or one without a fix, is refused", async () => {
    const { store } = await open();
    await assert.rejects(store.checks.examine("job-happy", { limit: 1 }), InvalidArgumentError);
    await assert.rejects(
      store.checks.fix("job-nowhere", { ...by, id: nextId() }),
      InvalidArgumentError,
    );
  });

  test("at most the requested number of offenders is listed, and that there are more", async () => {
    const bundle = await open();
    const subject = await plant(bundle, "lease-never-renewed");
    const asked = { limit: 1 };
    const one = await bundle.store.checks.examine("lease-never-renewed", asked);
    assert.deepEqual([one?.more, one?.offenders.map((each) => each.subject)], [false, [subject]]);
    await plant(bundle, "lease-never-renewed");
    const two = await bundle.store.checks.examine("lease-never-renewed", asked);
    assert.deepEqual([two?.more, two?.offenders.length], [true, 1]);
  });

  test("the fixable checks are known", async () => {
    const { store } = await open();
    const fixable = (await store.checks.list()).filter((check) => check.fixable);
    assert.deepEqual(fixable.map(({ name }) => name).toSorted(), MENDED.toSorted());
  });

  test("a trace of another owner is found", async () => {
    const bundle = await open();
    const subject = await plant(bundle, "trace-of-another-owner");
    const found = await bundle.store.checks.examine("trace-of-another-owner", { limit: 10 });
    assert.deepEqual(
      found?.offenders.map((each) => each.subject),
      [subject],
    );
  });

  for (const name of MENDED) {
    test(`${name} is found, fixed, recorded, and not found again`, async () => {
      const bundle = await open();
      const { store } = bundle;
      const subject = await plant(bundle, name);
      const found = await store.checks.examine(name, { limit: 10 });
      assert.deepEqual(
        found?.offenders.map((each) => each.subject),
        [subject],
      );
      assert.deepEqual(await store.checks.fix(name, { ...by, id: nextId() }), [subject]);
      assert.equal(await store.checks.examine(name, { limit: 10 }), null);
      const [line] = await store.audit.list({ limit: 1 });
      assert.deepEqual(
        [line?.actor, line?.action, line?.subject],
        ["ada", "doctor.fix", `check ${name}`],
      );
      assert.deepEqual(JSON.parse(line?.detail ?? ""), { fixed: 1, subjects: [subject] });
      const lines = (await headOf(store)).seq;
      assert.deepEqual(await store.checks.fix(name, { ...by, id: nextId() }), []);
      assert.equal((await headOf(store)).seq, lines, "nothing was mended, so there is no line");
    });
  }
};
