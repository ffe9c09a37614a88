/**
 * The configuration: the value of every setting, where it came from, and all problems.
 *
 * Only the value in effect is checked. An overridden one does no harm and may be meant for another program, as `PORT` and
 * `DATABASE_URL` often are.
 */
import { resolve } from "node:path";
import { didYouMean } from "../core/text.ts";
import { ConfigInvalidError, type Problem, problemWith, type Setting } from "./kind.ts";
import {
  type Candidate,
  candidates,
  type ConfigFile,
  ENV_FILE,
  ENVIRONMENT,
  readSources,
  type Sources,
  type Surroundings,
  type Variables,
} from "./sources.ts";

export interface Origin {
  /** Null: the default. */
  readonly source: string | null;
  /** The setting's name in that source. */
  readonly name: string | null;
  /** Also given, but overridden. */
  readonly unused: readonly { readonly name: string; readonly source: string }[];
}

export type OriginsOf<Key extends string> = Readonly<Record<Key, Origin>>;

/** All settings of a program, and what depends on several of them. */
export interface SettingsTable<Key extends string, Values> {
  readonly settings: Readonly<Record<Key, Setting<unknown>>>;
  readonly choose: (given: (key: Key) => readonly Candidate[]) => Choice;
  /** `wrong` holds the invalid settings, which have been replaced by their defaults. */
  readonly crossCheck: (
    values: Values,
    origins: OriginsOf<Key>,
    wrong: ReadonlySet<Key>,
  ) => Problem[];
}

/** The outcome of a choice between settings that exclude each other. */
export interface Choice {
  /** The candidates to use instead of the given ones. */
  readonly used: ReadonlyMap<string, readonly Candidate[]>;
  readonly problems: readonly Problem[];
}

export interface ConfigOf<Key extends string, Values> {
  /** Invalid values are replaced by the default. */
  readonly settings: Values;
  readonly origins: OriginsOf<Key>;
  readonly problems: readonly Problem[];
}

export async function loadConfig<Key extends string, Values>(
  table: SettingsTable<Key, Values>,
  surroundings: Surroundings,
): Promise<ConfigOf<Key, Values>> {
  const { value: sources, problems } = await readSources(surroundings);
  const config = resolveConfig(table, sources);
  return { ...config, problems: [...problems, ...config.problems] };
}

/** Throws ConfigInvalidError, which lists every problem. */
export function settingsOf<Values>({ settings, problems }: ConfigOf<string, Values>): Values {
  if (problems.length > 0) throw new ConfigInvalidError(problems);
  return settings;
}

/** Whether any source sets it. */
export function isGiven<Key extends string>(
  { origins }: ConfigOf<Key, unknown>,
  key: NoInfer<Key>,
): boolean {
  return origins[key].source !== null;
}

export function resolveConfig<Key extends string, Values>(
  { settings: table, choose, crossCheck }: SettingsTable<Key, Values>,
  sources: Sources,
): ConfigOf<Key, Values> {
  const keys = Object.keys(table) as Key[];
  const given = (key: Key): Candidate[] => candidates(key, table[key], sources);
  const choice = choose(given);
  const problems: Problem[] = [];
  const wrong = new Set<Key>();
  const values: Partial<Record<Key, unknown>> = {};
  const origins: Partial<Record<Key, Origin>> = {};
  for (const key of keys) {
    const all = choice.used.get(key) ?? given(key);
    const { value, problem } = readSetting(table[key], all[0], sources);
    values[key] = value;
    origins[key] = originOf(all);
    if (problem === null) continue;
    problems.push(problem);
    wrong.add(key);
  }
  const settings = values as Values;
  const conflicts = crossCheck(settings, origins as OriginsOf<Key>, wrong);
  const unknown = findUnknownKeys(Object.values(table), sources);
  return {
    settings,
    origins: origins as OriginsOf<Key>,
    problems: [...problems, ...choice.problems, ...conflicts, ...unknown],
  };
}

function readSetting(
  setting: Setting<unknown>,
  candidate: Candidate | undefined,
  sources: Sources,
): { value: unknown; problem: Problem | null } {
  const { kind, initial } = setting;
  if (candidate === undefined) return { value: initial, problem: null };
  const { given, name, source } = candidate;
  const value = kind.read(given);
  if (value !== null) return { value: inPlace(setting, value, candidate, sources), problem: null };
  const problem = `must be ${kind.allowed}.`;
  return { value: initial, problem: { name, source, given: kind.show(given), problem } };
}

/** A path in the config file is relative to that file. */
function inPlace(
  { isPath }: Setting<unknown>,
  value: unknown,
  { source }: Candidate,
  { file }: Sources,
): unknown {
  if (isPath !== true || file === null || source !== file.name) return value;
  return resolve(file.folder, value as string);
}

function originOf([first, ...others]: readonly Candidate[]): Origin {
  return {
    source: first?.source ?? null,
    name: first?.name ?? null,
    unused: others.map(({ name, source }) => ({ name, source })),
  };
}

// Finds unknown names: a misspelt setting that is silently ignored takes a day to find.

const OURS = "HOLDFAST_";

/** Variables of the tests, and between the processes of one command. */
const BETWEEN_US = /^HOLDFAST_(?:TEST_|CHILD$)/;
const DEPTH_MAX = 4;

function findUnknownKeys(
  settings: readonly Setting<unknown>[],
  { env, envFile, file }: Sources,
): Problem[] {
  const variables = settings.flatMap((each) => each.env);
  const paths = settings.flatMap((each) => each.file ?? []);
  return [
    ...inVariables(env, ENVIRONMENT, variables),
    ...inVariables(envFile, ENV_FILE, variables),
    ...(file === null ? [] : inFile(file, paths)),
  ];
}

function inVariables(given: Variables, source: string, known: readonly string[]): Problem[] {
  return Object.keys(given)
    .filter((name) => name.startsWith(OURS) && !BETWEEN_US.test(name) && !known.includes(name))
    .map((name) => problemWith(name, `unknown setting.${didYouMean(name, known)}`, source));
}

function inFile({ name: source, values }: ConfigFile, paths: readonly string[]): Problem[] {
  const branches = new Set(paths.flatMap((path) => branchesOf(path)));
  const unknown = (path: string, problem: string): Problem => problemWith(path, problem, source);
  const look = (within: object, above: string, depth: number): Problem[] => {
    if (!isPlainObject(within)) {
      return [unknown(above === "" ? "default" : above, "must be a plain object.")];
    }
    return Object.keys(within).flatMap((part) => {
      const path = above === "" ? part : `${above}.${part}`;
      if (DANGEROUS.has(part)) return [unknown(path, "this key is not allowed.")];
      if (paths.includes(path)) return [];
      if (!branches.has(path)) {
        return [unknown(path, `unknown setting.${didYouMean(path, paths)}`)];
      }
      const value = (within as Record<string, unknown>)[part];
      if (typeof value === "object" && value !== null && depth < DEPTH_MAX) {
        return look(value, path, depth + 1);
      }
      return value === undefined ? [] : [unknown(path, "must be an object.")];
    });
  };
  return look(values as object, "", 0);
}

/** Copying an object with such a key can change the prototype of all objects. */
const DANGEROUS = new Set(["__proto__", "constructor", "prototype"]);

function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/** `retention`, of `retention.done`. */
function branchesOf(path: string): string[] {
  const parts = path.split(".");
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join("."));
}
