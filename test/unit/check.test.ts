import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { checkWords } from "../../src/core/options.ts";
import { withCode } from "../worker/observe.ts";

suite("free text", () => {
  test("is accepted unchanged, up to its length", () => {
    for (const words of ["", " two  blanks ", "line\nline", "👍🏽 日本"]) {
      assert.equal(checkWords("reason", words, 20), words);
    }
    assert.throws(() => checkWords("reason", "x".repeat(21), 20), withCode("INVALID_ARGUMENT"));
  });

  test("is refused where a database would give it back changed", () => {
    for (const words of ["half \uD83D", "zero \0"]) {
      assert.throws(() => checkWords("reason", words, 20), withCode("INVALID_ARGUMENT", "reason"));
    }
  });
});
