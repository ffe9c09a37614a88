import assert from "node:assert/strict";
import { suite, test } from "node:test";
import * as fc from "fast-check";
import { InvalidArgumentError } from "../../src/core/errors.ts";
import { firstIdAt, idTime, isId, makeIds } from "../../src/core/id.ts";
import { type Runtime, systemRuntime } from "../../src/core/runtime.ts";

const NOW = 1_800_000_000_000;
const MS_MAX = 2 ** 48 - 1;

/** Ids under a clock that the test moves. */
function idsAt(start: number) {
  const clock = { now: start, fills: 0 };
  const runtime: Runtime = {
    ...systemRuntime,
    now: () => clock.now,
    fillRandom(bytes) {
      clock.fills += 1;
      systemRuntime.fillRandom(bytes);
    },
  };
  return { clock, next: makeIds(runtime) };
}

function many(next: () => string, count: number): string[] {
  return Array.from({ length: count }, () => next());
}

function assertIncreasing(ids: readonly string[]): void {
  for (const [index, id] of ids.slice(1).entries()) {
    const before = ids[index]!;
    assert.ok(before < id, `${before} is followed by ${id}`);
  }
}

suite("ids", () => {
  test("are UUIDs of version 7 that carry their millisecond", () => {
    const id = idsAt(NOW).next();
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.ok(isId(id));
    assert.equal(idTime(id), NOW);
  });

  test("of one millisecond are counted from zero", () => {
    const ids = many(idsAt(NOW).next, 3);
    assert.deepEqual(
      ids.map((id) => id.slice(0, 18)),
      ["01a3185c-5000-7000", "01a3185c-5000-7001", "01a3185c-5000-7002"],
    );
  });

  test("borrow the next millisecond when one is used up, and count on from there", () => {
    const { clock, next } = idsAt(NOW);
    const ids = many(next, 4_096 * 2 + 1);
    assertIncreasing(ids);
    assert.equal(idTime(ids[4_095]!), NOW);
    assert.equal(idTime(ids[4_096]!), NOW + 1);
    assert.equal(idTime(ids.at(-1)!), NOW + 2);
    clock.now = NOW + 1; // behind what was borrowed
    const later = next();
    assertIncreasing([ids.at(-1)!, later]);
    assert.equal(idTime(later), NOW + 2);
  });

  test("keep increasing when the clock goes back", () => {
    const { clock, next } = idsAt(NOW);
    const ids = many(next, 2);
    clock.now = NOW - 3_600_000;
    ids.push(...many(next, 2));
    clock.now = NOW + 1;
    ids.push(...many(next, 2));
    assertIncreasing(ids);
    assert.deepEqual(ids.map(idTime), [NOW, NOW, NOW, NOW, NOW + 1, NOW + 1]);
  });

  test("increase strictly under any movement of the clock", () => {
    const movement = fc.oneof(
      fc.integer({ min: -5, max: 5 }),
      fc.integer({ min: -(10 ** 9), max: 10 ** 9 }),
      fc.double({ min: -2, max: 2, noNaN: true }),
    );
    const burst = fc.oneof({ weight: 9, arbitrary: fc.nat(5) }, fc.constant(4_097));
    fc.assert(
      fc.property(
        fc.constantFrom(0, -1_000, NOW, 2 ** 47),
        fc.array(fc.tuple(movement, burst), { maxLength: 30 }),
        (start, movements) => {
          const { clock, next } = idsAt(start);
          const ids = [next()];
          for (const [ms, count] of movements) {
            clock.now += ms;
            ids.push(...many(next, count));
          }
          assertIncreasing(ids);
          assert.ok(ids.every(isId));
        },
      ),
    );
  });

  test("of generators that share a millisecond do not collide", () => {
    const ids = Array.from({ length: 1_000 }, () => many(idsAt(NOW).next, 5)).flat();
    assert.equal(new Set(ids).size, 5_000);
  });

  test("use every random digit and every variant", () => {
    const ids = many(idsAt(NOW).next, 2_000);
    const expected = new Map([[19, "89ab"]]);
    for (const at of [20, 21, 22, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35]) {
      expected.set(at, "0123456789abcdef");
    }
    for (const [at, digits] of expected) {
      assert.deepEqual(new Set(ids.map((id) => id[at])), new Set(digits));
    }
  });

  test("fetch randomness once for 256 of them, and not before the first", () => {
    const { clock, next } = idsAt(NOW);
    assert.equal(clock.fills, 0);
    many(next, 256);
    assert.equal(clock.fills, 1);
    next();
    assert.equal(clock.fills, 2);
  });

  test("are the same again from the same clock and the same randomness", () => {
    const seeded: Runtime = {
      ...systemRuntime,
      now: () => NOW,
      fillRandom: (bytes) => bytes.fill(5),
    };
    assert.deepEqual(many(makeIds(seeded), 300), many(makeIds(seeded), 300));
    assert.equal(makeIds(seeded)(), "01a3185c-5000-7000-9555-555555555555");
  });

  test("are refused while the clock is beyond the year 10889, and continue when it is back", () => {
    const { clock, next } = idsAt(NOW);
    const before = next();
    clock.now = MS_MAX + 1;
    assert.throws(next, InvalidArgumentError);
    clock.now = NOW + 1;
    const later = next();
    assertIncreasing([before, later]);
    assert.equal(idTime(later), NOW + 1);
  });
});

suite("an id", () => {
  test("is distinguished from everything else", () => {
    const id = "018f2c5e-9b3a-700c-91f2-4c7d9be03a58";
    assert.ok(isId(id));
    const others = [
      "",
      id.toUpperCase(),
      id.slice(1),
      ` ${id}`,
      `${id}\n`,
      id.replaceAll("-", ""),
      id.replace("-7", "-4"),
      id.replace("-91", "-c1"),
      id.replace("0", "g"),
    ];
    for (const other of others) assert.equal(isId(other), false, other);
  });

  test("that is invalid has no time", () => {
    assert.throws(() => idTime("42"), {
      code: "INVALID_ARGUMENT",
      message: `id: "42" is not an id (a UUIDv7 in lower case).`,
    });
  });

  test("is at or above the first of its millisecond, and below the first of the next", () => {
    fc.assert(
      fc.property(fc.nat(MS_MAX - 1), (ms) => {
        const id = idsAt(ms).next();
        assert.ok(isId(firstIdAt(ms)));
        assert.equal(idTime(firstIdAt(ms)), ms);
        assert.ok(firstIdAt(ms) <= id && id < firstIdAt(ms + 1));
      }),
    );
  });

  test("cannot be placed at an instant that is no whole millisecond of its range", () => {
    for (const ms of [-1, 0.5, MS_MAX + 1, Number.NaN, Number.POSITIVE_INFINITY]) {
      assert.throws(() => firstIdAt(ms), InvalidArgumentError);
    }
    assert.equal(firstIdAt(MS_MAX), "ffffffff-ffff-7000-8000-000000000000");
  });
});
