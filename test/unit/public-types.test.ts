/** Users can name every type that they meet, and an editor tells them what it is for. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type PublicName, publicTypes } from "../support/public-types.ts";

/** What applications fill in. */
const FILLED_IN = /^\w*(?:Options|Filter|Config|Changes|Terms|Request|Context|Events)\./;

/** Called by the database's driver, or by the parts of a worker. */
const NOT_FOR_APPLICATIONS = /^(?:Pg\w+|Runtime|TestClock|Timer|Histogram|Sender|Meter)\./;

const withoutComment = (names: readonly PublicName[]): string[] =>
  names.filter(({ comment }) => comment === "").map(({ name }) => name);

suite("the types of the package", () => {
  const types = publicTypes();

  test("every type that a public type mentions is exported by an entry", () => {
    assert.ok(types.names.length > 300);
    assert.deepEqual(types.unexported, []);
  });

  test("every exported name has a comment, in the declarations that users get", () => {
    assert.deepEqual(withoutComment(types.names), []);
  });

  test("every function and every option has a comment", () => {
    const shown = types.members.filter(({ name }) => !NOT_FOR_APPLICATIONS.test(name));
    const told = shown.filter(({ name, isMethod }) => isMethod || FILLED_IN.test(name));
    assert.ok(told.length > 400, `${told.length}`);
    assert.deepEqual(withoutComment(told), []);
  });
});
