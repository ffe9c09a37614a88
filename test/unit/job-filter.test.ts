/** The one parser of filters: the box, an address and flags; and the kinds of errors, which no release changes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { kindIdOf } from "../../src/core/error-kind.ts";
import { textOf, wordsOf } from "../../src/core/job-query.ts";
import { readFilter } from "../../src/jobs/filter.ts";

const NOW = 1_800_000_000_000;

test("the box, the address and the flags of a command give the same filter", () => {
  const box = readFilter(
    wordsOf('status:failed,expired task:mail.send error:"no route" endedSince:1h tag:a tag:b'),
    NOW,
  );
  const address = new URLSearchParams(
    "status=failed&status=expired&task=mail.send&error=no+route&endedSince=1h&tag=a&tag=b",
  );
  assert.deepEqual(box, readFilter(address, NOW));
  assert.equal(box.endedSince, NOW - 3_600_000);
  assert.deepEqual(readFilter(wordsOf(textOf(box)), NOW), box);
});

test("words without a field are part of the error; mistakes are refused", () => {
  const free = readFilter(wordsOf('Timeout of "gate way"'), NOW);
  assert.deepEqual(free, { error: "Timeout of gate way" });
  const wrong = [
    "since:1h",
    "status:dead",
    "task:a task:b",
    "endedSince:1h endedUntil:2h",
    "endedSince:x",
    "id:0199 id:0200",
  ];
  for (const text of wrong) {
    assert.throws(() => readFilter(wordsOf(text), NOW), { code: "INVALID_ARGUMENT" }, text);
  }
});

test("the fingerprint of an error is the same in every release", () => {
  const of = (message: string, code?: string): string | null =>
    kindIdOf("mail.send@2", JSON.stringify({ name: "SendError", message, code }));
  assert.equal(of("no answer from 'dhl' within 10 s"), of("no answer from 'ups' within 7 s"));
  assert.notEqual(of("no answer"), of("no answer", "E_DHL"));
  assert.equal(of("no answer", "E_DHL"), "7e2a942eb16db301ef5c9d16a46d217d");
  assert.equal(kindIdOf("mail.send", null), null);
});
