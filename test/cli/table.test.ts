import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { cut, moment, printable, relative, table, widthOf } from "../../src/terminal/table.ts";

const columns = [
  { title: "ID" },
  { title: "TASK", flexible: true },
  { title: "N", align: "right" },
] as const;

suite("table", () => {
  test("columns are aligned with their titles", () => {
    const rows = [
      ["a", "mail.send", "7"],
      ["bcd", "x", "1,000"],
    ];
    assert.deepEqual(table({ columns, rows, width: 80 }), [
      "ID   TASK           N",
      "a    mail.send      7",
      "bcd  x          1,000",
    ]);
  });

  test("text that is too wide is truncated with …", () => {
    const rows = [["0123456789", "a.task.with.a.long.name", "7"]];
    for (const width of [24, 30, 36]) {
      const lines = table({ columns, rows, width });
      assert.ok(lines.every((line) => widthOf(line) <= width));
      assert.match(lines[1] ?? "", /^0123456789 +a\.task.*… +7$/);
    }
    assert.match(table({ columns, rows, width: null })[1] ?? "", /long\.name/);
  });

  test("colours do not count as width", () => {
    const paint = (text: string): string => `\u001B[31m${text}\u001B[39m`;
    const rows = [
      ["1", { text: "red", paint }, "7"],
      ["2", "plain", "8"],
    ];
    const [, red, plain] = table({ columns, rows, width: 80 });
    assert.equal(stripVTControlCharacters(red ?? ""), "1   red    7");
    assert.equal(plain, "2   plain  8");
  });

  test("wide characters count for two, and none is cut in half", () => {
    assert.deepEqual(["ab", "é", "日本", "👍🏽", ""].map(widthOf), [2, 1, 4, 2, 0]);
    assert.equal(cut("日本語", 4), "日…");
    assert.equal(cut("ok👍🏽👍🏽", 5), "ok👍🏽…");
  });

  test("control characters are shown and not sent to the terminal", () => {
    assert.equal(printable("a\u001B[2Jb\nc"), "a\\u001b[2Jb\\u000ac");
    assert.equal(printable("a\nb\r", { lines: true }), "a\nb\\u000d");
    assert.equal(
      printable("\u009B31m q\u202Egnp \u2066\u200B\u2028"),
      "\\u009b31m q\\u202egnp \\u2066\\u200b\\u2028",
    );
    assert.equal(printable("👩‍💻 två 注文"), "👩‍💻 två 注文");
  });
});

suite("words", () => {
  test("times are shown as a distance from now", () => {
    const now = 1_800_000_000_000;
    const told = [-400, 999, 1_000, 185_000, 90_000_000, -300_000].map((ms) =>
      relative(now - ms, now),
    );
    assert.deepEqual(told, ["now", "now", "1s ago", "3m ago", "1d ago", "in 5m"]);
    assert.match(moment(now - 5_000, now), /^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d, 5s ago$/);
  });
});
