import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { redactedFacts, redactedText } from "../../src/config/secrets.ts";
import { entryLine } from "../../src/terminal/log-line.ts";
import { StoreGoneError } from "../../src/core/errors.ts";

const SECRET = "hunter2";

suite("a log line", () => {
  test("contains no secret, wherever it occurs", () => {
    const request = Object.assign(new Error(`GET https://u:${SECRET}@a.test/ failed`), {
      config: { headers: { Authorization: `Bearer ${SECRET}xyz`, cookie: SECRET } },
      code: "ECONNREFUSED",
    });
    const facts = {
      password: SECRET,
      dbPassword: SECRET,
      API_KEY: SECRET,
      "set-cookie": [SECRET],
      nested: [{ deep: new Map([["accessToken", SECRET]]) }],
      url: new URL(`postgres://app:${SECRET}@db/x`),
      text: `redis://:${SECRET}@r and https://a.test/?token=${SECRET}&page=2`,
      err: new Error("outer", { cause: request }),
    };
    const line = entryLine("info", facts, `connected to mysql://u:${SECRET}@db`);
    assert.ok(!line.includes(SECRET), line);
    const told = JSON.parse(line);
    assert.equal(told.err.cause.code, "ECONNREFUSED");
    assert.equal(told.msg, "connected to mysql://u:***@db");
    assert.match(told.text, /page=2/);
  });

  test("the fence of a lock is called a token, and is shown", () => {
    assert.deepEqual(redactedFacts({ token: 17, sessionToken: "x" }), {
      token: 17,
      sessionToken: "***",
    });
  });

  test("omits only a value that cannot be written", () => {
    const circle: { self?: unknown } = {};
    circle.self = circle;
    const facts = {
      circle,
      big: 10n,
      bytes: Buffer.alloc(5),
      call() {},
      get thrown(): never {
        throw new Error("no");
      },
      ["__proto__"]: { polluted: true },
      when: new Date(Number.NaN),
      many: Array.from({ length: 10_000 }, (_, index) => index),
      long: "x".repeat(100_000),
    };
    const told = JSON.parse(JSON.stringify(redactedFacts(facts)));
    assert.deepEqual(
      [told.big, told.bytes, told.thrown, told.when],
      ["10", "[5 bytes]", "[…]", "no date"],
    );
    assert.ok(told.many.length < 100 && told.long.length < 10_000);
    assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  });

  test("control characters are escaped, even those that JSON leaves alone", () => {
    const line = entryLine("info", { a: "\u009B31m\u202E" }, "x\u001B[2J\u2028\u007F");
    // oxlint-disable-next-line no-control-regex -- that is what is looked for
    assert.doesNotMatch(line, /[\u0000-\u001F\u007F-\u009F\u2028\u202E]/);
    assert.equal(JSON.parse(line).msg, "x\u001B[2J\u2028\u007F");
  });

  test("an error is called by its name, whatever its own fields are called", () => {
    const refused = Object.assign(new StoreGoneError({ path: "a", what: "b", rescuePath: "c" }), {
      type: "solo",
    });
    const told = redactedFacts({ err: refused }) as { err: { type: string; code: string } };
    assert.deepEqual([told.err.type, told.err.code], ["StoreGoneError", "STORE_GONE"]);
    const odd = Object.assign(new TypeError("no"), { type: "x", message: "no", stack: 1 });
    assert.equal((redactedFacts({ err: odd }) as typeof told).err.type, "TypeError");
  });

  test("of a long text a part is searched and shown", () => {
    assert.ok(redactedText(`a:${"//x:".repeat(200_000)}`).length < 10_000);
  });
});
