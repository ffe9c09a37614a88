/** What processes tell each other, as texts. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { noteOf, readNote, Notifier } from "../../src/database/notify.ts";
import type { Hint } from "../../src/database/engine.ts";
import { testClock } from "../../src/testing/index.ts";

const HINTS: readonly Hint[] = [
  { kind: "pending", queue: "mail:eu" },
  { kind: "waiting" },
  { kind: "waiting", inMs: 250 },
  { kind: "finished" },
  { kind: "cancel" },
  { kind: "workers" },
];

suite("a note", () => {
  for (const hint of HINTS) {
    test(`is written as '${noteOf(hint)}' and read back unchanged`, () => {
      assert.deepEqual(readNote(`me:${noteOf(hint)}`).hint, hint);
    });
  }

  test("of another version is understood as far as possible", () => {
    assert.deepEqual(readNote("me:waiting:tomorrow").hint, { kind: "waiting" });
    assert.deepEqual(readNote("me:dawn:5").hint, { kind: "unknown" });
  });

  test("about a time is never too early", () => {
    assert.equal(noteOf({ kind: "waiting", inMs: 10.2 }), "waiting:11");
  });
});

suite("a process with many notifications", () => {
  const told = async (hints: readonly Hint[]): Promise<string[][]> => {
    const clock = testClock();
    const sent: string[][] = [];
    const send = async (notes: readonly string[]): Promise<void> => void sent.push([...notes]);
    const teller = new Notifier({ runtime: clock, sender: "me", send });
    for (const hint of hints) teller.tell(hint);
    await clock.advance(1_000);
    await teller.stop();
    return sent;
  };

  test("sends the first hint at once, and the rest together", async () => {
    const pending: Hint = { kind: "pending", queue: "default" };
    const sent = await told([pending, pending, { kind: "cancel" }, pending]);
    assert.deepEqual(sent, [["me:pending:default"], ["me:pending:default", "me:cancel"]]);
  });

  test("sends the earliest of several times", async () => {
    const times = [900, 40, 700].map((inMs): Hint => ({ kind: "waiting", inMs }));
    const sent = await told([{ kind: "waiting", inMs: 5_000 }, ...times]);
    // Five milliseconds later, as it is not said more often.
    assert.deepEqual(sent, [["me:waiting:5000"], ["me:waiting:35"]]);
  });

  test("a delayed notification about a time contains what is left of it", async () => {
    const clock = testClock();
    const sent: string[][] = [];
    const send = (notes: readonly string[]): Promise<void> => {
      sent.push([...notes]);
      return new Promise((resolve) => void clock.timer(12_000, resolve));
    };
    const teller = new Notifier({ runtime: clock, sender: "me", send });
    teller.tell({ kind: "cancel" });
    teller.tell({ kind: "waiting", inMs: 15_000 });
    await clock.advance(12_001);
    teller.tell({ kind: "waiting", inMs: 10_000 });
    await clock.advance(12_001);
    const stopped = teller.stop();
    await clock.advance(60_000);
    await stopped;
    assert.deepEqual(sent, [["me:cancel"], ["me:waiting:3000"], ["me:waiting"]]);
  });

  test("a hint to look again counts as the earliest time", async () => {
    const sent = await told([
      { kind: "waiting", inMs: 9 },
      { kind: "waiting" },
      { kind: "waiting", inMs: 1 },
    ]);
    assert.deepEqual(sent, [["me:waiting:9"], ["me:waiting"]]);
  });
});
