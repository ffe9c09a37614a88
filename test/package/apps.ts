/** Applications as their authors write them, built and run with the packed package. Their sources are in apps/. */
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { isLong, reasonOf } from "../support/scale.ts";
import { missing, scratchDatabase } from "../support/servers.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const APPS = join(import.meta.dirname, "apps");
const BUILD_MS_MAX = 300_000;
const ANSWER_MS_MAX = 60_000;
const LOOK_MS = 100;

/** The application that is published, with everything that Next.js needs: 350 MB. */
const NEXT = [
  "next@16.4.6",
  "react@19.3.1",
  "react-dom@19.3.1",
  "typescript@5.9.3",
  "@types/react@19.3.0",
  "@types/node@24.19.2",
];

/** Other runtimes, as single programs inside of npm packages: 200 MB. */
const RUNTIMES = [
  {
    name: "Bun",
    pack: "@oven/bun-linux-x64-baseline@1.4.4",
    command: ["node_modules/@oven/bun-linux-x64-baseline/bin/bun", "run"],
  },
  {
    name: "Deno",
    pack: "@deno/linux-x64-glibc@2.9.6",
    command: ["node_modules/@deno/linux-x64-glibc/deno", "run", "-A", "--node-modules-dir=manual"],
  },
] as const;

export const ESBUILD = "esbuild@0.28.2";

const ENV = {
  ...Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith("HOLDFAST_")),
  ),
  PATH: `${dirname(process.execPath)}:${process.env["PATH"] ?? ""}`,
  NEXT_TELEMETRY_DISABLED: "1",
  NODE_OPTIONS: "",
};

