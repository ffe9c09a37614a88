/** The image: what deploy/Dockerfile says, and what comes of it when its steps are carried out in a clean folder. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { before, describe, test } from "node:test";
import { tempFolder } from "../support/folder.ts";
import { isLong, notItsTurn } from "../support/scale.ts";
import { Container, canBeFirst, runIn, type Given } from "./container.ts";
import { buildContext, isIgnored, readRules } from "./context.ts";
import {
  assignments,
  execForm,
  finalStage,
  instruction,
  readDockerfile,
  type Stage,
} from "./dockerfile.ts";
import { neededToRun } from "./npm-ci.ts";
import { replay, type Image } from "./replay.ts";
import { DEFAULT_PORT, ROOT, SETTINGS } from "./settings.ts";

const BUILD_ID = "f00dfee";
/** In the working directory, which is a volume. With NODE_ENV=production a database has to be named. */
const HOLDFAST_URL = "sqlite:holdfast.db";
/** Packages, dist and the launcher; then all of the image, with Node and the libraries of the system. In bytes. */
const APP_BYTES_MAX = 8e6;
const IMAGE_BYTES_MAX = 125e6;
/** The image's own PATH does not lead to it. */
const CHROOT = "/usr/sbin/chroot";

const stages = readDockerfile(readFileSync(join(ROOT, "deploy/Dockerfile"), "utf8"));
const manifest = readJson(join(ROOT, "package.json"));
const folder = tempFolder();

describe("deploy/Dockerfile", () => {
  const final = finalStage(stages);

  test("every stage starts from the Node that the tests run on, pinned", () => {
    assert.equal(stages.length, 4);
    assert.equal(final.image, "scratch");
    for (const { image } of stages.slice(0, -1)) {
      assert.equal(image, `node:${manifest.devDependencies["node"]}-bookworm-slim`);
    }
  });

  test("runs as a user other than root, by number", () => {
    assert.match(instruction(final, "USER").rest, /^[1-9]\d*:[1-9]\d*$/);
  });

  test("is checked every 30 s with a timeout of 5 s, after 10 s, and fails after the third time", () => {
    const { flags, rest } = instruction(final, "HEALTHCHECK");
    assert.deepEqual(Object.fromEntries(flags), {
      interval: "30s",
      timeout: "5s",
      "start-period": "10s",
      retries: "3",
    });
    assert.deepEqual(execForm(rest.replace(/^CMD /, "")), ["node", "/app/health-check.ts"]);
  });

  test("is stopped by SIGTERM, with no shell in between", () => {
    assert.equal(instruction(final, "STOPSIGNAL").rest, "SIGTERM");
    assert.equal(execForm(instruction(final, "ENTRYPOINT").rest)[0], "node");
    assert.deepEqual(execForm(instruction(final, "CMD").rest), ["start"]);
  });

  test("sets nothing that the program does not know, and no address of a database", () => {
    const names = settingsOf(final);
    assert.deepEqual(
      names.filter((name) => !SETTINGS.has(name) && name !== "PATH"),
      [],
    );
    // It would win over the file of secrets.
    assert.ok(!names.includes("HOLDFAST_URL"));
    assert.equal(instruction(final, "EXPOSE").rest, String(DEFAULT_PORT));
  });

  test("the builder is sent what is copied, and nothing else", () => {
    const sent = buildContext(ROOT);
    const tops = new Set(sent.map((file) => file.split("/")[0] ?? ""));
    assert.deepEqual([...tops].toSorted(), [
      ".npmrc",
      "LICENSE",
      "bin",
      "deploy",
      "package-lock.json",
      "package.json",
      "page",
      "scripts",
      "src",
      "tsconfig.build.json",
      "tsconfig.json",
      "verify",
    ]);
    const rules = readRules(readFileSync(join(ROOT, ".dockerignore"), "utf8"));
    for (const secret of [".env", ".git/config", "deploy/secrets/holdfast.env", "shop.db"]) {
      assert.ok(isIgnored(secret, rules), `${secret} would be sent`);
    }
  });
});

/** The package of the same build is tried in test/package: with every seed, one of the two runs programs. */
const skip = notItsTurn("the image", ["the examples", "the image"]);

