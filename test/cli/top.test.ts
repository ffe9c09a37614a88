import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { suite, test } from "node:test";
import { createColors } from "picocolors";
import { openHoldfast } from "../../src/index.ts";
import { afterKey } from "../../src/cli/top.ts";
import { frame, sparkline, START, type Stats, still, type View } from "../../src/cli/top-frame.ts";
import { widthOf } from "../../src/terminal/table.ts";
import { jobIn } from "../support/jobs.ts";
import { launcher } from "../support/package.ts";
import { TestCli } from "./command.ts";

const colors = createColors(false);

function figures(queues: number, workers: number, failures: number): Stats {
  const counts = {
    scheduled: 1,
    pending: 2,
    processing: 3,
    waiting: 4,
    retry: 5,
    done: 1e9,
    failed: 7,
    cancelled: 8,
    expired: 9,
  };
  return {
    database: `postgres://${"db".repeat(60)}/shop`,
    at: 1_800_000_000_000,
    queues: Array.from({ length: queues }, (_, index) => ({
      queue: `queue-${String(index).padStart(3, "0")}-${"x".repeat(80)}`,
      counts: { ...counts, pending: index },
      oldestPendingAt: 1_799_999_000_000,
    })),
    countedMsAgo: 90_000,
    rates: Array.from({ length: 120 }, (_, index) => index),
    workers: Array.from({ length: workers }, (_, index) => ({
      id: `worker-${index}`,
      hostname: "host\u001B[2J",
      status: "running",
      desiredState: "run",
      liveness: "alive",
      leases: 3,
      version: "a1b2c3d",
      silentMs: 900,
      memoryBytes: 9e7,
      startedAt: 1_799_000_000_000,
    })) as unknown as Stats["workers"],
    failures: Array.from({ length: failures }, (_, index) => ({
      id: `0190-${index}`,
      short: `0190-${index}`,
      task: "mail.send",
      finishedAt: 1_799_999_999_000,
      lastError: { message: `日本語 broken\nsecond line ${index}` },
    })) as unknown as Stats["failures"],
    alerts: [
      { severity: "critical", message: "Queue mail has no worker." },
      { severity: "warning", message: "A job has waited for 6m." },
    ],
  };
}

suite("a picture of holdfast top", () => {
  test("fits every screen, whatever there is to show", () => {
    for (const [columns, rows] of [
      [80, 24],
      [40, 10],
      [200, 60],
      [20, 5],
    ] as const) {
      for (const [queues, workers, failures] of [
        [0, 0, 0],
        [1, 1, 1],
        [100, 100, 20],
      ] as const) {
        for (const focus of ["queues", "workers", "failures"] as const) {
          const lines = frame(
            figures(queues, workers, failures),
            { ...START, focus },
            { columns, rows, colors },
          );
          assert.ok(lines.length <= rows, `${lines.length} lines on ${rows}`);
          // On a narrow screen a table has its least width, and the terminal cuts it.
          const widest = Math.max(...lines.map(widthOf));
          assert.ok(columns < 80 || widest <= columns, `${widest} wide`);
          // oxlint-disable-next-line no-control-regex -- that is what is looked for
          assert.doesNotMatch(lines.join(""), /[\u0000-\u001F]/);
        }
      }
    }
  });

  test("a version that was made up is not shown, as in holdfast workers", () => {
    const told = figures(1, 1, 0);
    const workers = told.workers.map((worker) => ({ ...worker, version: "build-1794870471431" }));
    const size = { columns: 120, rows: 24, colors };
    const text = frame({ ...told, workers }, START, size).join("\n");
    assert.doesNotMatch(text, /build-/);
    assert.match(text, /running +3 +– /);
  });

  test("at 80 × 24 it shows totals, rate, alerts, queues, workers and failures", () => {
    const text = frame(figures(3, 2, 2), START, { columns: 80, rows: 24, colors }).join("\n");
    for (const words of [
      /pending 3/,
      /119\/s ended {2}[▁-█]+/,
      /! Queue mail has no worker\.\n! A job has waited for 6m\./,
      /WORKER +HOST +STATUS +JOBS +VERSION/,
      /▸ Queues \(3, counted 1m ago\)/,
      /Workers \(2\)/,
      /Recent failures/,
      /日本語 broken/,
      /q quit/,
    ]) {
      assert.match(text, words);
    }
  });

  test("that is the only one has everything that there is, and nothing to press", () => {
    const once = { ...figures(40, 30, 20), rates: [] };
    const text = still(once, { columns: 80, rows: 24, colors }).join("\n");
    assert.equal(text.match(/^queue-/gm)?.length, 40);
    assert.equal(text.match(/^worker-/gm)?.length, 30);
    assert.doesNotMatch(text, /ended|quit|▸| of /);
  });

  test("keys move the focus, scroll and sort", () => {
    const keys = (...all: string[]) => all.reduce((view, key) => afterKey(view, key), START);
    assert.equal(keys("right").focus, "workers");
    assert.equal(keys("left").focus, "failures");
    assert.equal(keys("j", "down", "k").scroll.queues, 1);
    assert.equal(keys("up").scroll.queues, 0);
    assert.equal(keys("s", "s").order, "name");
    assert.deepEqual(keys("x", "\u001B"), START);
    const names = (view: View) =>
      frame(figures(3, 0, 0), view, { columns: 80, rows: 24, colors }).filter((line) =>
        line.startsWith("queue-"),
      );
    assert.match(names(START)[0]!, /^queue-002/);
    assert.match(names(keys("s", "s"))[0]!, /^queue-000/);
  });

  test("the line of rates has one block for the most and the lowest line for nothing", () => {
    assert.equal(sparkline([0, 5, 10]), "▁▅█");
    assert.equal(sparkline([0, 0]), "▁▁");
    assert.equal(sparkline([]), "");
  });
});

