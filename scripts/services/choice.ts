/** Decides where each server comes from, and what to say about those that cannot be had. */
import { KNOWN, type Need, type ServerName } from "./names.ts";

/** What the tests of a run ask for. */
export interface Demand {
  /** Shared by all tests; a server that the environment names will do. */
  readonly shared: readonly Need[];
  /** Started and killed by the tests themselves: only the programs will do. */
  readonly own: readonly ServerName[];
}

export interface Missing {
  readonly need: Need;
  readonly reason: string;
}

/** What the environment names; an empty text names nothing. */
export function named(env: NodeJS.ProcessEnv, need: Need): string | null {
  const value = env[KNOWN[need].variable] ?? "";
  return value === "" ? null : value;
}

/** The needs that only programs on this machine can meet. */
export function needPrograms({ shared, own }: Demand, env: NodeJS.ProcessEnv): Need[] {
  return [...new Set([...shared.filter((need) => named(env, need) === null), ...own])];
}

/** The loud words about what is not tested. */
export function notTested(missing: readonly Missing[]): string {
  const line = "*".repeat(80);
  const parts = missing.map(
    ({ need, reason }) =>
      `NOT TESTED: everything that needs ${KNOWN[need].label}, because\n  ${reason}`,
  );
  return `\n${line}\n${parts.join("\n")}\n${line}\n`;
}

/** On a build machine, nothing may be left out. */
export function inCi(env: NodeJS.ProcessEnv): boolean {
  return env["CI"] === "true";
}
