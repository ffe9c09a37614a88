/** The comment of an option, which editors and docs/guide/reference.md show, names the default that its table has. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import { toMs } from "../../src/core/duration.ts";

const SOURCES = join(import.meta.dirname, "../../src");
const files = globSync("**/*.ts", { cwd: SOURCES });
const texts = new Map(files.map((file) => [file, readFileSync(join(SOURCES, file), "utf8")]));

/** Which argument of a builder is the default. */
const DEFAULT_AT: Readonly<Record<string, number>> = {
  whole: 2,
  duration: 1,
  yes: 0,
  choice: 1,
  by: 1,
  each: 1,
  lasting: 0, // of alerts
  count: 0, // of alerts
};

type Value = string | number | boolean | null;

/** Of the first builder in an entry of a table; null: it has no default, or one that is no plain value. */
function initialOf(entry: string, text: string): Value {
  const [, builder = "", rest = ""] = /\b(\w+)\(([^]*)/.exec(entry) ?? [];
  const shared = /^\w+$/.test(entry) ? new RegExp(`const ${entry} = (.+);`).exec(text) : null;
  if (shared !== null) return initialOf(`${shared[1]}`, text);
  if (builder === "configured") return initialOf(rest, text);
  const at = DEFAULT_AT[builder];
  return at === undefined ? null : valueOf(argumentsOf(rest)[at] ?? "", text);
}

/** The arguments up to the closing bracket. */
function argumentsOf(rest: string): string[] {
  const found = [""];
  let depth = 0;
  for (const char of rest) {
    if ("([{".includes(char)) depth += 1;
    if (")]}".includes(char)) depth -= 1;
    if (depth < 0) break;
    if (char === "," && depth === 0) found.push("");
    else found.push(`${found.pop()}${char}`);
  }
  return found.map((one) => one.trim());
}

function valueOf(code: string, text: string): Value {
  if (/^("[^"]*"|-?[\d._]+|true|false)$/.test(code)) {
    return JSON.parse(code.replaceAll("_", "")) as Value;
  }
  if (!/^[A-Z_]+$/.test(code)) return null;
  const all = [text, ...texts.values()];
  const constant = all.map((one) => new RegExp(`const ${code} = (.+);`).exec(one)?.[1]);
  return valueOf(constant.find((one) => one !== undefined) ?? "", text);
}

/** The comment of a member that names a plain default. */
function namedIn(comment: string): Value {
  const pattern =
    /\bDefault(?: and maximum)?:? ("[^"]*"|`[^`]*`|true|false|[\d,.]*\d(?: (?:ms|s|min|h|days?))?)/;
  const [, named] = pattern.exec(comment.replaceAll(/\s*\n\s*\* /g, " ")) ?? [];
  if (named === undefined) return null;
  if (/^["`]/.test(named)) return named.slice(1, -1);
  const plain = named.replaceAll(",", "");
  return /^[\d.]+$/.test(plain) || !/\d/.test(plain) ? (JSON.parse(plain) as Value) : plain;
}

function isSame(named: Value, initial: Value): boolean {
  if (named === initial) return true;
  const units = { min: "m", days: "d", day: "d" };
  const [, amount, unit = ""] = /^([\d.]+) (\w+)$/.exec(String(named)) ?? [];
  if (amount === undefined || initial === null || typeof initial === "boolean") return false;
  return toMs("named", amount + (units[unit as "min"] ?? unit)) === toMs("initial", initial);
}

interface Checked {
  readonly what: string;
  readonly named: Value;
  readonly comment: string;
  readonly initial: Value;
}

function members(name: string): Map<string, string> {
  const found = new Map<string, string>();
  const all = [...texts.values()].join("\n");
  const [, above, body = ""] =
    new RegExp(`interface ${name}\\b[^{]*?(?:extends ([^{]+))?\\{\\n([^]*?)^\\}`, "m").exec(all) ??
    [];
  for (const [parent] of (above ?? "").matchAll(/\w+(?=[ ,<])/g)) {
    for (const [field, comment] of members(parent)) found.set(field, comment);
  }
  const member = /^ {2}\/\*\*((?:(?!\*\/)[^])*)\*\/\n {2}readonly (\w+)\?:/gm;
  for (const [, comment = "", field = ""] of body.matchAll(member)) found.set(field, comment);
  return found;
}

function checked(): Checked[] {
  const found: Checked[] = [];
  for (const text of texts.values()) {
    for (const [, name = "", body = ""] of text.matchAll(
      /optionsOf<(\w+)[^(]*>\(\)\(\{\n?([^]*?)\}\);/g,
    )) {
      const documented = members(name);
      for (const [, field = "", entry = ""] of body.matchAll(
        /^ *(\w+): ([^]*?)(?=,?\s*(?:$(?![^]))|,\n {2}(?:\w|\.\.\.))/gm,
      )) {
        const comment = documented.get(field);
        if (comment === undefined) continue;
        const facts = { named: namedIn(comment), initial: initialOf(entry.trim(), text) };
        found.push({ what: `${name}.${field}`, comment: comment.trim(), ...facts });
      }
    }
  }
  return found;
}

suite("the defaults of options", () => {
  const all = checked();

  test("are found", () => {
    const both = all.filter(({ named, initial }) => named !== null && initial !== null);
    assert.ok(both.length > 50, `${both.length} of ${all.length}`);
  });

  test("are those that the comments name", () => {
    const wrong = all.filter(({ named, initial, comment }) => {
      if (initial === null) return false; // none, or it depends on other options
      return named === null ? !/default/i.test(comment) : !isSame(named, initial);
    });
    assert.deepEqual(wrong, []);
  });
});
