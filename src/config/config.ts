/**
 * The configuration: one value for every setting, where it came from, and everything that is wrong.
 *
 * Only the value that counts is checked. One that another hides does no harm, and may be somebody else's: `PORT` and `DATABASE_URL` are.
 */
import { resolve } from "node:path";
import { databaseOf } from "./database.ts";
import { ConfigInvalid, type Problem } from "./problem.ts";
import { checkTogether } from "./together.ts";
import { keys, settingOf, type Key, type Settings } from "./schema.ts";
import {
  candidates,
  readSources,
  type Candidate,
  type Sources,
  type Surroundings,
} from "./sources.ts";
import { findStrangers } from "./strangers.ts";

export interface Origin {
  /** Null: the default. */
  readonly source: string | null;
  /** What it is called there. */
  readonly name: string | null;
  /** Given as well, and hidden by what counts. */
  readonly unused: readonly { readonly name: string; readonly source: string }[];
}

export type Origins = Readonly<Record<Key, Origin>>;

export interface Config {
  /** What could be used; the default in place of what could not. */
  readonly settings: Settings;
  readonly origins: Origins;
  readonly problems: readonly Problem[];
}

export async function loadConfig(surroundings: Surroundings): Promise<Config> {
  const { value: sources, problems } = await readSources(surroundings);
  const config = resolveConfig(sources);
  return { ...config, problems: [...problems, ...config.problems] };
}

/** Throws ConfigInvalid, which names everything that is wrong. */
export function settingsOf({ settings, problems }: Config): Settings {
  if (problems.length > 0) throw new ConfigInvalid(problems);
  return settings;
}

/** Whether somebody said it, in whatever way. */
export function isGiven({ origins }: Config, key: Key): boolean {
  return origins[key].source !== null;
}

export function resolveConfig(sources: Sources): Config {
  const given = new Map(keys.map((key) => [key, candidates(key, sources)]));
  const { used, problems: ofDatabase } = databaseOf((key) => given.get(key) ?? []);
  const problems: Problem[] = [];
  const wrong = new Set<Key>();
  const settings: Partial<Record<Key, unknown>> = {};
  const origins: Partial<Record<Key, Origin>> = {};
  for (const key of keys) {
    const all = used.get(key) ?? given.get(key) ?? [];
    const { value, problem } = readSetting(key, all[0], sources);
    settings[key] = value;
    origins[key] = originOf(all);
    if (problem !== null) problems.push(problem);
    if (problem !== null) wrong.add(key);
  }
  const whole = settings as Settings;
  const together = checkTogether(whole, origins as Origins, wrong);
  return {
    settings: whole,
    origins: origins as Origins,
    problems: [...problems, ...ofDatabase, ...together, ...findStrangers(sources)],
  };
}

function readSetting(
  key: Key,
  candidate: Candidate | undefined,
  sources: Sources,
): { value: unknown; problem: Problem | null } {
  const { kind, initial } = settingOf(key);
  if (candidate === undefined) return { value: initial, problem: null };
  const { given, name, source } = candidate;
  const value = kind.read(given);
  if (value !== null) return { value: inPlace(key, value, candidate, sources), problem: null };
  const problem = `must be ${kind.allowed}.`;
  return { value: initial, problem: { name, source, given: kind.show(given), problem } };
}

/** A path in the file is relative to the file, as its author sees it. */
function inPlace(key: Key, value: unknown, { source }: Candidate, { file }: Sources): unknown {
  if (key !== "tasks" || file === null || source !== file.name) return value;
  return resolve(file.folder, value as string);
}

function originOf([first, ...others]: readonly Candidate[]): Origin {
  return {
    source: first?.source ?? null,
    name: first?.name ?? null,
    unused: others.map(({ name, source }) => ({ name, source })),
  };
}
