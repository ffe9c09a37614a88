/** docs/guide/api.md leads to every exported function and every part of a Holdfast, and has every error. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import * as dashboard from "../../src/app/dashboard.ts";
import * as ops from "../../src/app/ops.ts";
import * as flows from "../../src/flows/index.ts";
import * as api from "../../src/index.ts";
import * as locks from "../../src/locks/index.ts";
import * as schedules from "../../src/schedules/index.ts";
import * as testing from "../../src/testing/index.ts";
import * as workflows from "../../src/workflows/index.ts";

const SOURCES = join(import.meta.dirname, "../../src");
const page = readFileSync(new URL("../../docs/guide/api.md", import.meta.url), "utf8");
const reference = readFileSync(new URL("../../docs/guide/reference.md", import.meta.url), "utf8");

/** The application gave these to `openHoldfast()`. */
const GIVEN = new Set(["runtime", "logger"]);

const ENTRIES = {
  holdfast: api,
  "holdfast/workflows": workflows,
  "holdfast/flows": flows,
  "holdfast/schedules": schedules,
  "holdfast/locks": locks,
  "holdfast/ops": ops,
  "holdfast/dashboard": dashboard,
  "holdfast/testing": testing,
};
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

suite("the page of the API", () => {
  test("has every function and class that an entry exports, and no other", () => {
    const exported = Object.entries(ENTRIES).flatMap(([entry, exports]) =>
      Object.entries(exports)
        .filter(([, value]) => typeof value === "function" && !isError(value))
        .map(([name]) => `${name} ${entry}`),
    );
    const rows = [...page.matchAll(/^\| `(?:new )?(\w+)\([^|]*\| `([\w/]+)` \|/gm)];
    const listed = rows.map(([, name, entry]) => `${name} ${entry}`);
    assert.deepEqual(listed.toSorted(), exported.toSorted());
  });

  test("leads to the type of every part of a Holdfast", () => {
    const [, members = ""] = /^### Holdfast\n([^]*?)^### /m.exec(reference) ?? [];
    const parts = [...members.matchAll(/^- `(\w+)` \[`(\w+)`\]/gm)].filter(
      ([, name = ""]) => !GIVEN.has(name),
    );
    assert.ok(parts.length > 10);
    for (const [, name, type = ""] of parts) {
      assert.match(
        page,
        new RegExp(`^\\| .*\`holdfast\\.${name}\`.*#${type.toLowerCase()}\\)`, "m"),
      );
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
