/** Names that nobody knows: a misspelt setting that is silently ignored costs somebody a day. */
import { didYouMean } from "../core/did-you-mean.ts";
import type { Problem } from "./problem.ts";
import { keys, settingOf } from "./schema.ts";
import { ENV_FILE, ENVIRONMENT, type ConfigFile, type Sources, type Variables } from "./sources.ts";

const OURS = "HOLDFAST_";
/** What the tests and the processes of one command tell each other. */
const BETWEEN_US = /^HOLDFAST_(?:TEST_|CHILD$)/;
const DEPTH_MAX = 4;

const variables: readonly string[] = keys.flatMap((key) => settingOf(key).env);
const paths: readonly string[] = keys.flatMap((key) => settingOf(key).file ?? []);
const branches = new Set(paths.flatMap((path) => branchesOf(path)));

export function findStrangers({ env, envFile, file }: Sources): Problem[] {
  return [
    ...inVariables(env, ENVIRONMENT),
    ...inVariables(envFile, ENV_FILE),
    ...(file === null ? [] : inFile(file)),
  ];
}

function inVariables(given: Variables, source: string): Problem[] {
  return Object.keys(given)
    .filter((name) => name.startsWith(OURS) && !BETWEEN_US.test(name) && !variables.includes(name))
    .map((name) => ({
      name,
      source,
      given: null,
      problem: `there is no such setting.${didYouMean(name, variables)}`,
    }));
}

function inFile({ name: source, values }: ConfigFile): Problem[] {
  const unknown = (path: string, problem: string): Problem => ({
    name: path,
    source,
    given: null,
    problem,
  });
  const look = (within: object, above: string, depth: number): Problem[] => {
    if (!isPlainObject(within)) {
      return [unknown(above === "" ? "default" : above, "must be a plain object.")];
    }
    return Object.keys(within).flatMap((part) => {
      const path = above === "" ? part : `${above}.${part}`;
      if (DANGEROUS.has(part)) return [unknown(path, "an object must not have such a key.")];
      if (paths.includes(path)) return [];
      if (!branches.has(path)) {
        return [unknown(path, `there is no such setting.${didYouMean(path, paths)}`)];
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

/** Whoever copies an object with such a key changes all others. */
const DANGEROUS = new Set(["__proto__", "constructor", "prototype"]);

function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/** `keep`, of `keep.done`. */
function branchesOf(path: string): string[] {
  const parts = path.split(".");
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join("."));
}
