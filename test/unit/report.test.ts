import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  readReport,
  REPORT_DATA,
  REPORT_TEXT_MAX,
  sayDropped,
  sayLog,
  sayProgress,
  sayReport,
  type Report,
  type Said,
} from "../../src/core/report.ts";
import { withCode } from "../worker/observe.ts";

const rest = { seq: 3, at: 1_700_000_000_000, epoch: 2 };

function heard(said: Said): Partial<Report> {
  const { seq, at, epoch, ...report } = readReport({ ...rest, ...said });
  assert.deepEqual({ seq, at, epoch }, rest);
  return report;
}

suite("a report", () => {
  test("of progress is a share, with the counts it was computed from", () => {
    const none = { done: null, total: null, text: null };
    assert.deepEqual(heard(sayProgress(0.25)), { kind: "progress", share: 0.25, ...none });
    assert.deepEqual(heard(sayProgress({ done: 1, total: 4 }, "reading")), {
      kind: "progress",
      share: 0.25,
      done: 1,
      total: 4,
      text: "reading",
    });
  });

  test("of progress is never more than all of it", () => {
    const shares = [0.1 * 3 + 0.7 + 1e-9, { done: 7, total: 5 }, { done: 0, total: 0 }];
    for (const value of shares) {
      const report = heard(sayProgress(value));
      assert.equal("share" in report ? report.share : null, 1);
    }
  });

  test("of a log line has its level, text and data; a text that is too long is cut", () => {
    assert.deepEqual(heard(sayLog("héllo\u0000\n", { a: [1] })), {
      kind: "log",
      level: "info",
      text: "héllo\u0000\n",
      data: { a: [1] },
    });
    assert.deepEqual(heard(sayLog("", undefined, "warn")), {
      kind: "log",
      level: "warn",
      text: "",
      data: undefined,
    });
    // As another release may write it.
    const other = { kind: "log", name: null, data: '{"text":"a","level":"loud"}' } as const;
    assert.equal((heard(other) as { level: string }).level, "info");
    const long = heard(sayLog("x".repeat(REPORT_TEXT_MAX + 1)));
    assert.ok("text" in long && long.text !== null && long.text !== undefined);
    assert.deepEqual([long.text.length, long.text.at(-1)], [REPORT_TEXT_MAX, "…"]);
  });

  test("of a task's own has its name and data", () => {
    const none = { kind: "report", name: "token", data: undefined };
    assert.deepEqual(heard(sayReport("token")), none);
    assert.deepEqual(heard(sayReport("token", null)), { ...none, data: null });
    assert.deepEqual(heard(sayReport("token", [1])), { ...none, data: [1] });
    assert.deepEqual(heard(sayDropped(7)), { kind: "dropped", count: 7 });
  });

  test("that was written manually is read as far as possible", () => {
    const byHand = { name: null, data: "no JSON" };
    assert.deepEqual(heard({ ...byHand, kind: "log" }), {
      kind: "log",
      level: "info",
      text: "",
      data: undefined,
    });
    assert.deepEqual(heard({ kind: "report", name: "n", data: "no JSON" }), {
      kind: "report",
      name: "n",
      data: "no JSON",
    });
    assert.equal(heard({ ...byHand, kind: "progress", data: null }).kind, "progress");
  });

  const large = "x".repeat(REPORT_DATA.bytesMax);
  const refused: [field: string, what: string, say: () => unknown][] = [
    ["value", "a percentage", () => sayProgress(25)],
    ["value", "less than nothing", () => sayProgress(-0.1)],
    ["value", "no number", () => sayProgress(Number.NaN)],
    ["value", "a text", () => sayProgress("half" as never)],
    ["value", "null", () => sayProgress(null as never)],
    ["value.done", "less than nothing done", () => sayProgress({ done: -1, total: 4 })],
    ["value.total", "no total", () => sayProgress({ done: 1 } as never)],
    ["text", "a number for a text", () => sayProgress(0.5, 7 as never)],
    ["text", "an error for a text", () => sayLog(new Error("x") as never)],
    ["data", "a date", () => sayLog("x", { at: new Date() })],
    ["data", "too much", () => sayLog("x", large)],
    ["data", "too much", () => sayReport("x", large)],
    ["data", "a function", () => sayReport("x", () => {})],
    ["name", "no name", () => sayReport("", 1)],
    ["name", "an object for a name", () => sayReport({} as never, 1)],
  ];
  for (const [field, what, say] of refused) {
    test(`of ${what} is refused by the name '${field}'`, () => {
      assert.throws(say, withCode("INVALID_ARGUMENT", field));
    });
  }

  test("of a percentage is refused with what to write instead", () => {
    assert.throws(() => sayProgress(25), /\{ done: 25, total: 100 \}/);
  });
});
