/** The sources of settings in order of precedence: the command line, the environment, `.env`, `holdfast.config.ts`. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseEnv } from "node:util";
import {
  COMMAND_LINE,
  modulePath,
  type Problem,
  problemWith,
  type Setting,
  setting,
  shown,
} from "./kind.ts";
import { installHint } from "../core/text.ts";
import { redacted } from "./secrets.ts";

export const ENVIRONMENT = "environment";
export const ENV_FILE = ".env";

/** In the order in which they are tried. */
const FILES = [
  "holdfast.config.ts",
  "holdfast.config.mts",
  "holdfast.config.js",
  "holdfast.config.mjs",
];

/** The file cannot name itself. */
export const fileSettings = {
  config: setting({
    group: "Process",
    env: ["HOLDFAST_CONFIG"],
    flag: "--config <file>",
    file: null,
    kind: modulePath(),
    initial: null,
    about: "The configuration file (default: holdfast.config.ts, .mts, .js or .mjs, if present).",
  }),
};

const ENV_FILE_BYTES_MAX = 256 * 1_024;

export type Variables = Readonly<Record<string, string | undefined>>;

/** Values of the command line, by the key of their setting. */
export type Flags = Readonly<Record<string, unknown>>;

export interface Sources {
  readonly flags: Flags;
  readonly env: Variables;
  readonly envFile: Variables;
  readonly file: ConfigFile | null;
}

export interface ConfigFile {
  /** The file's name in messages. */
  readonly name: string;
  /** Paths in the file are relative to this folder. */
  readonly folder: string;
  readonly values: unknown;
}

interface Read<Value> {
  readonly value: Value;
  readonly problems: readonly Problem[];
}

export interface Surroundings {
  readonly folder: string;
  readonly env: Variables;
  readonly flags?: Flags;
}

export async function readSources({
  folder,
  env,
  flags = {},
}: Surroundings): Promise<Read<Sources>> {
  const envFile = readEnvFile(folder);
  const file = await readConfigFile(folder, { flags, env, envFile: envFile.value });
  return {
    value: { flags, env, envFile: envFile.value, file: file.value },
    problems: [...envFile.problems, ...file.problems],
  };
}

/** Uses Node's parser, which does not expand `$NAME`. What it would ignore is reported as a problem. */
export function readEnvFile(folder: string): Read<Variables> {
  const path = resolve(folder, ENV_FILE);
  try {
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats === undefined || !stats.isFile()) return { value: {}, problems: [] };
    if (stats.size > ENV_FILE_BYTES_MAX) {
      return unreadable(`the file has ${stats.size} bytes; the limit is ${ENV_FILE_BYTES_MAX}.`);
    }
    // Some editors write a byte order mark, which Node reads as part of the first name.
    const text = readFileSync(path, "utf8").replace(/^\uFEFF/, "");
    const problems = envFileFaults(text).map((fault) => problemWith(ENV_FILE, fault));
    return { value: parseEnv(text), problems };
  } catch (error) {
    return unreadable(`cannot be read. ${wordsOf(error)}`);
  }
}

function unreadable(problem: string): Read<Variables> {
  return { value: {}, problems: [problemWith(ENV_FILE, problem)] };
}

async function readConfigFile(
  folder: string,
  { flags, env, envFile }: Omit<Sources, "file">,
): Promise<Read<ConfigFile | null>> {
  const named = namedFile(flags, env, envFile);
  const found =
    named === null ? FILES.filter((each) => existsSync(resolve(folder, each))) : [named];
  const [name, second] = found;
  if (name === undefined) return { value: null, problems: [] };
  if (second !== undefined) {
    return refused(name, `${second} also exists. Keep only one of them.`);
  }
  return importFile(name, resolve(folder, name));
}

function namedFile(flags: Flags, env: Variables, envFile: Variables): string | null {
  const [variable = ""] = fileSettings.config.env;
  const given = [flags["config"], env[variable], envFile[variable]];
  const named = given.find((each) => typeof each === "string" && each.trim() !== "");
  return typeof named === "string" ? named.trim() : null;
}

async function importFile(name: string, path: string): Promise<Read<ConfigFile | null>> {
  if (!existsSync(path)) return refused(name, "file not found.");
  try {
    const { default: values } = (await import(pathToFileURL(path).href)) as { default?: unknown };
    if (typeof values === "object" && values !== null && !Array.isArray(values)) {
      return { value: { name, folder: dirname(path), values }, problems: [] };
    }
    const what = values === undefined ? "missing" : shown(values);
    const advice = "Write 'export default defineConfig({ … })'.";
    return refused(name, `its default export is ${what}. ${advice}`);
  } catch (error) {
    return refused(name, `cannot be loaded. ${wordsOf(error)}`);
  }
}

