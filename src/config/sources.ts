/** Where settings come from: the command line, the environment, `.env`, `holdfast.config.ts`. What is named first counts. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseEnv } from "node:util";
import { envFileFaults } from "./env-file.ts";
import { shown } from "./kind.ts";
import { masked } from "./masking.ts";
import { COMMAND_LINE, type Problem } from "./problem.ts";
import { schema, type Key } from "./schema.ts";

export const ENVIRONMENT = "environment";
export const ENV_FILE = ".env";

/** In the order in which they are looked for. */
const FILES = [
  "holdfast.config.ts",
  "holdfast.config.mts",
  "holdfast.config.js",
  "holdfast.config.mjs",
];
const ENV_FILE_BYTES_MAX = 256 * 1_024;

export type Variables = Readonly<Record<string, string | undefined>>;
export type Flags = Readonly<Partial<Record<Key, unknown>>>;

export interface Sources {
  /** By the names of the schema. */
  readonly flags: Flags;
  readonly env: Variables;
  readonly envFile: Variables;
  readonly file: ConfigFile | null;
}

export interface ConfigFile {
  /** As messages call it. */
  readonly name: string;
  /** What paths in it are relative to. */
  readonly folder: string;
  readonly values: unknown;
}

export interface Read<Value> {
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

/** Node's own reader: quotes, comments and `export`, and nothing is put in place of `$NAME`. What it would leave out is said. */
export function readEnvFile(folder: string): Read<Variables> {
  const path = resolve(folder, ENV_FILE);
  try {
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats === undefined || !stats.isFile()) return { value: {}, problems: [] };
    if (stats.size > ENV_FILE_BYTES_MAX) {
      return unreadable(`it has ${stats.size} bytes; at most ${ENV_FILE_BYTES_MAX} are read.`);
    }
    // Some editors mark a file as UTF-8, and Node takes the mark for a part of the first name.
    const text = readFileSync(path, "utf8").replace(/^\uFEFF/, "");
    return { value: parseEnv(text), problems: envFileFaults(text).map(envFileProblem) };
  } catch (error) {
    return unreadable(`it could not be read: ${wordsOf(error)}`);
  }
}

function unreadable(problem: string): Read<Variables> {
  return { value: {}, problems: [envFileProblem(problem)] };
}

function envFileProblem(problem: string): Problem {
  return { name: ENV_FILE, source: null, given: null, problem };
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
    return refused(name, `there is ${second} too, and only one can count. Remove one of them.`);
  }
  return importFile(name, resolve(folder, name));
}

/** Which file it is cannot stand in the file. */
function namedFile(flags: Flags, env: Variables, envFile: Variables): string | null {
  const [variable = ""] = schema.config.env;
  const given = [flags.config, env[variable], envFile[variable]];
  const named = given.find((each) => typeof each === "string" && each.trim() !== "");
  return typeof named === "string" ? named.trim() : null;
}

async function importFile(name: string, path: string): Promise<Read<ConfigFile | null>> {
  if (!existsSync(path)) return refused(name, "there is no such file.");
  try {
    const module = (await import(pathToFileURL(path).href)) as { readonly default?: unknown };
    const { default: values } = module;
    if (typeof values === "object" && values !== null && !Array.isArray(values)) {
      return { value: { name, folder: dirname(path), values }, problems: [] };
    }
    const what = values === undefined ? "nothing" : shown(values);
    return refused(
      name,
      `write 'export default defineConfig({ … })'; its default export is ${what}.`,
    );
  } catch (error) {
    return refused(name, `it could not be loaded: ${wordsOf(error)}`);
  }
}

function refused(name: string, problem: string): Read<null> {
  return { value: null, problems: [{ name, source: null, given: null, problem }] };
}

function wordsOf(error: unknown): string {
  return masked(error instanceof Error ? `${error.name}: ${error.message}` : String(error));
}

/** One value that somebody gave, and where. */
export interface Candidate {
  readonly given: unknown;
  readonly name: string;
  readonly source: string;
  /** The smaller the more it counts. */
  readonly rank: number;
}

/** All that was given for a setting, what counts first. */
export function candidates(key: Key, sources: Sources): Candidate[] {
  const { flag, env, file, emptyCounts } = schema[key] as (typeof schema)["mysqlPassword"];
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

/** Never what an object inherits. */
function ownValue(within: unknown, part: string): unknown {
  if (typeof within !== "object" || within === null || !Object.hasOwn(within, part))
    return undefined;
  return (within as Record<string, unknown>)[part];
}
