/** The torture kit as users run it, on every database; here the servers are ours, so they are restarted too. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { torturePreset } from "../../verify/plan.ts";
import { verify, type Report } from "../../verify/verify.ts";
import { launcher } from "../support/package.ts";
import { isLong, runSeed, sized } from "../support/scale.ts";
import type { GuardedServer } from "../support/servers.ts";

const MS = sized(18_000, 75_000);
const LIMIT_MS = MS * 4 + 300_000;

/** What has to have happened, or the run proved nothing. */
const LEAST = isLong
  ? { jobs: 10_000, kill: 40, freeze: 15, cut: 30, restart: 2 }
  : { jobs: 600, kill: 5, freeze: 2, cut: 4, restart: 1 };
/** In a sample, fewer than the kit asks of a machine by itself; and all of it has to happen, however long it takes. */
const preset = isLong
  ? torturePreset({ ms: MS })
  : { ...torturePreset({ ms: MS, jobsPerSecond: 52 }), isOnTime: false };

export function torture(
  name: string,
  server: { readonly skip: string | false; readonly start: () => Promise<GuardedServer> } | null,
): void {
  test(
    `${name}: whatever is killed, frozen, cut or restarted, no promise is broken`,
    { skip: server?.skip ?? false, timeout: LIMIT_MS },
    async (t) => {
      await using machine = server === null ? null : await server.start();
      const report = await (machine === null
        ? onFile()
        : verify({
            seed: runSeed,
            preset,
            url: machine.url,
            restart: () => restart(machine),
          }));
      t.diagnostic(sentence(report));
      assert.deepEqual(report.violations.slice(0, 10), []);
      // In a few seconds, none may have come too late.
      if (isLong) assert.ok(report.refused > 0, "no stale write was refused");
      const { starts, fullAfterMs } = report.governed;
      assert.ok(starts > 0 && fullAfterMs !== null, "no limit was reached");
      assert.ok(report.flows > 0 && report.ticks > 0, "no flow, or no tick of the schedule");
      const { kill = 0, freeze = 0, cut = 0, restart: restarts = 0 } = report.faults;
      const reached = [report.accepted.ok + report.accepted.unknown, kill, freeze];
      const least = [LEAST.jobs, LEAST.kill, LEAST.freeze];
      if (server !== null) {
        reached.push(cut, restarts);
        least.push(LEAST.cut, LEAST.restart);
      }
      assert.ok(
        reached.every((times, index) => times >= (least[index] ?? 0)),
        `not enough happened: ${reached.join(", ")} of ${least.join(", ")}`,
      );
    },
  );
}

/** A sample asks for fewer jobs than the command does. */
function onFile(): Promise<Report> {
  return isLong ? byCommand(runSeed) : verify({ seed: runSeed, preset });
}

/** As users run it. */
async function byCommand(seed: number): Promise<Report> {
  const args = ["verify", "--json", "--minutes", String(MS / 60_000), "--seed", String(seed)];
  // One whose promises were broken ends with 1, and has a report all the same.
  const { stdout } = await promisify(execFile)(process.execPath, [launcher, ...args], {
    maxBuffer: 2 ** 26,
  }).catch((error: unknown) => error as { stdout: string });
  return JSON.parse(stdout) as Report;
}

async function restart(machine: GuardedServer): Promise<void> {
  await machine.kill();
  await machine.restart();
}

function sentence({ database, seed, ms, jobs, attempts, refused, ...report }: Report): string {
  const faults = Object.entries(report.faults).map(([kind, times]) => `${times} ${kind}`);
  return (
    `${database}: ${jobs} jobs in ${attempts} attempts; ${faults.join(", ")}; ${refused} stale writes refused; ` +
    `free after kill -9 in ${report.recovery.afterKill.p99} ms (p99), claimed after a restart in ${report.recovery.afterRestart.p99} ms; ` +
    `${report.governed.starts} under limits, full ${report.governed.fullAfterMs} ms after kill -9 of all workers; ` +
    `${report.flows} flows, ${report.ticks} ticks; ` +
    `all done ${report.drainedMs} ms after the last fault; ${report.witnessed} changes witnessed; ` +
    `${Math.round(ms / 1_000)} s, seed ${seed}`
  );
}
