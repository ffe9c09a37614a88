/** Users can name every type that they meet, and an editor tells them what it and each of its members is for. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type PublicName, publicTypes } from "../../scripts/public-types.ts";
import { libraryPageProblems, operationPageProblems } from "../../scripts/reference.ts";

const withoutComment = (names: readonly PublicName[]): string[] =>
  names.filter(({ comment }) => comment === "").map(({ name }) => name);

suite("the types of the package", () => {
  const types = publicTypes();

  test("every type that a public type mentions is exported by an entry", () => {
    assert.ok(types.names.length > 300);
    assert.deepEqual(types.unexported, []);
  });

  test("no public type gets its members through a mapped type, whose comments editors do not show", () => {
    assert.deepEqual(types.mapped, []);
  });

  test("every exported name has a comment, in the declarations that users get", () => {
    assert.deepEqual(withoutComment(types.names), []);
  });

  test("every member of a public type, and of the object types inside of it, has a comment", () => {
    assert.ok(types.members.length > 1_500, `${types.members.length}`);
    assert.deepEqual(withoutComment(types.members), []);
  });

  test("the reference says what the comments, the routes and the commands say", async () => {
    assert.deepEqual([...libraryPageProblems(types), ...(await operationPageProblems())], []);
  });
});
