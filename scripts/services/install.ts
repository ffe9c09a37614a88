/** Installing what is missing: on Debian, as root, in one call of apt-get. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync } from "node:fs";

/** One call of apt-get gets no longer than this. */
const APT_LIMIT_S = 300;

/** So long another apt-get may hold the lock. */
const LOCK_WAIT_S = 60;

const REASON_LINES = 5;

export interface Machine {
  readonly debian: boolean;
  readonly root: boolean;
}

export function thisMachine(): Machine {
  return {
    debian: existsSync("/etc/debian_version") && existsSync("/usr/bin/apt-get"),
    root: process.getuid?.() === 0,
  };
}

/** Why nothing can be installed here, with what to do about it; null when it can. */
export function whyNoInstall(
  { debian, root }: Machine,
  packages: readonly string[],
): string | null {
  if (!debian) return "only on Debian it is installed for you";
  if (!root) return `only root may install it: sudo apt-get install ${packages.join(" ")}`;
  return null;
}

/**
 * What the shell runs. Debian starts a service as soon as it is installed, on the port everybody
 * knows, unless this policy forbids it. The shell, not we, takes the policy away again, and no signal
 * stops it: an interrupted run leaves no half installation behind.
 */
export function installScript(packages: readonly string[], update: "first" | "on failure"): string {
  const options = `-q -y -o DPkg::Lock::Timeout=${LOCK_WAIT_S} -o Acquire::Retries=2`;
  const apt = `timeout -k 10 ${APT_LIMIT_S} apt-get ${options}`;
  const only = `${apt} install --no-install-recommends ${packages.join(" ")}`;
  const refreshed = `{ ${apt} update && ${only}; }`;
  return `
    trap '' HUP INT TERM
    policy=/usr/sbin/policy-rc.d
    mark='written by the tests of holdfast while they install servers'
    if [ ! -e $policy ] || grep -q "$mark" $policy; then
      printf '#!/bin/sh\\n# %s\\nexit 101\\n' "$mark" > $policy
      chmod 755 $policy
    fi
    ${update === "first" ? refreshed : `${only} || ${refreshed}`}
    code=$?
    if grep -q "$mark" $policy; then rm -f $policy; fi
    exit $code`;
}

/** Installs the packages. Gives the reason when that failed, otherwise null. */
export async function install(packages: readonly string[]): Promise<string | null> {
  const update = globSync("/var/lib/apt/lists/*_Packages*").length === 0 ? "first" : "on failure";
  const child = spawn("/bin/sh", ["-c", installScript(packages, update)], {
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1", LC_ALL: "C" },
  });
  const chunks: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => chunks.push(chunk));
  }
  await once(child, "close");
  if (child.exitCode === 0) return null;
  const lines = chunks.join("").split("\n");
  const last = lines.filter((line) => line.trim() !== "").slice(-REASON_LINES);
  return `apt-get failed with ${child.exitCode ?? "a signal"}: ${last.join(" | ")}`;
}
