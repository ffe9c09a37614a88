import assert from "node:assert/strict";
import { suite, test } from "node:test";
import * as fc from "fast-check";
import { DURATION_MS_MAX, formatMs, toMs } from "../../src/core/duration.ts";
import { InvalidArgumentError } from "../../src/core/errors.ts";

/** Whatever comes in here was not checked by a compiler. */
const untyped = (value: unknown): number => value as number;

suite("a duration", () => {
  test("is read in every unit", () => {
    assert.equal(toMs("wait", "250ms"), 250);
    assert.equal(toMs("wait", "10s"), 10_000);
    assert.equal(toMs("wait", "1.5m"), 90_000);
    assert.equal(toMs("wait", "2h"), 7_200_000);
    assert.equal(toMs("wait", "7d"), 604_800_000);
  });

  test("may combine units, with a blank between them or not", () => {
    assert.equal(toMs("wait", "1h30m"), 5_400_000);
    assert.equal(toMs("wait", "1m 30s"), 90_000);
    assert.equal(toMs("wait", " 1d 2h 3m 4s 5ms "), 93_784_005);
  });

  test("given as a number is milliseconds", () => {
    assert.equal(toMs("wait", 0), 0);
    assert.equal(toMs("wait", 1500), 1500);
  });

  test("comes out in whole milliseconds", () => {
    assert.equal(toMs("wait", 1000 / 3), 333);
    assert.equal(toMs("wait", "1.1d"), 95_040_000);
    assert.equal(toMs("wait", "0.0015s"), 2);
  });

  const unreadable = [
    "",
    " ",
    "10",
    "s",
    "ten seconds",
    "10 s",
    "10S",
    "-5s",
    "1e3s",
    ".5s",
    "1.s",
    "1..5s",
    "1,5s",
    "1h  30m",
    "5sx",
    "٣s",
    Number.NaN,
    Number.POSITIVE_INFINITY,
    untyped(null),
    untyped({}),
    untyped(10n),
  ];
  for (const given of unreadable) {
    test(`that reads ${typeof given} ${String(given)} is refused with examples`, () => {
      assert.throws(
        () => toMs("retry.first", given),
        (error) =>
          error instanceof InvalidArgumentError &&
          error.field === "retry.first" &&
          error.message.startsWith("retry.first: ") &&
          error.message.includes(`"1h30m"`),
      );
    });
  }

  test("names each unit once, the largest first, so that a slip is refused", () => {
    for (const given of ["30m1h", "1m1m", "1ms1s"]) {
      assert.throws(() => toMs("wait", given), InvalidArgumentError);
    }
  });

  test("outside its limits is refused with the limit", () => {
    const limits = { min: 1_000, max: 60_000 };
    assert.equal(toMs("lease", "1s", limits), 1_000);
    assert.equal(toMs("lease", "60s", limits), 60_000);
    assert.throws(() => toMs("lease", 999, limits), {
      code: "INVALID_ARGUMENT",
      message: "lease: must be at least 1000 ms (1s); it is 999.",
    });
    assert.throws(() => toMs("lease", "1h", limits), {
      message: `lease: must be at most 60000 ms (1m); it is "1h".`,
    });
  });

  test("is never negative and at most a hundred years unless told otherwise", () => {
    assert.throws(() => toMs("wait", -1), InvalidArgumentError);
    assert.equal(toMs("wait", DURATION_MS_MAX), DURATION_MS_MAX);
    assert.throws(() => toMs("wait", DURATION_MS_MAX + 1), InvalidArgumentError);
    assert.throws(() => toMs("wait", `${"9".repeat(50)}d`), InvalidArgumentError);
  });

  test("of any length is read or refused at once, and the error stays short", () => {
    const hostile = ["1".repeat(1_000_000), `${"1s".repeat(500_000)}!`, " ".repeat(1_000_000)];
    for (const given of hostile) {
      assert.throws(
        () => toMs("wait", given),
        (error) => error instanceof InvalidArgumentError && error.message.length < 300,
      );
    }
  });

  test("of any text is a whole number of milliseconds within limits, or InvalidArgumentError", () => {
    const near = fc.string({
      unit: fc.constantFrom("0", "1", "9", ".", "s", "m", "h", "d", " ", "-"),
    });
    fc.assert(
      fc.property(fc.oneof(near, fc.string()), (text) => {
        try {
          const ms = toMs("wait", text);
          assert.ok(Number.isInteger(ms) && ms >= 0 && ms <= DURATION_MS_MAX);
        } catch (error) {
          assert.ok(error instanceof InvalidArgumentError);
        }
      }),
    );
  });
});

suite("a duration for people", () => {
  test("shows its largest unit and the one below", () => {
    assert.equal(formatMs(0), "0ms");
    assert.equal(formatMs(250), "250ms");
    assert.equal(formatMs(1_000), "1s");
    assert.equal(formatMs(1_500), "1s 500ms");
    assert.equal(formatMs(90_000), "1m 30s");
    assert.equal(formatMs(3_600_000), "1h");
    assert.equal(formatMs(93_784_005), "1d 2h");
    assert.equal(formatMs(86_400_000 * 400), "400d");
  });

  test("shows a negative or non-numeric duration unchanged", () => {
    assert.equal(formatMs(-90_000), "-1m 30s");
    assert.equal(formatMs(-0.5), "0ms");
    assert.equal(formatMs(Number.NaN), "NaN");
    assert.equal(formatMs(Number.POSITIVE_INFINITY), "Infinity");
  });

  test("can be read back, and is never longer than the span", () => {
    fc.assert(
      fc.property(fc.nat(DURATION_MS_MAX), (ms) => {
        const shownMs = toMs("wait", formatMs(ms));
        assert.ok(shownMs <= ms && ms - shownMs <= ms / 2);
      }),
    );
  });
});
