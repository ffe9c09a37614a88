import assert from "node:assert/strict";
import { suite, test } from "node:test";
import * as fc from "fast-check";
import { DURATION_MS_MAX } from "../../src/core/duration.ts";
import { InvalidArgumentError } from "../../src/core/errors.ts";
import {
  ATTEMPTS_MAX,
  backoffMs,
  FACTOR_MAX,
  type RetryOptions,
  retryPolicy,
} from "../../src/core/retry.ts";

const ALMOST_ONE = 1 - Number.EPSILON / 2;

suite("a retry policy", () => {
  test("is three attempts with waits from one second to one hour, doubling, by default", () => {
    const defaults = {
      maxAttempts: 3,
      initialMs: 1_000,
      maxMs: 3_600_000,
      factor: 2,
      delay: null,
      maxSnoozes: 1_000,
    };
    assert.deepEqual(retryPolicy(), defaults);
    assert.deepEqual(retryPolicy({}), defaults);
  });

  test("takes durations as people write them", () => {
    assert.deepEqual(
      retryPolicy({ maxAttempts: 10, backoff: { initial: "500ms", max: "5m", factor: 1.5 } }),
      {
        maxAttempts: 10,
        initialMs: 500,
        maxMs: 300_000,
        factor: 1.5,
        delay: null,
        maxSnoozes: 1_000,
      },
    );
  });

  test("may start with a wait longer than the default longest one", () => {
    const { initialMs, maxMs } = retryPolicy({ backoff: { initial: "2h" } });
    assert.deepEqual({ initialMs, maxMs }, { initialMs: 7_200_000, maxMs: 7_200_000 });
  });

  const refused: readonly (readonly [field: string, options: unknown])[] = [
    ["retry.attempts", { attempts: 3 }],
    ["retry.backoff.first", { backoff: { first: "1s" } }],
    ["retry.maxAttempts", { maxAttempts: 0 }],
    ["retry.maxAttempts", { maxAttempts: 1.5 }],
    ["retry.maxAttempts", { maxAttempts: ATTEMPTS_MAX + 1 }],
    ["retry.maxAttempts", { maxAttempts: Number.NaN }],
    ["retry.maxAttempts", { maxAttempts: "3" }],
    ["retry.backoff.initial", { backoff: { initial: "soon" } }],
    ["retry.backoff.initial", { backoff: { initial: -1 } }],
    ["retry.backoff.max", { backoff: { max: "never" } }],
    ["retry.backoff.max", { backoff: { initial: "10s", max: "9s" } }],
    ["retry.backoff.factor", { backoff: { factor: 0.5 } }],
    ["retry.backoff.factor", { backoff: { factor: FACTOR_MAX + 1 } }],
    ["retry.backoff.factor", { backoff: { factor: Number.NaN } }],
    ["retry.backoff.factor", { backoff: { factor: "2" } }],
  ];
  for (const [field, options] of refused) {
    test(`of ${JSON.stringify(options)} is refused by the name ${field}`, () => {
      assert.throws(
        () => retryPolicy(options as RetryOptions),
        (error) => error instanceof InvalidArgumentError && error.field === field,
      );
    });
  }
});

suite("the wait before the next attempt", () => {
  const policy = retryPolicy({ maxAttempts: 10, backoff: { initial: "1s", max: "1m", factor: 2 } });

  test("is drawn from the whole span between nothing and the grown wait", () => {
    assert.equal(backoffMs(policy, 1, 0), 0);
    assert.equal(backoffMs(policy, 1, 0.5), 500);
    assert.equal(backoffMs(policy, 1, ALMOST_ONE), 1_000);
    assert.equal(backoffMs(policy, 4, 0.5), 4_000);
    assert.equal(backoffMs(policy, 4, ALMOST_ONE), 8_000);
  });

  test("stops growing at the longest wait", () => {
    assert.equal(backoffMs(policy, 6, ALMOST_ONE), 32_000);
    assert.equal(backoffMs(policy, 7, ALMOST_ONE), 60_000);
    assert.equal(backoffMs(policy, 10_000, ALMOST_ONE), 60_000);
  });

  test("stays nothing when the first wait is nothing, however often the job failed", () => {
    const eager = retryPolicy({ backoff: { initial: 0 } });
    assert.equal(backoffMs(eager, 10_000, ALMOST_ONE), 0);
  });

  test("is a whole number within its bounds for every policy and attempt", () => {
    const spans = fc.tuple(fc.nat(DURATION_MS_MAX), fc.nat(DURATION_MS_MAX));
    fc.assert(
      fc.property(
        spans,
        fc.double({ min: 1, max: FACTOR_MAX, noNaN: true }),
        fc.integer({ min: 1, max: 10_000 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        ([one, other], factor, attempt, random) => {
          const [first, most] = [Math.min(one, other), Math.max(one, other)];
          const drawn = backoffMs(
            retryPolicy({ backoff: { initial: first, max: most, factor } }),
            attempt,
            random,
          );
          assert.ok(Number.isInteger(drawn) && drawn >= 0 && drawn <= most);
          if (attempt === 1) assert.ok(drawn <= first);
        },
      ),
    );
  });

  test("does not shrink from one attempt to the next for the same draw", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10_000 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (attempt, random) => {
          const next = backoffMs(policy, attempt + 1, random);
          assert.ok(next >= backoffMs(policy, attempt, random));
        },
      ),
    );
  });
});