suite("holdfast top", () => {
  test("without a terminal it prints one picture, or one document", async () => {
    await using cli = new TestCli();
    await using holdfast = await openHoldfast(cli.url);
    await holdfast.enqueue("x", null, { queue: "mail" });
    const said = await cli.holdfast(["top"]);
    assert.deepEqual([said.code, said.stderr], [0, ""]);
    assert.match(said.stdout, /^mail +1 /m);
    // A rate takes two looks, and there are no keys.
    assert.doesNotMatch(said.stdout, /ended|quit|▸/);
    assert.ok(!said.stdout.includes("\u001B"));
    const { queues } = await cli.json(["top"]);
    assert.equal(queues[0].counts.pending, 1);
  });

  const noScript =
    spawnSync("script", ["--version"]).status !== 0 && "'script' of util-linux is not installed";

  /** Holds the terminal until it is told to stop, by a key or by a signal. */
  async function onTerminal(
    cli: TestCli,
    stop: (pid: number, key: (text: string) => void) => void,
  ) {
    const command = `echo $$; exec ${process.execPath} ${launcher} top`;
    const started = cli.spawn("script", ["-qec", command, "/dev/null"], { TERM: "xterm" });
    await started.says("q quit");
    const pid = Number(/\d+/.exec(started.said)?.[0]);
    stop(pid, (text) => started.child.stdin.write(text));
    return started.ended;
  }

  test("opens a failed job and retries it, after asking", { skip: noScript }, async () => {
    await using cli = new TestCli();
    await using holdfast = await openHoldfast(cli.url);
    const id = await jobIn(holdfast.store, "failed");
    const command = `exec ${process.execPath} ${launcher} top`;
    const started = cli.spawn("script", ["-qec", command, "/dev/null"], { TERM: "xterm" });
    const press = (key: string): boolean => started.child.stdin.write(key);
    await started.says("q quit");
    press("\u001B[D");
    await started.says("⏎ open");
    press("\r");
    await started.says("esc back");
    press("r");
    await started.says(`Retry job ${id}?`);
    press("n");
    press("r");
    press("y");
    await started.says(`Pending again: ${id}`);
    press("q");
    assert.equal((await started.ended).code, 0);
    assert.equal((await holdfast.jobs.get(id))?.status, "pending");
    const [line] = await holdfast.audit.list({ subject: `job ${id}` });
    assert.match(line?.actor ?? "", /^cli /);
  });

  for (const [how, code, stop] of [
    ["q", 0, (_: number, key: (text: string) => void) => key("q")],
    ["Ctrl-C", 0, (_: number, key: (text: string) => void) => key("\u0003")],
    ["SIGTERM", 143, (pid: number) => process.kill(pid, "SIGTERM")],
  ] as const) {
    test(`gives the terminal back after ${how}`, { skip: noScript }, async () => {
      await using cli = new TestCli();
      await using holdfast = await openHoldfast(cli.url);
      await holdfast.enqueue("x", null);
      const said = await onTerminal(cli, stop);
      assert.equal(said.code, code, said.stdout);
      const entered = said.stdout.indexOf("\u001B[?1049h");
      assert.ok(entered !== -1);
      assert.ok(said.stdout.lastIndexOf("\u001B[?1049l") > entered, "the screen is given back");
      assert.ok(
        said.stdout.lastIndexOf("\u001B[?25h") > said.stdout.lastIndexOf("\u001B[?25l"),
        "and the cursor",
      );
      assert.equal(said.stdout.split("\u001B[2J").length, 2, "cleared once, not at every picture");
    });
  }
});
