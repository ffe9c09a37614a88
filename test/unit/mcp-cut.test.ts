/** Answers for agents: whole if they are short, else cut so that each cut can be undone. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { ANSWER_CHARS_MAX, cut, pick } from "../../src/mcp/cut.ts";

const lengthOf = (value: unknown): number => JSON.stringify(value).length;

test("a short answer is what it is", () => {
  const answer = { jobs: [{ id: "a" }], next: null };
  assert.equal(cut(answer), answer);
});

test("long texts and lists end early; the answer says where, and how to get the rest", () => {
  const attempts = Array.from({ length: 400 }, (_, index) => ({
    number: index,
    error: { message: "no", stack: "at ".repeat(2_000) },
  }));
  const shown = cut({ job: { id: "a" }, attempts }) as any;
  assert.ok(lengthOf(shown) <= ANSWER_CHARS_MAX);
  assert.deepEqual(shown.job, { id: "a" });
  assert.ok(shown.attempts.length >= 10);
  assert.equal(shown.attempts[3].number, 3);
  assert.match(shown.attempts[0].error.stack, /^at at .*…$/);
  const [list, stack] = shown.cut.fields;
  assert.deepEqual([list.field, list.of], ["attempts", 400]);
  assert.deepEqual([stack.field, stack.of], ["attempts.0.error.stack", 6_000]);
  assert.equal(stack.others, shown.attempts.length - 1);
  assert.match(shown.cut.how, /fields/);
});

test("the rest of a text is read piece by piece, at the addresses that the answers give", () => {
  const text = Array.from({ length: 20_000 }, (_, index) => `${index}`).join(",");
  const answer = { job: { input: { html: text } } };
  let read = "";
  let field = "job.input.html";
  for (let calls = 0; calls < 50 && field !== ""; calls += 1) {
    const found = pick(answer, [field]);
    assert.ok("picked" in found);
    const shown = cut(found.picked) as any;
    const piece: string = shown[field];
    const note = shown.cut?.fields[0];
    read += note === undefined ? piece : piece.slice(0, note.shown);
    field = note?.rest ?? "";
  }
  assert.equal(read, text);
});

test("fields are picked by name, of all entries of a list, and by number", () => {
  const answer = {
    jobs: [
      { id: "a", error: { code: "E" } },
      { id: "b", error: null },
    ],
    next: null,
  };
  const picked = (...fields: string[]): unknown => {
    const found = pick(answer, fields);
    return "picked" in found ? found.picked : found.missing;
  };
  assert.deepEqual(picked("jobs.id", "next"), { "jobs.id": ["a", "b"], next: null });
  assert.deepEqual(picked("jobs.1.id"), { "jobs.1.id": "b" });
  assert.deepEqual(picked("jobs.id.1"), { "jobs.id.1": "b" });
  assert.deepEqual(picked("jobs@1"), { "jobs@1": [answer.jobs[1]] });
  assert.deepEqual(picked("jobs.error.code"), { "jobs.error.code": ["E", null] });
  assert.equal(picked("next", "job.id"), "job.id");
  assert.equal(picked("constructor"), "constructor");
  assert.equal(picked("jobs.7"), "jobs.7");
});

test("whatever the answer is, what is left of it is short, and says that it was cut", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 8 })), (answer) => {
      const most = 300;
      const shown = cut(answer, most);
      if (lengthOf(answer) <= most) return assert.equal(shown, answer);
      assert.ok("cut" in shown);
      assert.ok(lengthOf(shown) <= Math.max(most, 2_000));
    }),
  );
});

test("an answer of many levels is cut as well", () => {
  const nested = (depth: number): unknown =>
    depth === 0 ? "x".repeat(500) : Array.from({ length: 12 }, () => nested(depth - 1));
  const shown = cut({ deep: nested(4), also: 1 });
  assert.ok(lengthOf(shown) <= ANSWER_CHARS_MAX);
  assert.match(JSON.stringify(shown), /deep, also|"deep"/);
});
