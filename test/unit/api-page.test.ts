/** docs/guide/api.md has a line for everything that an application can call, and for nothing else. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import * as ops from "../../src/app/ops.ts";
import * as flows from "../../src/flows/index.ts";
import * as api from "../../src/index.ts";
import * as locks from "../../src/locks/index.ts";
import * as schedules from "../../src/schedules/index.ts";
import * as testing from "../../src/testing/index.ts";
import * as workflows from "../../src/workflows/index.ts";

const SOURCES = join(import.meta.dirname, "../../src");
const page = readFileSync(new URL("../../docs/guide/api.md", import.meta.url), "utf8");

/** Protected or private in the types, or not for applications. */
const HIDDEN = new Set(
  "enqueueCalls writeJobs writeEvent onNamed applyDesiredState onEvicted forsake page write find read readHistory readProgress".split(
    " ",
  ),
);
/** Public, though the name is that of a protected method elsewhere. */
const SHOWN = new Set(["holdfast.workers.find"]);
const ENTRIES = {
  holdfast: api,
  "holdfast/workflows": workflows,
  "holdfast/flows": flows,
  "holdfast/schedules": schedules,
  "holdfast/locks": locks,
  "holdfast/ops": ops,
  "holdfast/testing": testing,
};
const PARTS = [
  "jobs",
  "bulk",
  "errors",
  "alerts",
  "leases",
  "workers",
  "workflows",
  "flows",
  "batches",
  "locks",
  "audit",
  "metrics",
  "schedules",
  "queues",
] as const;

function methodsOf(name: string, target: object): string[] {
  const found = new Set<string>();
  let prototype: unknown = Object.getPrototypeOf(target);
  while (typeof prototype === "object" && prototype !== null && prototype !== Object.prototype) {
    for (const [key, { value }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
      if (typeof value === "function" && key !== "constructor") found.add(`${name}.${key}`);
    }
    prototype = Object.getPrototypeOf(prototype);
  }
  const isPublic = (each: string): boolean =>
    SHOWN.has(each) || !HIDDEN.has(each.slice(each.lastIndexOf(".") + 1));
  return [...found].filter(isPublic);
}

/** Of objects that an application holds, by the names that the page gives them. */
async function methods(): Promise<string[]> {
  await using bench = await testing.openTestHoldfast();
  const { holdfast } = bench;
  const found: string[] = methodsOf("holdfast", holdfast);
  for (const part of PARTS) found.push(...methodsOf(`holdfast.${part}`, holdfast[part]));
  const task = api.defineTask({
    name: "look",
    run: (_: null, ctx) => void found.push(...methodsOf("ctx", ctx)),
  });
  const job = await holdfast.enqueue(task, null);
  await bench.drain([task]);
  const workflow = workflows.defineWorkflow({
    name: "order",
    initial: "open",
    states: { open: { final: true } },
    moves: {},
  });
  const item = await holdfast.workflows.start(workflow, { data: {}, actor: "test" });
  const lock = await holdfast.locks.acquire("key");
  const worker = await holdfast.startWorker({ tasks: [task] });
  const monitor = ops.startMonitor(holdfast);
  const within = holdfast.within({});
  for (const [name, target] of Object.entries({ job, item, lock, worker, monitor, within })) {
    found.push(...methodsOf(name, target));
  }
  found.push("clock.advance", "clock.settle"); // the rest of a clock is the library's
  await lock.release();
  await monitor.stop();
  return found.filter((name) => name !== "holdfast.locks.close");
}

function isError(value: unknown): value is typeof api.HoldfastError {
  return (
    typeof value === "function" && (value as { prototype: unknown }).prototype instanceof Error
  );
}

/** Their errors are for people and for callers over HTTP: an application does not meet them. */
const COMMANDS = /^(cli|config|copy|terminal|tokens|verify)\/|(command|operations)\.ts$/;

/** Every error with a code that an application may meet: its class and the code. */
function errorClasses(): string[] {
  const files = globSync("**/*.ts", { cwd: SOURCES }).filter((file) => !COMMANDS.test(file));
  const texts = files.map((file) => readFileSync(join(SOURCES, file), "utf8"));
  const classes = texts.flatMap((text) => [
    ...text.matchAll(/^(?:export )?class (\w+) extends \w+Error \{\n[^]*?^\}/gm),
  ]);
  return classes.map(([body, name]) => `${name} ${/"([A-Z_]{4,})"/.exec(body)?.[1]}`);
}

suite("the page of all functions", () => {
  const functions = [...page.matchAll(/^\| `([\w.]+)\(/gm)].map(([, name]) => name as string);

  test("has every function that an application can call, and no other", async () => {
    const exported = Object.values(ENTRIES)
      .flatMap((entry) => Object.entries(entry))
      .filter(([, value]) => typeof value === "function" && !isError(value))
      .map(([name]) => name)
      .filter((name) => name !== "Alerts" && name !== "Doctor");
    const wanted = [...exported, ...(await methods())].toSorted();
    const missing = wanted.filter((name) => !functions.includes(name));
    assert.deepEqual(missing, [], "docs/guide/api.md has no line for these: add one each");
    assert.deepEqual(
      functions.filter((name) => !wanted.includes(name)),
      [],
      "docs/guide/api.md has lines for these, which do not exist",
    );
  });

  test("has the functions of the classes that applications make themselves", () => {
    for (const made of [ops.Alerts, ops.Doctor]) {
      const names = Object.getOwnPropertyNames(made.prototype).filter((n) => n !== "constructor");
      const line = `| \`${made.name}\` | ${names.map((name) => `\`${name}\``).join(", ")} (`;
      assert.ok(page.includes(line), `docs/guide/api.md has no line that begins with ${line}`);
    }
  });

  test("has every error with the entry that exports its class", () => {
    const classes = Object.entries(ENTRIES)
      .flatMap(([entry, exports]) => Object.entries(exports).map((each) => [entry, ...each]))
      .filter(([, name, value]) => isError(value) && name !== "HoldfastError")
      .map(([entry, name]) => `${name} ${entry}`);
    const rows = [...page.matchAll(/^\| `(\w+)` \| `([A-Z_]+)` \| (?:`([\w/]+)` )?\|/gm)];
    const listed = rows.flatMap(([, name, , entry]) =>
      entry === undefined ? [] : [`${name} ${entry}`],
    );
    assert.deepEqual(listed.toSorted(), classes.toSorted());
    const known = rows.map(([, name, code]) => `${name} ${code}`);
    assert.deepEqual(known.toSorted(), errorClasses().toSorted());
  });
});
