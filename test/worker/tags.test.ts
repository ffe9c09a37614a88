/** Tags through the client: every way to enqueue takes them, lists find them, and bad ones are refused by name. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { after, test } from "node:test";
import { openHoldfast } from "../../src/app/holdfast.ts";
import { defineTask } from "../../src/core/task.ts";
import { tempFolder } from "../support/folder.ts";

const folder = tempFolder();
const path = folder.file(".db");
const holdfast = await openHoldfast(`sqlite:${path}`);
after(async () => {
  await holdfast.close();
  folder[Symbol.dispose]();
});

const mail = defineTask({ name: "mail.send", run: (_input: { to: string }) => {} });

async function tagged(...tags: string[]): Promise<string[]> {
  return (await holdfast.jobs.list({ tag: tags })).map(({ id }) => id);
}

test("a job is enqueued with tags, each once and in order, and found by them", async () => {
  const options = { tags: ["b", "a", "b"] };
  const job = await holdfast.enqueue(mail, { to: "ada" }, options);
  assert.deepEqual((await job.get()).tags, ["a", "b"]);
  assert.deepEqual(await tagged("a"), [job.id]);
  assert.deepEqual(await tagged("a", "b"), [job.id]);
  assert.deepEqual(await tagged("a", "c"), []);
});

test("each of many jobs has its own", async () => {
  const inputs = [{ to: "ada" }, { to: "bob" }];
  const jobs = await holdfast.enqueueMany(mail, inputs, ({ to }) => ({ tags: [`to ${to}`] }));
  assert.deepEqual(await tagged("to bob"), [jobs[1]?.id]);
});

test("within a transaction they come with the commit, or not at all", async () => {
  const db = new DatabaseSync(path);
  db.exec("begin immediate");
  await holdfast.within(db).enqueue(mail, { to: "ada" }, { tags: ["never"] });
  db.exec("rollback");
  db.exec("begin immediate");
  const job = await holdfast.within(db).enqueue(mail, { to: "ada" }, { tags: ["inside"] });
  db.exec("commit");
  db.close();
  assert.deepEqual(await tagged("inside"), [job.id]);
  assert.deepEqual(await tagged("never"), []);
});

test("bad tags are refused, and the error names the one", async () => {
  const refusals: [tags: unknown, field: string][] = [
    ["a", "tags"],
    [["a", ""], "tags[1]"],
    [[7], "tags[0]"],
    [["x".repeat(65)], "tags[0]"],
    [[" a"], "tags[0]"],
    [Array.from({ length: 11 }, (_, n) => `t${n}`), "tags"],
  ];
  for (const [tags, field] of refusals) {
    const options = { tags: tags as string[] };
    const refused = { code: "INVALID_ARGUMENT", field };
    await assert.rejects(holdfast.enqueue(mail, { to: "ada" }, options), refused);
    if (typeof tags === "string") continue; // a list takes one, too
    const list = holdfast.jobs.list({ tag: tags as string[] });
    await assert.rejects(list, { ...refused, field: field.replace("tags", "tag") });
  }
});