function run(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Record<string, string> = {},
): string {
  return execFileSync(command, args, {
    cwd,
    timeout: BUILD_MS_MAX,
    encoding: "utf8",
    env: { ...ENV, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
}

/** Compiles them as their authors would, with the strictest settings. */
function compile(folder: string, files: readonly string[]): void {
  const flags = ["--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes"];
  const types = [
    "--typeRoots",
    join(ROOT, "node_modules/@types"),
    "--types",
    "node",
    "--skipLibCheck",
  ];
  const target = [
    "--module",
    "nodenext",
    "--target",
    "es2024",
    "--lib",
    "es2024,esnext.disposable,dom",
  ];
  const paths = ["--rewriteRelativeImportExtensions", "--outDir", "built"];
  const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
  run(process.execPath, [compiler, ...flags, ...types, ...target, ...paths, ...files], folder);
}

/** The packages of this checkout, as if they were installed in the folder. */
function borrow(folder: string, packages: readonly string[]): void {
  for (const name of packages) {
    const link = join(folder, "node_modules", name);
    if (existsSync(link)) continue;
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", name), link);
  }
}

interface Served extends AsyncDisposable {
  readonly process: ChildProcess;
  readonly lines: readonly string[];
}

/** A program that serves until it is told to stop. */
function serve(args: readonly string[], cwd: string, env: Record<string, string> = {}): Served {
  const child = spawn(process.execPath, args, {
    cwd,
    env: { ...ENV, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    await exited;
  };
  return { process: child, lines, [Symbol.asyncDispose]: stop };
}

async function eventually<T>(
  what: string,
  look: () => Promise<T | undefined> | T | undefined,
): Promise<T> {
  const limit = performance.now() + ANSWER_MS_MAX;
  while (performance.now() < limit) {
    const found = await look();
    if (found !== undefined) return found;
    await pause(LOOK_MS);
  }
  throw new Error(`It never happened that ${what}.`);
}

async function answerOf(
  url: string,
  init: RequestInit = {},
): Promise<{ status: number; text: string } | undefined> {
  try {
    const response = await fetch(url, init);
    return { status: response.status, text: await response.text() };
  } catch {
    return undefined; // it does not listen yet
  }
}

const EXTERNAL =
  /^BUNDLED Holdfast cannot run from a bundle.*--external:holdfast.*serverExternalPackages/;

interface Installed {
  /** In it, the packed package and esbuild are installed. */
  readonly folder: string;
  readonly tarball: string;
}

export function testApps(parts: () => Installed): void {
  testRuntimes(parts);
  const installed = (): string => parts().folder;
  for (const format of ["esm", "cjs"] as const) {
    test(`a bundle of esbuild (${format}) imports it, and says what to mark as external`, async () => {
      const app = installed();
      cpSync(join(APPS, "bundled.ts"), join(app, "bundled.ts"));
      const bundle = async (name: string, more: object): Promise<string> => {
        const options = { entryPoints: ["bundled.ts"], bundle: true, platform: "node", format };
        const outfile = `${name}.${format === "esm" ? "mjs" : "cjs"}`;
        const all = JSON.stringify({ ...options, ...more, outfile, logLevel: "warning" });
        const program = `await (await import("esbuild")).build(${all})`;
        assert.equal(run(process.execPath, ["--input-type=module", "--eval", program], app), "");
        return outfile;
      };
      // No optional driver is installed, and none fails the build.
      const whole = await bundle("whole", {});
      assert.match(run(process.execPath, [whole], app), EXTERNAL);
      const marked = await bundle("marked", { external: ["holdfast"] });
      assert.equal(run(process.execPath, [marked], app), "42\nfunction function\n");
    });
  }

  test("an application in CommonJS is compiled and runs", () => {
    const app = join(installed(), "common");
    mkdirSync(app);
    writeFileSync(join(app, "package.json"), JSON.stringify({ private: true, type: "commonjs" }));
    cpSync(join(APPS, "common.cts"), join(app, "common.cts"));
    compile(app, ["common.cts"]);
    assert.equal(run(process.execPath, ["built/common.cjs"], app), "hello Ada\ntrue\n");
  });

  test("a shop with Express, Drizzle and PostgreSQL", { skip: missing("postgres") }, async () => {
    const app = join(installed(), "shop");
    cpSync(join(APPS, "shop"), app, { recursive: true });
    borrow(installed(), ["express", "drizzle-orm", "pg", "@types/pg"]);
    writeFileSync(join(app, "package.json"), JSON.stringify({ private: true, type: "module" }));
    compile(app, ["shop.ts", "express.d.ts"]);
    await using database = await scratchDatabase("postgres");
    for (const start of [1, 2]) await useShop(app, database.url, start);
    rmSync(join(installed(), "node_modules/pg"));
  });

  const skip = isLong ? false : "installs 350 MB: npm run test:long";
  test("an application with Next.js 16", { skip, timeout: 2 * BUILD_MS_MAX }, async (t) => {
    const { folder, tarball } = parts();
    const app = `${folder}-next`; // not below a folder with another lock file
    t.after(() => rmSync(app, { recursive: true, force: true }));
    cpSync(join(APPS, "next"), app, { recursive: true });
    writeFileSync(join(app, "package.json"), JSON.stringify({ private: true }));
    run("npm", ["install", "--no-audit", "--no-fund", tarball, ...NEXT], app);
    const next = "node_modules/next/dist/bin/next";
    run(process.execPath, [next, "build"], app);
    assert.ok(!existsSync(join(app, "next.db")), "the build opened the database");
    const port = await freePort();
    await using served = serve([next, "start", "--port", String(port)], app);
    const at = `http://127.0.0.1:${port}`;
    const page = await eventually("Next.js answers", () => answerOf(at));
    assert.equal(served.process.exitCode, null);
    assert.match(page.text, /enqueued (<!-- -->)?greet/);
    const dashboard = await answerOf(`${at}/admin/jobs`, { headers: { accept: "text/html" } });
    assert.equal(dashboard?.status, 200);
    assert.match(dashboard?.text ?? "", /<script/);
    const jobs = await answerOf(`${at}/admin/jobs/api/v1/jobs`);
    assert.equal((JSON.parse(jobs?.text ?? "{}") as { jobs: unknown[] }).jobs.length, 1);
  });
}

/** Jobs longer than their leases: each must be renewed, by the main thread where no other can. */
function testRuntimes(parts: () => Installed): void {
  const isTheirs = process.platform === "linux" && process.arch === "x64";
  const skip = reasonOf(
    !isLong && "installs 200 MB: npm run test:long",
    !isTheirs && "their programs here are for Linux on x64",
  );
  describe("a worker on another runtime", { skip }, () => {
    let app: string;

    before(() => {
      const { folder, tarball } = parts();
      app = `${folder}-runtimes`;
      mkdirSync(app);
      writeFileSync(join(app, "package.json"), JSON.stringify({ private: true, type: "module" }));
      const packs = RUNTIMES.map(({ pack }) => pack);
      run(
        "npm",
        ["install", "--no-audit", "--no-fund", "--ignore-scripts", tarball, ...packs],
        app,
      );
      cpSync(join(APPS, "long-job.mjs"), join(app, "long-job.mjs"));
      borrow(app, ["pg", "mysql2"]);
    });
    after(() => rmSync(app, { recursive: true, force: true }));

    for (const { name, command } of RUNTIMES) {
      const [program, ...flags] = command;
      const runs = (url: string): void => {
        const env = { DATABASE_URL: url };
        const said = run(join(app, program), [...flags, "long-job.mjs"], app, env);
        assert.equal(said, "warn: threads have different clocks\nattempt 1\nclosed\n");
      };
      test(`${name}, SQLite`, () => runs("sqlite:long.db"));
      for (const kind of ["postgres", "mysql"] as const) {
        test(`${name}, ${kind}`, { skip: missing(kind) }, async () => {
          await using database = await scratchDatabase(kind);
          runs(database.url);
        });
      }
    }
  });
}

interface Rows {
  readonly orders: readonly { readonly id: string; readonly state: string }[];
  readonly invoices: readonly unknown[];
  readonly jobs: readonly string[];
}

/** Started for the second time, it has what the first left. */
async function useShop(app: string, url: string, start: number): Promise<void> {
  await using served = serve(["built/shop.js"], app, { DATABASE_URL: url });
  const port = await eventually(
    "the shop listens",
    () => served.lines.flatMap((line) => /^port (\d+)$/.exec(line)?.[1] ?? [])[0],
  );
  const at = `http://127.0.0.1:${port}`;
  const post = (body: object): ReturnType<typeof answerOf> =>
    answerOf(`${at}/orders`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  assert.equal((await post({ id: `good-${start}`, cents: 100 }))?.status, 201);
  assert.equal((await post({ id: `bad-${start}`, cents: 5, broken: true }))?.status, 409);
  const rows = await eventually("the order is paid", async () => {
    const read = JSON.parse((await answerOf(`${at}/orders`))?.text ?? "{}") as Rows;
    const isPaid = read.orders.every(({ state }) => state === "paid 100");
    return isPaid && read.jobs.every((status) => status === "done") ? read : undefined;
  });
  // The order that was rolled back left neither a row nor a job.
  assert.deepEqual(
    [rows.orders.length, rows.invoices.length, rows.jobs.length],
    [start, start, start],
  );
  const dashboard = await answerOf(`${at}/admin/jobs`, { headers: { accept: "text/html" } });
  assert.equal(dashboard?.status, 200);
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  assert.ok(typeof address === "object" && address !== null);
  return address.port;
}
