import assert from "node:assert/strict";
import { suite, test } from "node:test";
import * as fc from "fast-check";
import { InvalidArgumentError } from "../../src/core/errors.ts";
import { checkKey, checkName, KEY_LENGTH_MAX, NAME_LENGTH_MAX } from "../../src/core/name.ts";
import { defineTask } from "../../src/core/task.ts";
import { checkOptions } from "../../src/jobs/enqueue.ts";

suite("a name", () => {
  test("may be anything people type, and comes back unchanged", () => {
    for (const name of [
      "a",
      "mail.send",
      "Mail",
      "två ord",
      "注文",
      "🦀",
      "👩‍💻",
      "a'b\"c\\d%_;--",
    ]) {
      assert.equal(checkName("queue", name), name);
    }
  });

  test("keeps its case: names compare as bytes", () => {
    assert.notEqual(checkName("queue", "Mail"), checkName("queue", "mail"));
  });

  const refused: Record<string, readonly [name: unknown, message: RegExp]> = {
    "that is empty": ["", /must not be empty/],
    "that is no string": [42, /must be a string, not number/],
    "that is null": [null, /must be a string, not null/],
    "that begins with a space": [" a", /begin or end with white space/],
    "that ends with a space": ["a ", /begin or end with white space/],
    "that ends with a no-break space": ["a\u00A0", /begin or end with white space/],
    "that ends with a line break": ["a\n", /begin or end with white space/],
    "with a NUL": ["a\0b", /control character/],
    "with a tab": ["a\tb", /control character/],
    "with an escape": ["a\u001B[31mb", /control character/],
    "with a delete": ["a\u007Fb", /control character/],
    "with a control character beyond ASCII": ["a\u0085b", /control character/],
    "with a line separator": ["a\u2028b", /control character/],
    "with a character that changes the text direction": [
      "q\u202Egnp",
      /zero-width character or one that changes the text direction/,
    ],
    "with a character that isolates a text direction": [
      "q\u2066x",
      /zero-width character or one that changes the text direction/,
    ],
    "with a zero-width space": [
      "a\u200Bb",
      /zero-width character or one that changes the text direction/,
    ],
    "with half of a character": ["a\uD800", /lone surrogate/],
    "in another normal form than C": ["e\u0301", /normal form C/],
  };
  for (const [which, [name, message]] of Object.entries(refused)) {
    test(`${which} is refused by the field's name`, () => {
      for (const check of [checkName, checkKey]) {
        assert.throws(
          () => check("task.name", name as string),
          (error) =>
            error instanceof InvalidArgumentError &&
            error.field === "task.name" &&
            message.test(error.message),
        );
      }
    });
  }

  test("has at most 128 characters, a key 256", () => {
    assert.equal(NAME_LENGTH_MAX, 128);
    assert.equal(KEY_LENGTH_MAX, 256);
    assert.equal(checkName("queue", "n".repeat(128)).length, 128);
    assert.equal(checkKey("key", "k".repeat(256)).length, 256);
    assert.throws(() => checkName("queue", "n".repeat(129)), {
      message: "queue: has 129 characters; at most 128 are allowed.",
    });
    assert.throws(() => checkKey("key", "k".repeat(257)), InvalidArgumentError);
  });

  test("of a reserved queue is refused to tasks and to callers", () => {
    const reserved = {
      name: "InvalidArgumentError",
      message: /^queue: 'holdfast\.\w+' is reserved/,
    };
    const run = () => null;
    assert.throws(() => defineTask({ name: "t", queue: "holdfast.alerts", run }), reserved);
    const defaults = { queue: "default", maxAttempts: 1 };
    assert.throws(() => checkOptions({ queue: "holdfast.mine" }, defaults), reserved);
    assert.equal(checkOptions({ queue: "holdfast" }, defaults).queue, "holdfast");
  });

  test("of any length is refused without being repeated in the error", () => {
    assert.throws(
      () => checkKey("key", `${"x".repeat(200)}\0`),
      (error) => error instanceof InvalidArgumentError && error.message.length < 120,
    );
  });

  test("of any text is accepted unchanged or refused with InvalidArgumentError", () => {
    // Every unit of UTF-16, so half characters too.
    const unit = fc.nat(0xffff).map((code) => String.fromCodePoint(code));
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 300 }), (text) => {
        try {
          assert.equal(checkKey("key", text), text);
          assert.equal(Buffer.from(text, "utf8").toString("utf8"), text);
          assert.equal(text.normalize("NFC").trim(), text);
        } catch (error) {
          assert.ok(error instanceof InvalidArgumentError);
        }
      }),
    );
  });
});
