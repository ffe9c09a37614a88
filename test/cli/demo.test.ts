import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { suite, test } from "node:test";
import { notItsTurn } from "../support/scale.ts";
import { assertRefused, TestCli, until } from "./command.ts";

/** In a folder of its own, so that what a demo leaves behind is seen. */
function inOwnFolder(cli: TestCli): { env: Record<string, string> } {
  return { env: { TMPDIR: cli.folder } };
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
    await using cli = new TestCli();
    const proof = await cli.json(["demo", "--orders", "60", "--seed", "11"], inOwnFolder(cli));
    assert.deepEqual([proof.proved, proof.problems, proof.seed], [true, [], 11]);
    assert.deepEqual([proof.accepted, proof.done, proof.paid, proof.booked], [60, 60, 60, 60]);
    assert.deepEqual([proof.lost, proof.doubled], [0, 0]);
    assert.equal(proof.cents, (100 * 60 * 59) / 2);
    // The faults did happen, and had their effect.
    assert.ok(proof.kills >= 1 && proof.freezes >= 1, JSON.stringify(proof));
    assert.ok(proof.leasesRecovered > 0 && proof.attemptsRepeated > 0, JSON.stringify(proof));
    assert.deepEqual(readdirSync(cli.folder), []);
  });

  test(
    "Ctrl-C in the middle ends every worker and removes the folder",
    turn("interrupted"),
    async () => {
      await using cli = new TestCli();
      // In production too, its own dashboard asks for no token.
      const env = { ...inOwnFolder(cli).env, NODE_ENV: "production" };
      const demo = cli.start(["demo"], { env });
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
      assert.deepEqual(readdirSync(cli.folder), []);
      assert.deepEqual(workersIn(cli.folder), []);
    },
  );

  test("a demo that is killed takes its workers with it", turn("killed"), async () => {
    await using cli = new TestCli();
    const demo = cli.start(["demo"], inOwnFolder(cli));
    await until("the workers are there", () => workersIn(cli.folder).length === 4);
    demo.child.kill("SIGKILL");
    await until("the workers are gone", () => workersIn(cli.folder).length === 0);
  });

  test("invalid numbers are refused", async () => {
    await using cli = new TestCli();
    assertRefused(await cli.holdfast(["demo", "--orders", "3"]), 2, /--orders.*20 to 100000/);
    assertRefused(await cli.holdfast(["demo", "--workers", "1"]), 2, /--workers.*2 to 16/);
  });
});

/** The processes that work on a database in this folder, by what the system knows of them. */
function workersIn(folder: string): string[] {
  const { stdout } = spawnSync("ps", ["-e", "-o", "pid=,stat=,args="], { encoding: "utf8" });
  const alive = stdout.split("\n").filter((line) => !/^ *\d+ +Z/.test(line));
  return alive.filter((line) => line.includes("worker-process") && line.includes(folder));
}
