/**
 * Every command and every route, with its answers as they were recorded in the scripts beside this file.
 *
 * After an intended change, record anew and read the difference: `RECORD=1 node --test test/golden/golden.test.ts`.
 */
import assert from "node:assert/strict";
import { copyFileSync, globSync, mkdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { Writable } from "node:stream";
import { DatabaseSync } from "node:sqlite";
import { after, before, mock, suite, test } from "node:test";
import type { Command } from "commander";
import { dashboardHandler, type DashboardHandler } from "../../src/app/dashboard.ts";
import { type Holdfast, openHoldfast } from "../../src/app/holdfast.ts";
import { asksForJson, buildProgram, run } from "../../src/cli/main.ts";
import { addEnvFile } from "../../src/cli/settings.ts";
import { Terminal } from "../../src/terminal/terminal.ts";
import { type TestClock, testClock } from "../../src/testing/clock.ts";
import type { Operation } from "../../src/operations/operation.ts";
import { tempFolder } from "../support/folder.ts";
import { wordsOf } from "../support/words.ts";
import { allOperations, type Checked, checkResults } from "./shapes.ts";
import { furnish, type Names, tasks, workflows } from "./fixture.ts";
import {
  differences,
  isRequest,
  plain,
  readScript,
  shown,
  type Step,
  withIds,
  writeScript,
} from "./script.ts";

const RECORDS = (process.env["RECORD"] ?? "") !== "";
const scripts = globSync("*.txt", { cwd: import.meta.dirname }).toSorted();

/** These run services, or take the time of the real clock: other tests have them. */
const NO_SCRIPT = new Set(["start", "work", "serve", "mcp", "demo", "verify", "top", "completion"]);
/** Routes that only the server has, or that stream. */
const NO_REQUEST = new Set(["GET /health", "GET /live", "GET /ready", "GET /metrics"]);

const ID = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/;

class Output extends Writable {
  text = "";

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString("utf8");
    done();
  }
}

/** A copy of the database with both surfaces on it. */
class Surfaces implements AsyncDisposable {
  readonly #holdfast: Holdfast;
  readonly #clock: TestClock;
  readonly #handler: DashboardHandler;

  private constructor(holdfast: Holdfast, clock: TestClock) {
    this.#holdfast = holdfast;
    this.#clock = clock;
    this.#handler = dashboardHandler({
      holdfast,
      tasks,
      workflows,
      principal: ({ headers }) => ({
        name: "bob",
        role: headers.has("viewer") ? "viewer" : "operator",
      }),
    });
  }

  /** Commands work on the database of the folder that they run in. */
  static async open(folder: string, now: number): Promise<Surfaces> {
    process.chdir(folder);
    const runtime = testClock(now);
    const options = { runtime, version: "build-1", locks: "sql" } as const;
    return new Surfaces(await openHoldfast("sqlite:holdfast.db", options), runtime);
  }

  async answer(request: string): Promise<string> {
    // Rows of two requests have an order.
    await this.#clock.advance(1);
    mock.timers.setTime(this.#clock.now());
    return request.startsWith("$ ") ? this.#command(request) : this.#request(request);
  }

  async #command(request: string): Promise<string> {
    const [out, err] = [new Output(), new Output()];
    const args = wordsOf(request).slice(2);
    const stream = (output: Output): any => Object.assign(output, { columns: 80 });
    const streams = { stdout: stream(out), stderr: stream(err) };
    const terminal = new Terminal({ json: asksForJson(args), env: {}, ...streams });
    const code = await run(terminal, args);
    const isJson = terminal.json && out.text !== "";
    const lines = [isJson ? `${shown(JSON.parse(out.text))}\n` : out.text];
    if (err.text !== "") lines.push(err.text.trimEnd().replaceAll(/^/gm, "! "), "\n");
    return `${lines.join("")}${code === 0 ? "" : `exit ${code}\n`}`;
  }

  async #request(request: string): Promise<string> {
    const [, viewer, method = "", path = "", body] =
      /^(viewer )?(GET|POST) (\S+)(?: (.*))?$/.exec(request) ?? [];
    const response = await this.#handler(
      new Request(`http://localhost${path}`, {
        method,
        headers: {
          ...(viewer === undefined ? {} : { viewer: "yes" }),
          ...(method === "POST" ? { "content-type": "application/json" } : {}),
          "x-request-id": "golden-request",
        },
        ...(method === "POST" ? { body: body ?? "{}" } : {}),
      }),
    );
    const { status, headers } = response;
    const shownHeaders = ["location", "retry-after"].flatMap((name) =>
      headers.has(name) ? [`${name}: ${headers.get(name) ?? ""}`] : [],
    );
    const type = headers.get("content-type") ?? "";
    if (type.startsWith("text/event-stream")) await response.body?.cancel();
    const text = type.includes("json") ? await response.text() : "";
    const json =
      text === "" ? "" : path.endsWith("openapi.json") ? document(text) : shown(JSON.parse(text));
    return [`${status} ${type.split(";")[0] ?? ""}`.trimEnd(), ...shownHeaders, json]
      .join("\n")
      .replaceAll(/"requestId":\s*"[^"]+"/g, '"requestId":"<request>"');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handler.close();
    await this.#holdfast.close();
  }
}

