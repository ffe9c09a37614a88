import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { defineTask } from "../../src/core/task.ts";
import { InvalidArgumentError } from "../../src/core/errors.ts";
import { bareName, checkTaskName, versionsOf } from "../../src/core/name.ts";

const named = (name: string, version?: number): string =>
  defineTask({ name, ...(version === undefined ? {} : { version }), run: () => {} }).name;

function assertRefused(act: () => unknown, field: string): void {
  assert.throws(act, (error) => error instanceof InvalidArgumentError && error.field === field);
}

suite("a task's name", () => {
  test("has the task's version at its end, if it says one", () => {
    assert.equal(named("order.ship"), "order.ship");
    assert.equal(named("order.ship", 2), "order.ship@2");
    assert.equal(named("order.ship", 999_999), "order.ship@999999");
  });

  test("is refused with a version that is no whole number from 1", () => {
    for (const version of [0, -1, 1.5, 1_000_000, Number.NaN, "2" as unknown as number]) {
      assertRefused(() => named("order.ship", version), "version");
    }
  });

  test("is refused with an @ of its own, and with more characters than fit", () => {
    assertRefused(() => named("order@2"), "name");
    assertRefused(() => named("n".repeat(127), 2), "name");
    assert.equal(named("n".repeat(126), 2).length, 128);
  });

  test("by which a job is enqueued may say a version, and nothing else after an @", () => {
    for (const name of ["order.ship", "order.ship@2", "注文@10"]) {
      assert.equal(checkTaskName("task", name), name);
    }
    for (const name of ["@2", "a@", "a@0", "a@02", "a@x", "a@1@2", "a@1.5", "a@-1", "a@1000000"]) {
      assertRefused(() => checkTaskName("task", name), "task");
    }
  });

  test("is the same without its version for all of them", () => {
    assert.deepEqual(["a", "a@1", "a@22"].map(bareName), ["a", "a", "a"]);
  });

  test("without a version says between which names its versions stand", () => {
    const { after = "", before = "" } = versionsOf("a") ?? {};
    for (const name of ["a@1", "a@9", "a@999999"]) assert.ok(after < name && name < before, name);
    for (const name of ["a", "aA", "a.b", "ab", "A@1", "b"]) {
      assert.ok(!(after < name && name < before), name);
    }
    assert.equal(versionsOf("a@1"), null);
  });
});