describe("the image, carried out in a clean folder", { skip }, () => {
  let image: Image;

  before(() => {
    const args = { BUILD_ID };
    image = replay({ repository: ROOT, folder: folder.file(""), args, realNpm: isLong });
  });

  const run = (...args: string[]) => runIn(image, { args, env: { HOLDFAST_URL } });

  test("the command answers, from dist and without the sources", async () => {
    const { code, stdout, stderr } = await run("--version");
    assert.deepEqual([code, stdout, stderr], [0, `${manifest.version}\n`, ""]);
    // By its name too: for `docker exec` and `kubectl exec`.
    const byName = spawnSync(join(image.root, "usr/local/bin/holdfast"), ["--version"], {
      encoding: "utf8",
    });
    assert.equal(byName.stdout, stdout);
    assert.ok(!existsSync(join(image.root, "app/src")));
  });

  test("has what runs, and is small", (t) => {
    const packages = packagesIn(join(image.root, "app/node_modules"));
    for (const wanted of [...Object.keys(manifest.dependencies), "pg", "mysql2", "ioredis"]) {
      assert.ok(packages.includes(wanted), `${wanted} is missing`);
    }
    for (const left of [
      "pino",
      "zod",
      "typescript",
      "oxlint",
      "node",
      "@prisma/client",
      "typeorm",
      "yaml",
    ]) {
      assert.ok(!packages.includes(left), `${left} is of no use there`);
    }
    const app = sizeOf(join(image.root, "app"));
    assert.ok(app < APP_BYTES_MAX, `${app} bytes`);
    const all = sizeOf(image.root);
    t.diagnostic(`${(all / 1e6).toFixed(1)} MB, ${(app / 1e6).toFixed(1)} MB of it the program`);
    if (process.arch === "x64") assert.ok(all < IMAGE_BYTES_MAX, `${all} bytes`);
  });

  test("runs with its own Node and libraries alone, and finds hosts", { skip: noChroot() }, () => {
    const inside = (...command: string[]) => {
      const { status, stdout, stderr } = spawnSync(CHROOT, [image.root, ...command], {
        encoding: "utf8",
        env: { ...image.env, HOLDFAST_URL: "sqlite:/data/inside.db" },
      });
      assert.equal(status, 0, stderr);
      return stdout;
    };
    assert.equal(inside("node", "--version"), `v${manifest.devDependencies["node"]}\n`);
    assert.equal(inside("holdfast", "--version"), `${manifest.version}\n`);
    inside("holdfast", "migrate");
    inside("holdfast", "enqueue", "greet", '"Ada"');
    assert.match(inside("holdfast", "jobs"), /greet/);
    writeFileSync(join(image.root, "etc/hosts"), "127.0.0.7 database\n");
    const look = 'require("dns").lookup("database", (error, found) => console.log(error ?? found))';
    assert.equal(inside("node", "--eval", look), "127.0.0.7\n");
    const who = 'console.log(require("os").userInfo().homedir)';
    const asNode = ["--userspec=1000:1000", image.root, "node", "--eval", who];
    const { stdout } = spawnSync(CHROOT, asNode, { encoding: "utf8", env: image.env });
    assert.equal(stdout, "/home/node\n");
    for (const left of ["bin/sh", "usr/bin/sh", "usr/local/bin/npm"]) {
      assert.ok(!existsSync(join(image.root, left)), left);
    }
  });

  test("npm itself would install the same packages", { skip: isLong ? false : "LONG=1" }, () => {
    const root = join(dirname(image.root), "packages/app");
    const lock = readJson(join(ROOT, "package-lock.json")).packages;
    const needed = neededToRun(readJson(join(root, "package.json")), lock);
    const installed = packagesIn(join(root, "node_modules")).filter((name) => name !== "holdfast");
    const tops = needed.filter((place) => place.lastIndexOf("node_modules/") === 0);
    assert.deepEqual(
      installed,
      tops.map((place) => place.slice("node_modules/".length)),
    );
  });

  test("tasks with their own package.json use the copy in the image, which receives SIGTERM as the first process", async (t) => {
    const first = canBeFirst();
    if (!first) t.diagnostic("no namespace of processes here: it was not the first one");
    const tasks = writeTasks(image);
    const args = ["work", "--tasks", tasks];
    await using worker = new Container(image, { args, env: { HOLDFAST_URL }, first });
    await worker.says(/worker started/);
    const asked = await run("enqueue", "greet", '"Ada"', "--wait", "20s", "--json");
    assert.equal(asked.code, 0, asked.stderr);
    assert.match(asked.stdout, /"hello Ada"/);
    const listed = JSON.parse((await run("workers", "--json")).stdout);
    assert.match(JSON.stringify(listed), new RegExp(`"version":"${BUILD_ID}"`));
    worker.stop();
    const { code, stderr } = await worker.ended;
    assert.equal(code, 0, stderr);
    assert.match(stderr, /SIGTERM/);
  });

  test("`start` is alive and ready, says so, and ends with 0", async () => {
    const port = String(await freePort());
    const env = { HOLDFAST_PORT: port, HOLDFAST_TOKEN: "0123456789abcdef-of-the-test" };
    // As deploy/compose.yaml mounts its secret.
    writeFileSync(join(image.workdir, ".env"), `HOLDFAST_URL=${HOLDFAST_URL}\n`);
    const given: Given = { env: { ...env, HOLDFAST_TASKS: writeTasks(image) } };
    await using service = new Container(image, given);
    await until(async () => (await fetch(`http://127.0.0.1:${port}/ready`)).ok);
    for (const path of ["/health", "/live", "/metrics"]) {
      const headers = { authorization: `Bearer ${env.HOLDFAST_TOKEN}` };
      const { status } = await fetch(`http://127.0.0.1:${port}${path}`, { headers });
      assert.equal(status, 200, path);
    }
    assert.equal(healthCheck(image, env).status, 0);
    service.stop();
    const { code, stderr } = await service.ended;
    assert.equal(code, 0, stderr);
    assert.equal(healthCheck(image, env).status, 1);
  });

  test("the health check distinguishes a live process from a dead one", async () => {
    let status = 200;
    const paths: string[] = [];
    const server = createServer((request, response) => {
      paths.push(request.url ?? "");
      response.writeHead(status).end();
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    const ask = (): Promise<number | null> => healthCheckBeside(image, port);
    assert.equal(await ask(), 0);
    status = 503;
    assert.equal(await ask(), 1);
    server.close();
    await once(server, "close");
    assert.equal(await ask(), 1);
    assert.deepEqual(paths, ["/live", "/live"]);
  });
});

describe("the drivers of an image", () => {
  test("are those that were chosen, in the versions of the lock file", () => {
    const chosen = chooseDrivers(["pg"]);
    assert.equal(chosen.status, 0, chosen.stderr);
    const lock = readJson(join(ROOT, "package-lock.json")).packages;
    const places = neededToRun(chosen.manifest, lock);
    assert.ok(places.includes("node_modules/pg") && places.includes("node_modules/pg-pool"));
    assert.ok(!places.includes("node_modules/mysql2") && !places.includes("node_modules/ioredis"));
    assert.equal(chosen.manifest.dependencies["pg"], manifest.devDependencies["pg"]);
  });

  test("an unknown driver fails the build with a message", () => {
    const { status, stderr } = chooseDrivers(["pg", "postgres"]);
    assert.equal(status, 1);
    assert.match(stderr, /^No driver is called postgres\. There are: .*mysql2.*\n$/);
  });
});

interface Manifest {
  version: string;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
}

function readJson(file: string): any {
  return JSON.parse(readFileSync(file, "utf8"));
}

function settingsOf(stage: Stage): string[] {
  return stage.instructions
    .filter(({ name }) => name === "ENV")
    .flatMap(({ rest }) => assignments(rest, new Map()).map(([name]) => name));
}

function noChroot(): string | false {
  const can = spawnSync(CHROOT, ["/", "true"]).status === 0;
  return can ? false : "only root may change the root folder";
}

/** `pg`, `@standard-schema/spec`: those that stand at the top. */
function packagesIn(modules: string): string[] {
  return readdirSync(modules)
    .filter((name) => !name.startsWith("."))
    .flatMap((name) =>
      name.startsWith("@") ? readdirSync(join(modules, name)).map((own) => `${name}/${own}`) : name,
    )
    .toSorted();
}

/** In bytes, without what links lead to. */
function sizeOf(path: string): number {
  const stats = lstatSync(path);
  if (!stats.isDirectory()) return stats.size;
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0);
}

/** As `FROM holdfast` and a COPY put them there. */
function writeTasks({ root }: Image): string {
  const place = join(root, "app/tasks");
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, "package.json"), '{ "name": "shop", "type": "module" }');
  const file = join(place, "tasks.ts");
  cpSync(join(ROOT, "deploy/tasks.ts"), file);
  return file;
}