/** One line for each operation and schema. */
function document(text: string): string {
  const { paths, components, ...rest } = JSON.parse(text);
  const lines = (prefix: string, all: object): string[] =>
    Object.entries(all).map(([name, one]) => `${prefix}${name} ${JSON.stringify(one)}`);
  return [
    JSON.stringify(rest),
    ...Object.entries(paths as object).flatMap(([path, methods]) => lines(`${path} `, methods)),
    ...Object.entries(components as object).flatMap(([kind, all]) => lines(`${kind} `, all)),
  ].join("\n");
}

suite("golden", () => {
  const folder = tempFolder();
  const filled = folder.file(".db");
  let names: Names = {};
  let now = 0;
  let checked: Checked;
  let operations: readonly Operation<never>[] = [];
  const environment = process.env;
  const cwd = process.cwd();

  before(async () => {
    operations = await allOperations();
    checked = checkResults(operations);
    const { holdfast, clock, names: made } = await furnish(`sqlite:${filled}.work`);
    names = made;
    now = clock.now();
    // Closing releases its locks, so the copy is made before.
    const db = new DatabaseSync(`${filled}.work`);
    db.exec(`vacuum into '${filled}'`);
    db.close();
    await holdfast.close();
    process.env["TZ"] = "UTC";
    const outside = Object.entries(environment).filter(([name]) => !name.startsWith("HOLDFAST_"));
    process.env = { ...Object.fromEntries(outside), BUILD_ID: "build-1" };
    addEnvFile(); // The settings keep a copy of the environment.
    mock.timers.enable({ apis: ["Date"], now });
  });

  after(() => {
    mock.timers.reset();
    process.chdir(cwd);
    process.env = environment;
    folder[Symbol.dispose]();
  });

  for (const script of scripts) {
    test(basename(script, ".txt"), async () => {
      const path = join(import.meta.dirname, script);
      const own = folder.file("");
      mkdirSync(own);
      copyFileSync(filled, join(own, "holdfast.db"));
      await using surfaces = await Surfaces.open(own, now);
      const recorded = readScript(path);
      const answered: Step[] = [];
      let last = "";
      for (const step of recorded) {
        const line = withIds(step.line, { ...names, last });
        const answer = isRequest(step) ? await surfaces.answer(line) : "";
        [last = ""] = ID.exec(answer) ?? [];
        answered.push({ ...step, answer: plain(answer, names, own).trimEnd() });
      }
      if (RECORDS) writeScript(path, answered);
      else assert.equal(differences(recorded, answered), "");
    });
  }

  test("every result fits the shape of its operation, and every operation was asked", () => {
    assert.deepEqual(checked.misfits, []);
    const unasked = operations.filter(({ name }) => !checked.ran.has(name));
    assert.deepEqual(
      unasked.map(({ name }) => name),
      [],
    );
  });

  test("every command and every route is in a script", async () => {
    const asked = scripts.flatMap((script) =>
      readScript(join(import.meta.dirname, script)).map(({ line }) => line),
    );
    const { stdout, stderr } = process;
    const program = await buildProgram(
      new Terminal({ json: false, env: {}, stdout, stderr }),
      null,
    );
    const paths = program.commands.flatMap((command: Command) =>
      command.commands.length === 0
        ? [command.name()]
        : command.commands.map((part) => `${command.name()} ${part.name()}`),
    );
    const isAsked = (path: string, what: RegExp): boolean =>
      asked.some((line) => line.startsWith(`$ holdfast ${path}`) && what.test(line));
    const missing = paths.filter((path) => !isAsked(path, /--help/));
    const silent = paths.filter((path) => !NO_SCRIPT.has(path) && !isAsked(path, /^(?!.*--help)/));
    assert.deepEqual([missing, silent], [[], []]);
    const requests = asked.map((line) => line.replace(/^viewer /, "").replace(/[?].*| \{.*/, ""));
    const text = readFileSync(join(import.meta.dirname, "api.txt"), "utf8");
    const routes = [...text.matchAll(/^ {2}(\/\S*) (get|post) /gm)].map(
      ([, path = "", method = ""]) => `${method.toUpperCase()} ${path}`,
    );
    assert.ok(routes.length > 100);
    const unasked = routes.filter((one) => {
      const pattern = new RegExp(`^${one.replaceAll(/\{\w+\}/g, "[^/]+")}$`);
      return !NO_REQUEST.has(one) && !requests.some((line) => pattern.test(line));
    });
    assert.deepEqual(unasked, []);
  });
});
