/** The package as its users get it: built, packed, installed, and the examples run against it. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { notItsTurn } from "../support/scale.ts";
import { ESBUILD, testApps } from "./apps.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** What each example prints. An example that is not here is a module for others, not a program. */
const EXPECTED: Readonly<Record<string, string>> = {
  "quickstart.ts": "order 42 ships as T-42 on attempt 1\n",
  "flow.ts":
    'merged: {"month":"2026-11","cents":8000}\n' +
    "all have ended: report.fetch done, report.fetch failed\n1 done, 1 failed of 2\n",
  "schedule.ts":
    "a report for ada, of schedule often\n" +
    "At 02:30 on Monday to Friday (Europe/Berlin)\n" +
    "2027-03-28T01:00:00.000Z 2027-03-29T00:30:00.000Z\n",
  "limits.ts":
    "paused by ada: not yet\n" +
    "at most 2 at once, one of each lane\n" +
    "beta did not wait for all of acme: true\n",
  "operators.ts":
    "invoice.send: cy is no address\ninvoice.send: bob is no address\n" +
    "charged 3 times, sent to ada@example.org, bob@example.org, cy@example.org\n" +
    "keeps charge, address; repeats mail\ncharged 3 times, sent 4 mails\nreindexed hold\n" +
    "would delete 3\ndeleted 3\n",
  "own-worker.ts": "cat.png: done\ndog.png: dead letter\n",
  "order-bot.ts":
    "order.ship: Error: the bank hung up\n" +
    "told the customer: order 42 is on its way as T-42, paid 2299\n" +
    "charges: 1, shipments: 1\n",
  "agent.ts":
    "plan | read\nplan | think\nplan | answer\nread | read: why is the sky blue?\n" +
    Array.from({ length: 8 }, (_, at) => `think | thought ${at + 1}\n`).join("") +
    "answer | answer: why is the sky blue?\nresult: answer: why is the sky blue?\n" +
    "plan: asked 1x\nread: asked 1x\nthink: asked 2x\nanswer: asked 1x\n" +
    "cancelled, and its child is gone\n",
  "isolated.ts":
    "sent to ada\nsent to bob\nsent to eve\nphoto.png: 9 bytes\n" +
    "The process that ran this job ended with exit code 1: its code called process.exit().\n" +
    "The process that ran this job ran out of memory; isolation.memory allows a heap of 64 MB.\n" +
    "Job it ran longer than its timeout of 5000 ms.\n",
  "tour.ts":
    "scans: 29\n" +
    "InvalidMoveError: Item night is 'partially completed': workflow 'tour' has no move 'begin' from there. There are: none.\n" +
    "night tour is partially completed\n" +
    "forgotten tour is auto-closed\n" +
    "night tour 1: dispatcher: new → assigned\n" +
    "night tour 2: guard 7: assigned → in progress\n" +
    "night tour 3: holdfast: in progress → partially completed (all below it have ended)\n" +
    "forgotten tour 1: dispatcher: new → assigned\n" +
    "forgotten tour 2: holdfast: assigned → auto-closed (its time in the state is over)\n",
};
/** An application with something of every entry. */
const TYPED = `
import { defineTask, openHoldfast, StoreUnavailableError, type Job } from "holdfast";
import { LockLostError, type Lock } from "holdfast/locks";
import { Alerts, Doctor, startMonitor, type Lease } from "holdfast/ops";
import { openTestHoldfast } from "holdfast/testing";
import { defineWorkflow, type ItemRecord } from "holdfast/workflows";

export const task = defineTask({ name: "a", run: (input: { n: number }) => input.n });
export const order = defineWorkflow({ name: "order", initial: "open", states: { open: { final: true } }, moves: {} });
await using holdfast = await openHoldfast("sqlite:a.db");
export const job: Job<number> = await holdfast.enqueue(task, { n: 1 });
export const doctor = new Doctor(holdfast);
export const alerts = new Alerts({ holdfast });
export const monitor = startMonitor(holdfast);
export const bench = await openTestHoldfast();
export const errors = [LockLostError, StoreUnavailableError];
export type Held = [Lock, Lease, ItemRecord];
// @ts-expect-error The store is internal.
holdfast.store;
// @ts-expect-error The store is internal.
import { openStore } from "holdfast";
`;
/** Of an input with a wrong field. */
const WRONG = `
import { defineTask, openHoldfast } from "holdfast";
const mail = defineTask({ name: "mail", run: (input: { to: string }) => input.to });
await using holdfast = await openHoldfast("sqlite:a.db");
await holdfast.enqueue(mail, { to: 7 });
`;
/** The application installs them. */
const PEERS = ["pg", "mysql2", "ioredis", "@opentelemetry/api"];
const RUN_MS_MAX = 60_000;
const INSTALL_MS_MAX = 180_000;

