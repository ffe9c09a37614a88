import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { suite, test } from "node:test";
import { notItsTurn } from "../support/scale.ts";
import { assertRefused, Desk, until } from "./command.ts";

/** In a folder of its own, so that what a demo leaves behind is seen. */
function inDesk(desk: Desk): { env: Record<string, string> } {
  return { env: { TMPDIR: desk.folder } };
}

/** Each starts several processes and takes seconds: with every seed, one of them runs. */
const turn = (one: string): { skip: string | false } => ({
  skip: notItsTurn(one, ["to the end", "interrupted", "killed"]),
});

suite("holdfast demo", () => {
  test("workers are killed and frozen, and the proof holds", turn("to the end"), async () => {
    await using desk = new Desk();
    const proof = await desk.json(["demo", "--orders", "60", "--seed", "11"], inDesk(desk));
    assert.deepEqual([proof.proved, proof.problems, proof.seed], [true, [], 11]);
    assert.deepEqual([proof.accepted, proof.done, proof.paid, proof.booked], [60, 60, 60, 60]);
    assert.deepEqual([proof.lost, proof.doubled], [0, 0]);
    assert.equal(proof.cents, (100 * 60 * 59) / 2);
    // The faults did happen, and had their effect.
    assert.ok(proof.kills >= 1 && proof.freezes >= 1, JSON.stringify(proof));
    assert.ok(proof.leasesRecovered > 0 && proof.attemptsRepeated > 0, JSON.stringify(proof));
    assert.deepEqual(readdirSync(desk.folder), []);
  });

  test(
    "Ctrl-C in the middle ends every worker and removes the folder",
    turn("interrupted"),
    async () => {
      await using desk = new Desk();
      const demo = desk.start(["demo"], inDesk(desk));
      await demo.says(/[1-9]\d* of 1,000 orders done/);
      const [, url] = /Watch it live: (http:\S+)/.exec(demo.said) ?? [];
      const answer = await fetch(`${url}api/v1/workers`);
      const { workers } = (await answer.json()) as { workers: { type: string }[] };
      assert.ok(workers.length > 0, "the dashboard shows the workers of the demo");
      demo.child.kill("SIGINT");
      const { code, stderr } = await demo.ended;
      assert.deepEqual([code, stderr], [130, "Interrupted by SIGINT.\n"]);
      assert.deepEqual(readdirSync(desk.folder), []);
      assert.deepEqual(workersIn(desk.folder), []);
    },
  );

  test("a demo that is killed takes its workers with it", turn("killed"), async () => {
    await using desk = new Desk();
    const demo = desk.start(["demo"], inDesk(desk));
    await until("the workers are there", () => workersIn(desk.folder).length === 4);
    demo.child.kill("SIGKILL");
    await until("the workers are gone", () => workersIn(desk.folder).length === 0);
  });

  test("invalid numbers are refused", async () => {
    await using desk = new Desk();
    assertRefused(await desk.holdfast(["demo", "--orders", "3"]), 2, /--orders.*20 to 100000/);
    assertRefused(await desk.holdfast(["demo", "--workers", "1"]), 2, /--workers.*2 to 16/);
  });
});

/** The processes that work on a database in this folder, by what the system knows of them. */
function workersIn(folder: string): string[] {
  const { stdout } = spawnSync("ps", ["-e", "-o", "pid=,stat=,args="], { encoding: "utf8" });
  const alive = stdout.split("\n").filter((line) => !/^ *\d+ +Z/.test(line));
  return alive.filter((line) => line.includes("worker-process") && line.includes(folder));
}
