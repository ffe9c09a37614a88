/** What is said about a deployment: only what its numbers can show. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { changeOf } from "../../src/stats/compare.ts";
import { NO_OUTCOMES } from "../../src/stats/task-totals.ts";

const build = (name: string, done: number, failed: number, p50Ms = 400) => ({
  build: name,
  outcomes: { ...NO_OUTCOMES, done, failed },
  runs: done === 0 ? null : { count: done, p50Ms, p95Ms: 3 * p50Ms, p99Ms: 4 * p50Ms },
});

suite("what a build changed", () => {
  const cases: readonly (readonly [
    string,
    ReturnType<typeof build>,
    ReturnType<typeof build> | null,
    string,
    RegExp,
  ])[] = [
    ["no build before", build("b", 900, 100), null, "unknown", /nothing to compare/],
    [
      "few attempts of it",
      build("b", 20, 9),
      build("a", 900, 0),
      "unknown",
      /build b has 29 attempts/,
    ],
    [
      "few attempts before",
      build("b", 900, 0),
      build("a", 3, 0),
      "unknown",
      /build a has 3 attempts/,
    ],
    [
      "four times as often",
      build("b", 920, 80),
      build("a", 980, 20),
      "worse",
      /^Fails 4 times as often \(8\.0 % of attempts, 2\.0 % before\) since build b\.$/,
    ],
    ["half as often", build("b", 950, 50), build("a", 900, 100), "better", /Fails half as often/],
    [
      "never before",
      build("b", 950, 50),
      build("a", 900, 0),
      "worse",
      /^Fails, which it did not before/,
    ],
    ["no more", build("b", 950, 0), build("a", 900, 50), "better", /^Fails no more/],
    ["by chance", build("b", 97, 3), build("a", 99, 1), "same", /as far as can be told/],
    [
      "one of forty proves nothing",
      build("b", 39, 1),
      build("a", 400, 0),
      "same",
      /as far as can be told/,
    ],
    [
      "slower",
      build("b", 990, 10, 1_200),
      build("a", 990, 10),
      "worse",
      /as often as before.*, and takes 3 times as long \(p50 1\.2 s, 400 ms before\)/,
    ],
    [
      "within what a histogram knows",
      build("b", 990, 10, 500),
      build("a", 990, 10),
      "same",
      /^[^,]+, as far/,
    ],
    [
      "fails more, but faster",
      build("b", 900, 100, 100),
      build("a", 990, 10),
      "worse",
      /10 times as often.*takes 25 % as long/,
    ],
    ["all fail", build("b", 0, 100), build("a", 100, 0), "worse", /100 % of attempts, 0 % before/],
  ];
  for (const [name, now, before, is, text] of cases) {
    test(name, () => {
      const change = changeOf(now, before);
      assert.equal(change.is, is);
      assert.match(change.text, text);
      assert.equal(change.before, before?.build ?? null);
    });
  }
});