/** Without the variables of the tests, which the command would refuse. */
const ENV = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith("HOLDFAST_")),
);

function run(command: string, args: readonly string[], cwd: string, timeout = RUN_MS_MAX): string {
  return execFileSync(command, args, {
    cwd,
    timeout,
    encoding: "utf8",
    env: ENV,
    stdio: ["ignore", "pipe", "inherit"],
  });
}

/** The packages that these files of a folder contain or import, and the files that they import, unless they do so on demand. */
function packagesOf(folder: string, files: readonly string[]): Set<string> {
  const packages = new Set<string>();
  const seen = new Set(files);
  for (const file of seen) {
    const text = readFileSync(join(folder, file), "utf8");
    for (const [, name = ""] of text.matchAll(/^\/\/#region node_modules\/((?:@[^/]+\/)?[^/]+)/gm))
      packages.add(name);
    for (const [, from = ""] of text.matchAll(/^(?:import|export)\b[^;]*?"([^"]+)";/gm)) {
      if (from.startsWith("./")) seen.add(from.slice(2));
      else if (!from.startsWith("node:")) packages.add(from);
    }
  }
  return packages;
}

describe("the published package", () => {
  let app: string;
  let tarball: string;
  /** What stood in its node_modules before its tests put more there. */
  let modules: readonly string[];

  before(() => {
    app = mkdtempSync(join(tmpdir(), "holdfast-app-"));
    run("npm", ["run", "build", "--silent"], ROOT);
    const [packed] = JSON.parse(
      run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", app], ROOT),
    ) as { filename: string }[];
    writeFileSync(join(app, "package.json"), JSON.stringify({ private: true, type: "module" }));
    tarball = join(app, packed?.filename ?? "");
    run("npm", ["install", "--no-audit", "--no-fund", tarball, ESBUILD], app, INSTALL_MS_MAX);
    modules = readdirSync(join(app, "node_modules"), { recursive: true, encoding: "utf8" });
  });

  after(() => rmSync(app, { recursive: true, force: true }));

  testApps(() => ({ folder: app, tarball }));

  test("contains what it declares (publint)", () => {
    const publint = join(ROOT, "node_modules/publint/src/cli.js");
    run(process.execPath, [publint, "run", tarball, "--strict"], ROOT);
  });

  test("has the files of deploy/ that the guide names, and no source maps", () => {
    const installed = join(app, "node_modules/holdfast");
    const guide = join(installed, "docs/guide");
    const texts = readdirSync(guide).map((page) => readFileSync(join(guide, page), "utf8"));
    const named = texts.flatMap((text) => [...text.matchAll(/`(deploy\/[\w./@-]+\.\w+)`/g)]);
    assert.ok(named.length > 0);
    for (const [, file = ""] of named) assert.ok(existsSync(join(installed, file)), file);
    const dist = readdirSync(join(installed, "dist"), { recursive: true, encoding: "utf8" });
    assert.deepEqual(
      dist.filter((file) => file.endsWith(".map")),
      [],
    );
    assert.ok(!existsSync(join(installed, "deploy/secrets")));
  });

  test("brings one other package, which holds types alone", () => {
    assert.deepEqual(
      modules.filter((file) => file.endsWith(".node") || file.endsWith("binding.gyp")),
      [],
    );
    const packages = modules.filter((file) => /^(@[^/]+\/)?[^/@.]+$/.test(file));
    // The application has esbuild as well, which depends on its own program alone.
    const brought = packages.filter((name) => !/^@?esbuild/.test(name));
    assert.deepEqual(brought.toSorted(), ["@standard-schema/spec", "holdfast"]);
  });

  test("has the licenses of the packages that its files contain", () => {
    const dist = join(app, "node_modules/holdfast/dist");
    const files = readdirSync(dist).filter((file) => file.endsWith(".js"));
    const contained = [...packagesOf(dist, files)].filter((name) => !PEERS.includes(name));
    assert.ok(contained.includes("zod") && contained.includes("commander"));
    const licenses = readFileSync(join(dist, "LICENSES.md"), "utf8");
    for (const name of [...contained, "preact"])
      assert.match(licenses, new RegExp(`^# ${name} \\d`, "m"));
  });

  for (const example of readdirSync(join(ROOT, "examples"))) {
    const source = readFileSync(join(ROOT, "examples", example), "utf8");
    const says = EXPECTED[example];
    if (says === undefined) continue;
    const skip = notItsTurn("the examples", ["the examples", "the image"]);
    test(`examples/${example} runs on it and prints the expected output`, { skip }, () => {
      writeFileSync(join(app, example), source);
      assert.equal(run(process.execPath, [example], app), says);
    });
  }

  test("the Dockerfile of the guide installs it without a cache of npm", () => {
    const guide = readFileSync(join(ROOT, "docs/guide/starting.md"), "utf8");
    const project = join(app, "project");
    mkdirSync(join(project, "vendor"), { recursive: true });
    writeFileSync(join(project, "package.json"), JSON.stringify({ private: true }));
    const file = /npm install (\.\/vendor\/\S+)/.exec(guide)?.[1] ?? "";
    copyFileSync(tarball, join(project, file));
    run("npm", ["install", "--no-audit", "--no-fund", file], project, INSTALL_MS_MAX);
    const dockerfile = /```dockerfile\n([^]*?)```/.exec(guide)?.[1] ?? "";
    const [beforeInstall = "", afterInstall] = dockerfile.split("RUN npm ci --omit=dev\n");
    assert.ok(afterInstall !== undefined && dockerfile.includes("HEALTHCHECK"));
    const image = join(app, "image");
    for (const [, what = "", to = ""] of beforeInstall.matchAll(/^COPY (.+) (\S+)$/gm)) {
      const paths = what.split(" ");
      for (const path of paths) {
        const target = to.endsWith("/") ? join(image, to, path) : join(image, to);
        cpSync(join(project, path), target, { recursive: true });
      }
    }
    const cold = ["--cache", join(app, "empty-cache")];
    run("npm", ["ci", "--omit=dev", "--no-audit", "--no-fund", ...cold], image, INSTALL_MS_MAX);
    const launcher = join(image, "node_modules/holdfast/bin/holdfast.js");
    assert.match(run(process.execPath, [launcher, "--version"], image), /^\d/);
  });

  test("the command runs on it", () => {
    const help = run(process.execPath, ["node_modules/holdfast/bin/holdfast.js", "--help"], app);
    assert.match(help, /Usage: holdfast/);
  });

  test("a worker on SQLite loads neither the server's packages nor a driver", () => {
    const dist = join(app, "node_modules/holdfast/dist");
    const work = readdirSync(dist).find((file) => /^service-.*\.js$/.test(file));
    assert.ok(work !== undefined);
    const packages = packagesOf(dist, ["cli-main.js", work]);
    assert.ok(packages.has("commander") && packages.has("pino"));
    for (const heavy of ["zod", ...PEERS])
      assert.ok(!packages.has(heavy), `${heavy} is loaded before it is needed`);
  });

  test("a server does not load fetch, which would take 8 MB", () => {
    const said = join(app, "loaded.json");
    const tasks = `
      import { writeFileSync } from "node:fs";
      import { defineTask } from "holdfast";
      export const noop = defineTask({ name: "noop", run() {} });
      const look = setInterval(() => {
        if (!process.moduleLoadList.includes("NativeModule _http_server")) return;
        clearInterval(look);
        setTimeout(() => {
          writeFileSync(${JSON.stringify(said)}, JSON.stringify(process.moduleLoadList));
          process.kill(process.pid, "SIGTERM");
        }, 500);
      }, 50);`;
    writeFileSync(join(app, "looking.mjs"), tasks);
    const args = ["start", "--port", "0", "--tasks", "looking.mjs"];
    run(process.execPath, ["node_modules/holdfast/bin/holdfast.js", ...args], app);
    const loaded = JSON.parse(readFileSync(said, "utf8")) as string[];
    assert.deepEqual(
      loaded.filter((name) => name.includes("undici")),
      [],
    );
  });

  test("a worker without a server does not load http", () => {
    const said = join(app, "loaded-by-work.json");
    const tasks = `
      import { writeFileSync } from "node:fs";
      import { defineTask } from "holdfast";
      export const look = defineTask({
        name: "look",
        run(_input: unknown) {
          writeFileSync(${JSON.stringify(said)}, JSON.stringify(process.moduleLoadList));
          process.kill(process.pid, "SIGTERM");
        },
      });`;
    writeFileSync(join(app, "lean.ts"), tasks);
    const holdfast = (...args: string[]) =>
      run(
        process.execPath,
        ["node_modules/holdfast/bin/holdfast.js", ...args, "--url", "sqlite:lean.db"],
        app,
      );
    holdfast("enqueue", "look", "{}");
    holdfast("work", "--tasks", "lean.ts");
    const loaded = JSON.parse(readFileSync(said, "utf8")) as string[];
    assert.ok(loaded.includes("NativeModule sqlite"));
    assert.deepEqual(
      loaded.filter((name) => name.includes("http")),
      [],
    );
  });

  /** As its users compile it. Returns what the compiler says. */
  const compiled = (name: string, text: string): string => {
    writeFileSync(join(app, name), text);
    const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
    const types = ["--typeRoots", join(ROOT, "node_modules/@types"), "--types", "node"];
    const options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", ...types];
    const target = ["--target", "es2024", "--lib", "es2024,esnext.disposable"];
    const args = [compiler, ...options, ...target, name];
    return spawnSync(process.execPath, args, { cwd: app, env: ENV, encoding: "utf8" }).stdout;
  };

  test("its entries have types, and the database layer is in none of them", () => {
    assert.equal(compiled("typed.ts", TYPED), "");
  });

  test("a wrong input is one line of the compiler, at the field", () => {
    const said = compiled("wrong.ts", WRONG);
    assert.equal(
      said,
      "wrong.ts(5,32): error TS2322: Type 'number' is not assignable to type 'string'.\n",
    );
  });

  test("CommonJS applications can require it", () => {
    const script = `const { openHoldfast } = require("holdfast"); console.log(typeof openHoldfast)`;
    writeFileSync(join(app, "app.cjs"), script);
    assert.equal(run(process.execPath, ["app.cjs"], app), "function\n");
  });
});

test("the example in the README is examples/quickstart.ts to the letter", () => {
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  const block = /```ts\n([\s\S]*?)```/.exec(readme)?.[1];
  assert.equal(block, readFileSync(join(ROOT, "examples/quickstart.ts"), "utf8"));
});

test("every link of the README and the documentation leads somewhere, also in the package", () => {
  const { files } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    files: string[];
  };
  const docs = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" });
  const pages = ["README.md", ...docs.map((page) => join("docs", page))];
  for (const page of pages.filter((each) => each.endsWith(".md"))) {
    const text = readFileSync(join(ROOT, page), "utf8");
    for (const [, link = ""] of text.matchAll(/\]\(([^)#:\s]+)(?:#[^)]*)?\)/g)) {
      const path = join(dirname(page), link);
      assert.ok(existsSync(join(ROOT, path)), `${page} links to ${path}`);
      assert.ok(
        files.some((file) => path === file || path.startsWith(`${file}/`)),
        `${page} links to ${path}, which is not published`,
      );
    }
  }
});
