/** PM2 and systemd: that their files say what the program can do. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { tempFolder } from "../support/folder.ts";
import {
  AFTER_SHUTDOWN_MS,
  commands,
  DEFAULT_PORT,
  DEFAULT_SHUTDOWN_MS,
  ROOT,
  SETTINGS,
  spanMs,
} from "./settings.ts";

const HAS_ANALYZE = spawnSync("systemd-analyze", ["--version"]).status === 0;
const folder = tempFolder();

describe("deploy/pm2.config.cjs", () => {
  interface App {
    readonly script: string;
    readonly args: string;
    readonly cwd: string;
    readonly exec_mode: string;
    readonly instances: number;
    readonly increment_var: string;
    readonly env: Readonly<Record<string, string | number>>;
    readonly kill_timeout: number;
    readonly stop_exit_codes: readonly number[];
  }
  const { apps } = createRequire(import.meta.url)("../../deploy/pm2.config.cjs") as { apps: App[] };
  const [app] = apps;

  test("starts a file and a command that there are, each process on a port of its own", () => {
    assert.ok(app !== undefined && apps.length === 1);
    assert.ok(existsSync(join(app.cwd, app.script)));
    assert.ok(commands().has(app.args));
    assert.equal(app.exec_mode, "fork");
    assert.equal(app.env[app.increment_var], DEFAULT_PORT);
    for (const name of Object.keys(app.env)) assert.ok(SETTINGS.has(name), name);
  });

  test("kills no process before the shutdown limit is over, and does not restart a process that was stopped", () => {
    const limitMs = Number(app?.env["SHUTDOWN_TIMEOUT_MS"]);
    assert.equal(limitMs, DEFAULT_SHUTDOWN_MS);
    assert.ok((app?.kill_timeout ?? 0) >= limitMs + AFTER_SHUTDOWN_MS);
    assert.ok(app?.stop_exit_codes.includes(0) && !app.stop_exit_codes.includes(1));
  });
});

for (const name of ["holdfast.service", "holdfast@.service"]) {
  describe(`deploy/${name}`, () => {
    const file = join(ROOT, "deploy", name);
    const unit = readUnit(readFileSync(file, "utf8"));

    test("starts an existing command, with existing settings, as a user other than root", () => {
      const [start = ""] = unit.get("ExecStart") ?? [];
      assert.match(start, /^\/usr\/bin\/node .*\/bin\/holdfast\.js \w+$/);
      assert.ok(commands().has(start.split(" ").at(-1) ?? ""));
      const names = (unit.get("Environment") ?? []).flatMap((line) =>
        line.split(" ").map((pair) => pair.split("=")[0] ?? ""),
      );
      for (const setting of names) assert.ok(SETTINGS.has(setting), setting);
      assert.deepEqual(unit.get("User"), ["holdfast"]);
    });

    test("signals only the first process, and kills none before the shutdown limit is over", () => {
      assert.deepEqual(unit.get("KillSignal"), ["SIGTERM"]);
      assert.deepEqual(unit.get("KillMode"), ["mixed"]);
      const limitMs = Number(
        /SHUTDOWN_TIMEOUT_MS=(\d+)/.exec(String(unit.get("Environment")))?.[1],
      );
      const [patience = ""] = unit.get("TimeoutStopSec") ?? [];
      assert.ok(spanMs(patience) >= limitMs + AFTER_SHUTDOWN_MS, patience);
    });

    test("restarts after a crash, and not after it was stopped", () => {
      assert.deepEqual(unit.get("Restart"), ["on-failure"]);
      assert.deepEqual(unit.get("RestartPreventExitStatus"), ["2 5"]);
    });

    test("lets Node compile, and shuts the rest", () => {
      assert.ok(!unit.has("MemoryDenyWriteExecute"));
      for (const key of ["NoNewPrivileges", "ProtectHome", "PrivateTmp", "RestrictNamespaces"]) {
        assert.deepEqual(unit.get(key), ["yes"], key);
      }
      assert.deepEqual(unit.get("ProtectSystem"), ["strict"]);
      assert.deepEqual(unit.get("ProtectProc"), ["invisible"]);
      assert.deepEqual(unit.get("SystemCallFilter"), [
        "@system-service",
        "~@privileged @resources",
      ]);
      // A worker reads the boot's id there: whose process is gone is known at once.
      assert.ok(!unit.has("ProcSubset"));
    });

    test("systemd understands it", { skip: HAS_ANALYZE ? false : "no systemd-analyze" }, () => {
      assert.equal(verify(name, readFileSync(file, "utf8")), "");
    });
  });
}

test("systemd-analyze would have found a mistake", { skip: !HAS_ANALYZE }, () => {
  const text = readFileSync(join(ROOT, "deploy/holdfast.service"), "utf8");
  const said = verify("holdfast.service", text.replace("KillMode=mixed", "KillMode=mxied"));
  assert.match(said, /kill mode/i);
});

test("the two units differ in what makes an instance, and in nothing else", () => {
  const [one, many] = ["holdfast.service", "holdfast@.service"].map((name) =>
    readFileSync(join(ROOT, "deploy", name), "utf8").split("\n"),
  );
  const added = many?.filter((line) => !line.startsWith("#") && !one?.includes(line));
  assert.deepEqual(added, [
    "Description=Holdfast %i: jobs, and the HTTP API",
    "Slice=holdfast.slice",
    "Environment=HOLDFAST_WORKER_NAME=%i",
    "EnvironmentFile=/etc/holdfast/%i.env",
  ]);
});

/** Every value of every key, in the order of the file. */
function readUnit(text: string): Map<string, string[]> {
  const unit = new Map<string, string[]>();
  for (const [, key = "", value = ""] of text.matchAll(/^(\w+)=(.*)$/gm)) {
    unit.set(key, [...(unit.get(key) ?? []), value]);
  }
  return unit;
}

/** What systemd has to say against it. The program is named by a path that every machine has. */
function verify(name: string, text: string): string {
  const place = folder.file(`-${name}`);
  const here = text.replaceAll("/usr/bin/node ", `${process.execPath} `);
  writeFileSync(place, here);
  const { stdout, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", place], {
    encoding: "utf8",
  });
  return `${stdout}${stderr}`
    .split("\n")
    .filter((line) => line.includes(basename(place)))
    .join("\n");
}
