import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { shellWord } from "../../src/core/text.ts";
import { idRange, shortIds, typedPrefix } from "../../src/core/id.ts";

const ID = "01a1e35b-c449-7000-a6fd-eb1234567890";

suite("the range of a prefix", () => {
  test("begins and ends with the prefix, and holds every id between", () => {
    assert.deepEqual(idRange("01a1e35b-c4"), {
      from: "01a1e35b-c400-0000-0000-000000000000",
      to: "01a1e35b-c4ff-ffff-ffff-ffffffffffff",
    });
    assert.deepEqual(idRange(ID), { from: ID, to: ID });
  });

  test("is the same in either case, without dashes, and with the mark of a column that was cut", () => {
    for (const typed of ["01A1E35B-C4", "01a1e35bc4", "01a1e35b-c4…", " 01a1e35b-c4... "]) {
      assert.deepEqual(idRange(typed), idRange("01a1e35b-c4"), typed);
    }
    assert.equal(typedPrefix("solo-01a1…"), "solo-01a1");
  });

  test("is invalid if no id can begin with it", () => {
    for (const typed of ["", "-", "mail.send", "01a1g", `${ID}0`, "%", "01a1_"]) {
      assert.equal(idRange(typed), null, typed);
    }
  });
});

suite("short ids", () => {
  test("are the millisecond, and longer where others share it", () => {
    const alone = "01a1e35b-c448-7000-a6fd-eb1234567890";
    const first = "01a1e35b-c449-7000-a6fd-eb1234567890";
    const next = "01a1e35b-c449-7001-b6fd-eb1234567890";
    const twin = "01a1e35b-c449-7001-b6fd-ff1234567890";
    const short = shortIds([next, first, alone], [twin]);
    assert.deepEqual(
      [...short],
      [
        [next, next],
        [first, "01a1e35b-c449-7000"],
        [alone, "01a1e35b-c448"],
      ],
    );
  });

  test("of none there are none", () => assert.deepEqual(shortIds([], [ID]), new Map()));
});

test("a word for a shell is quoted only where it has to be", () => {
  assert.equal(shellWord("charge.card"), "charge.card");
  assert.equal(shellWord("charge card"), "'charge card'");
  assert.equal(shellWord("it's; rm"), String.raw`'it'\''s; rm'`);
});
