/**
 * Scripts of requests with their answers: `test/golden/<feature>.txt`.
 *
 * A line at the margin is a request: `$ holdfast locks --json`, or `GET /api/v1/locks` (`viewer POST … {"key":"a"}` for a
 * viewer). What is indented below it is the answer. Lines that begin with # are comments. To add a case, write its line and
 * record the answers: `RECORD=1 node --test test/golden/golden.test.ts`.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { hostname, userInfo } from "node:os";
import { libraryVersion } from "../../src/core/version.ts";
import type { Names } from "./fixture.ts";

/** A request with its answer, or a comment without one. */
export interface Step {
  readonly line: string;
  readonly answer: string;
}

const REQUEST = /^(?:\$ |(?:viewer )?(?:GET|POST) )/;

export function isRequest({ line }: Step): boolean {
  return REQUEST.test(line);
}

export function readScript(path: string): Step[] {
  const steps: { line: string; answer: string }[] = [];
  for (const line of readFileSync(path, "utf8").split("\n")) {
    const last = steps.at(-1);
    if (REQUEST.test(line) || line.startsWith("#")) steps.push({ line, answer: "" });
    else if (last !== undefined && /^(?: {2}|$)/.test(line)) last.answer += `${line.slice(2)}\n`;
    else throw new Error(`${path}: neither a request nor a comment: ${line}`);
  }
  return steps.map(({ line, answer }) => ({ line, answer: answer.trimEnd() }));
}

export function writeScript(path: string, steps: readonly Step[]): void {
  const blocks = steps.map(({ line, answer }) =>
    answer === "" ? line : `${line}\n${answer.replaceAll(/^(?=.)/gm, "  ")}`,
  );
  writeFileSync(path, `${blocks.join("\n\n")}\n`);
}

const INLINE_MAX = 118;

/** JSON with short values on one line, which a difference shows as one. */
export function shown(value: unknown, indent = ""): string {
  const inline = JSON.stringify(value);
  if (typeof value !== "object" || value === null) return inline;
  const isFlat = Array.isArray(value) && value.every((one) => typeof one === "number");
  if (isFlat || inline.length + indent.length <= INLINE_MAX) return inline;
  const deeper = `${indent} `;
  const members = Array.isArray(value)
    ? value.map((one) => deeper + shown(one, deeper))
    : Object.entries(value).map(
        ([name, one]) => `${deeper}${JSON.stringify(name)}: ${shown(one, deeper)}`,
      );
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return `${open}\n${members.join(",\n")}\n${indent}${close}`;
}

/** Without what another run, machine or version of Node changes. */
export function plain(text: string, names: Names, folder: string): string {
  let known = text
    .replaceAll(folder, "<folder>")
    .replaceAll(`cli ${userInfo().username}`, "cli ada")
    .replaceAll(`${hostname()}-${process.pid}`, "host-1")
    .replaceAll(`: "${libraryVersion()}"`, ': "<version>"')
    .replaceAll(`:"${libraryVersion()}"`, ':"<version>"')
    .replaceAll(/SQLite \d[\d.]+/g, "SQLite <version>");
  for (const [name, id] of Object.entries(names)) known = known.replaceAll(id, `{${name}}`);
  return known
    .replaceAll(/\b[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, "<id>")
    .replaceAll(/\bhft_[\w-]{43}\b/g, "<token>")
    .replaceAll(/\b[0-9a-f]{64}\b/g, "<hash>")
    .replaceAll(/[─-]{4,}/g, "----")
    .replaceAll(/(?:\\n\s+at [^"\\]*)+/g, "\\n <stack>")
    .replaceAll(/(?:^ +at .*\n)+/gm, " <stack>\n")
    .replaceAll(/… \d+ more with --json/g, "… <n> more with --json")
    .replaceAll(/(?<=\S) {2,}/g, "  ")
    .replaceAll(/^ {5,}/gm, "    ")
    .replaceAll(/ +$/gm, "");
}

/** The ids that `{failed}` in a line stands for; `{last}` is the first one of the answer before. */
export function withIds(line: string, names: Names): string {
  return line.replaceAll(/\{(\w+)\}/g, (whole, name: string) => names[name] ?? whole);
}

const DIFFERENCES_MAX = 20;
const SHOWN_CHARS = 160;

/** The first different line of each answer that is not as recorded, from shortly before the difference. */
export function differences(recorded: readonly Step[], answered: readonly Step[]): string {
  const found = recorded.flatMap(({ line, answer }, index) => {
    const now = answered[index]?.answer ?? "";
    if (now === answer) return [];
    const [was, is] = [answer.split("\n"), now.split("\n")];
    const at = was.findIndex((one, number) => one !== is[number]);
    const pair = [was[at] ?? "", is[at === -1 ? was.length : at] ?? ""] as const;
    const same = pair[0].split("").findIndex((letter, position) => letter !== pair[1][position]);
    const from = Math.max(0, same - SHOWN_CHARS / 4);
    const cut = (one: string): string => one.slice(from, from + SHOWN_CHARS);
    return [`${line}\n  was ${cut(pair[0])}\n  is  ${cut(pair[1])}`];
  });
  return found.slice(0, DIFFERENCES_MAX).join("\n");
}