function healthCheck(image: Image, env: Record<string, string>) {
  const [, file = ""] = image.healthCheck;
  return spawnSync(process.execPath, [file], { env, encoding: "utf8" });
}

/** Without blocking the server that it asks. */
async function healthCheckBeside(image: Image, port: number): Promise<number | null> {
  const asking: Image = { ...image, entrypoint: image.healthCheck };
  const { code } = await runIn(asking, { args: [], env: { HEALTH_CHECK_PORT: String(port) } });
  return code;
}

function chooseDrivers(drivers: readonly string[]) {
  const place = folder.file("");
  mkdirSync(place);
  cpSync(join(ROOT, "package.json"), join(place, "package.json"));
  const script = join(ROOT, "deploy/drivers.ts");
  const said = spawnSync(process.execPath, [script, ...drivers], { cwd: place, encoding: "utf8" });
  const chosen = readJson(join(place, "package.json")) as Manifest;
  rmSync(place, { recursive: true });
  return { ...said, manifest: chosen };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** Looks until it is so; a look that fails is one that says no. */
async function until(look: () => Promise<boolean>): Promise<void> {
  const { setTimeout: pause } = await import("node:timers/promises");
  for (let looks = 0; looks < 200; looks += 1) {
    if (await look().catch(() => false)) return;
    await pause(50);
  }
  throw new Error("it did not come to it in 10 s");
}
