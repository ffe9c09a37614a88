/** A simulation that finds nothing may be one that can not find anything: so bugs are planted, and it has to. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { everyNth, isLong } from "../support/scale.ts";
import { hunt, tableOf } from "./hunt.ts";
import { foundAt, mutants } from "./mutants.ts";

const PLANTED_MIN = 20;

test("every planted bug is found", async (t) => {
  assert.ok(mutants.length >= PLANTED_MIN);
  assert.equal(new Set(mutants.map(({ name }) => name)).size, mutants.length);
  const results = await hunt(everyNth(6, mutants), { inHurry: !isLong });
  for (const line of tableOf(results).split("\n")) t.diagnostic(line);
  const missed = results.filter(({ by }) => by === null).map(({ mutant }) => mutant);
  assert.deepEqual(missed, []);
});

test("where bugs were found is noted of bugs that there are", () => {
  const names = new Set(mutants.map(({ name }) => name));
  assert.deepEqual(
    Object.keys(foundAt).filter((name) => !names.has(name)),
    [],
  );
});

test("every bug has its place in the source, also those that are not looked for this time", () => {
  const patches = mutants.flatMap((mutant) => mutant.patches);
  const lost = patches.filter(({ file, find }) => {
    const source = readFileSync(new URL(`../../src/${file}`, import.meta.url), "utf8");
    return source.split(find).length !== 2;
  });
  assert.deepEqual(lost, []);
});

test("a bug whose place in the source is gone is an error, not a bug that was not found", async () => {
  const gone = { name: "unknown", patches: [] };
  await assert.rejects(hunt([gone]), /No mutant is called 'unknown'/);
});
