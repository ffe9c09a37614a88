import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { inspect } from "node:util";
import {
  array,
  assert as check,
  constantFrom,
  dictionary,
  integer,
  letrec,
  oneof,
  property,
  string,
} from "fast-check";
import { redactedFacts } from "../../src/config/secrets.ts";
import { HIDDEN, Redaction, redactingLogger, useRedaction } from "../../src/config/redaction.ts";

suite("redaction rules", () => {
  test("a name hides fields wherever they are, in any case; a path hides one place", () => {
    const rules = new Redaction(["password", "card.number", "customers.*.email", "list.1"]);
    const data = {
      password: "a",
      deep: [{ Password: "b", pass: "c" }],
      card: { number: 1, month: 2 },
      number: 3,
      customers: [{ email: "d", name: "e" }, { email: ["f"] }],
      list: [1, 2, 3],
    };
    const before = structuredClone(data);
    assert.deepEqual(rules.data(data), {
      password: HIDDEN,
      deep: [{ Password: HIDDEN, pass: "c" }],
      card: { number: HIDDEN, month: 2 },
      number: 3,
      customers: [{ email: HIDDEN, name: "e" }, { email: HIDDEN }],
      list: [1, HIDDEN, 3],
    });
    assert.deepEqual(data, before);
  });

  test("only data of users is redacted in an answer, and a task's schema is not", () => {
    const rules = new Redaction(["token", "key"]);
    const answer = {
      key: "k-1",
      token: 7,
      job: { input: { token: "t" }, key: "k" },
      schema: { properties: { input: { token: 1 } } },
    };
    assert.deepEqual(rules.answer(answer), {
      ...answer,
      job: { input: { token: HIDDEN }, key: "k" },
    });
    assert.equal(new Redaction().answer(answer), answer);
  });

  test("a hidden value that comes back stands for the value that it hid", () => {
    const rules = new Redaction(["card"]);
    const original = { card: { number: 4419 }, n: [1, { card: "x" }] };
    const shown = rules.data(original) as { n: number[] };
    assert.deepEqual(rules.restored(shown, original), original);
    assert.throws(() => rules.restored({ other: HIDDEN }, original), /input\.other.*hidden/);
    assert.throws(() => rules.restored({ toString: HIDDEN }, original), /hidden/);
  });

  test("a value under a hidden name never shows, whatever the data", () => {
    const rules = new Redaction(["secret"]);
    const json = letrec((tie) => ({
      value: oneof(
        { depthSize: "small" },
        string(),
        integer(),
        array(tie("value")),
        dictionary(constantFrom("a", "secret", "SECRET", "__proto__", "constructor"), tie("value")),
      ),
    })).value;
    check(
      property(json, (value) => {
        const text = JSON.stringify(rules.data({ value, secret: "needle-4711" }));
        assert.ok(!text.includes("needle-4711"));
        for (const [, hidden] of text.matchAll(/"secret":("[^"]*"|.)/gi)) {
          assert.equal(hidden, JSON.stringify(HIDDEN));
        }
      }),
      { numRuns: 200 },
    );
  });

  test("hashes of whole data are hidden, because a short value could be guessed from them", () => {
    const line = { item: "i", seq: 1, dataHash: "d", previousHash: "p", hash: "h" };
    const hidden = { ...line, dataHash: HIDDEN, previousHash: HIDDEN, hash: HIDDEN };
    assert.deepEqual(new Redaction(["pin"]).answer({ history: [line] }), { history: [hidden] });
    assert.deepEqual(new Redaction().answer({ history: [line] }), { history: [line] });
    // The audit of operators hashes no data of users.
    const { dataHash: _dataHash, ...audit } = line;
    assert.deepEqual(new Redaction(["pin"]).answer(audit), audit);
  });

  test("a logger of an application gets errors without what the rules hide in their fields", () => {
    const told: { err: Record<string, any> }[] = [];
    const keep = (facts: object): void => void told.push(facts as (typeof told)[number]);
    const logger = { debug: keep, info: keep, warn: keep, error: keep };
    const cause = Object.assign(new Error("inner"), { password: "p-2" });
    const request = { headers: { Password: "p-3" }, path: "/" };
    const more = new AggregateError([Object.assign(new Error("one"), { password: "p-4" })], "more");
    const fields = { password: "p-1", request, more, code: "E" };
    const error = Object.assign(new TypeError("outer", { cause }), fields);
    redactingLogger(logger, new Redaction(["password"])).error({ err: error, job: "j" }, "failed");
    const err: Record<string, any> = told[0]?.err ?? {};
    assert.equal(err instanceof TypeError, true);
    assert.deepEqual([err["message"], err["stack"]], [error.message, error.stack]);
    assert.deepEqual([err["password"], err["code"]], [HIDDEN, "E"]);
    assert.deepEqual(err["request"], { headers: { Password: HIDDEN }, path: "/" });
    assert.equal(err["cause"].password, HIDDEN);
    assert.equal(err["more"].errors[0].password, HIDDEN);
    assert.doesNotMatch(inspect(told, { depth: 9, showHidden: true }), /p-\d/);
    assert.equal(error.password, "p-1", "the error itself is not changed");
    // Without rules, it is the error itself.
    redactingLogger(logger, new Redaction()).error({ err: error }, "failed");
    assert.equal(told[1]?.err, error);
  });

  test("rules that are none are refused", () => {
    for (const rule of ["", " ", "*", "a..b", ".a", "a.", "x".repeat(300)]) {
      assert.throws(() => new Redaction([rule]), { code: "INVALID_ARGUMENT" }, rule);
    }
    assert.throws(() => new Redaction(Array.from({ length: 201 }, (_, at) => `f${at}`)), /200/);
  });

  test("fields of log lines are hidden by name", () => {
    useRedaction(["iban"]);
    try {
      assert.deepEqual(redactedFacts({ iban: "DE00", nested: { IBAN: 1, other: 2 } }), {
        iban: HIDDEN,
        nested: { IBAN: HIDDEN, other: 2 },
      });
    } finally {
      useRedaction([]);
    }
  });
});