function refused(name: string, problem: string): Read<null> {
  return { value: null, problems: [problemWith(name, problem)] };
}

function wordsOf(error: unknown): string {
  const words = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return redacted(`${words}${installHint(words)}`);
}

/** A value from one source. */
export interface Candidate {
  readonly given: unknown;
  readonly name: string;
  readonly source: string;
  /** A lower rank takes precedence. */
  readonly rank: number;
}

/** All values given for a setting, in order of precedence. */
export function candidates(
  key: string,
  { flag, env, file, emptyCounts }: Setting<unknown>,
  sources: Sources,
): Candidate[] {
  const inVariables = (variables: Variables, source: string, rank: number): Candidate[] =>
    env.flatMap((name) => {
      const given = variables[name];
      if (given === undefined || (given.trim() === "" && emptyCounts !== true)) return [];
      return [{ given, name, source, rank }];
    });
  return [
    ...givenAs(sources.flags[key], { name: flagName(flag), source: COMMAND_LINE, rank: 0 }),
    ...inVariables(sources.env, ENVIRONMENT, 1),
    ...inVariables(sources.envFile, ENV_FILE, 2),
    ...inFile(file, sources.file),
  ];
}

function givenAs(given: unknown, from: Omit<Candidate, "given">): Candidate[] {
  return given === undefined ? [] : [{ given, ...from }];
}

/** `--url`, of `--url <url>`. */
export function flagName(flag: string | null): string {
  return flag?.split(" ")[0] ?? "";
}

function inFile(path: string | null, file: ConfigFile | null): Candidate[] {
  if (path === null || file === null) return [];
  const given = path
    .split(".")
    .reduce<unknown>((within, part) => ownValue(within, part), file.values);
  return givenAs(given, { name: path, source: file.name, rank: 3 });
}

/** Ignores inherited properties. */
function ownValue(within: unknown, part: string): unknown {
  if (typeof within !== "object" || within === null || !Object.hasOwn(within, part))
    return undefined;
  return (within as Record<string, unknown>)[part];
}

// Finds what Node's `.env` parser silently ignores: lines that set nothing, and text after a closing quote.
//
// A message never quotes the line: it may contain part of a secret.

const QUOTES = new Set(['"', "'", "`"]);
const NAME = /^(?:export +)?[\w.-]+$/;

/** Sentences, each with the number of its line. */
export function envFileFaults(text: string): string[] {
  const faults: string[] = [];
  let at = 0;
  let line = 1;
  while (at < text.length) {
    const end = endOfLine(text, at);
    const { fault, next } = readLine(text, at, end);
    if (fault !== null) faults.push(`line ${line} ${fault}`);
    line += text.slice(at, next).split("\n").length - 1;
    at = next;
  }
  return faults;
}

interface Reading {
  readonly fault: string | null;
  /** Where the next line begins: a quoted value may span several lines. */
  readonly next: number;
}

function readLine(text: string, at: number, end: number): Reading {
  const words = text.slice(at, end).trim();
  if (words === "" || words.startsWith("#")) return { fault: null, next: end + 1 };
  const equals = text.indexOf("=", at);
  if (equals === -1 || equals > end) {
    const fault = "has no '='. Write NAME=value, or start a comment with #.";
    return { fault, next: end + 1 };
  }
  if (!NAME.test(text.slice(at, equals).trim())) {
    const fault = "has no valid name before '='. Use letters, digits, '_', '.' and '-'.";
    return { fault, next: end + 1 };
  }
  return readValue(text, equals + 1, end);
}

function readValue(text: string, at: number, end: number): Reading {
  const value = text.slice(at, end).trimStart();
  const quote = value.charAt(0);
  if (!QUOTES.has(quote)) return { fault: null, next: end + 1 };
  const opening = text.indexOf(quote, at);
  const closing = text.indexOf(quote, opening + 1);
  if (closing === -1) return { fault: "has an opening quote but no closing one.", next: end + 1 };
  const lineEnd = endOfLine(text, closing);
  const rest = text.slice(closing + 1, lineEnd).trim();
  const fault =
    rest === "" || rest.startsWith("#")
      ? null
      : `has text after the closing quote, which would be ignored. If the value contains ${nameOf(quote)}, quote it with another character.`;
  return { fault, next: lineEnd + 1 };
}

function endOfLine(text: string, at: number): number {
  const end = text.indexOf("\n", at);
  return end === -1 ? text.length : end;
}

function nameOf(quote: string): string {
  return quote === '"' ? "a double quote" : quote === "'" ? "a single quote" : "a backtick";
}
