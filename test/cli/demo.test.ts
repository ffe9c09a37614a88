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

/** A part of what the dashboard of the demo shows. */
interface Shown {
  readonly workers: readonly unknown[];
  readonly points: readonly { readonly done: number }[];
  readonly marks: readonly { readonly kind: string }[];
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
      // In production too, its own dashboard asks for no token.
      const env = { ...inDesk(desk).env, NODE_ENV: "production" };
      const demo = desk.start(["demo"], { env });
      await demo.says(/[1-9]\d* of 1,000 orders done/);
      const [, url] = /Watch it live: (http:\S+)/.exec(demo.said) ?? [];
      const read = async (path: string): Promise<Shown> => {
        const answer = await fetch(new URL(path, url));
        return (await answer.json()) as Shown;
      };
      assert.ok((await read("api/v1/workers")).workers.length > 0);
      await until("its charts show orders and a kill", async () => {
        const { points, marks } = await read("api/v1/series?range=15m");
        return points.some(({ done }) => done > 0) && marks.some(({ kind }) => kind === "crash");
      });
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
