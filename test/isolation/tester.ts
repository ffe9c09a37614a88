/** PostgreSQL's isolationtester: writes its specs, runs it, and reads what it prints. */
import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { urlOf } from "../support/servers.ts";
import type { Picture } from "./stage.ts";

/** A step of the tester that did not end by then hangs for ever. */
const STEP_S_MAX = 60;

/** What one permutation left behind. */
export interface Facts {
  /** What each call of the product told its caller, in turn. */
  readonly told: Readonly<Record<string, readonly unknown[]>>;
  /** How many gates each actor passed. */
  readonly gates: Readonly<Record<string, number>>;
  /** Every row that entered a state, in order. */
  readonly entries: readonly Readonly<Record<string, unknown>>[];
  readonly tables: Picture;
}

export interface Played {
  readonly permutation: string;
  readonly errors: readonly string[];
  readonly facts: Facts;
}

/**
 * Every order in which the pieces of the actors can follow one another. The first piece of actor `a` is its step `a`, and
 * what opens its gates one by one are `a_1`, `a_2` …: it stops at the next one, or at a row that another has locked.
 */
export function permutations(pieces: Readonly<Record<string, number>>): string[][] {
  const left = Object.entries(pieces).filter(([, count]) => count > 0);
  if (left.length === 0) return [[]];
  return left.flatMap(([actor, count]) =>
    permutations({ ...pieces, [actor]: count - 1 }).map((before) => [
      ...before,
      count === 1 ? actor : `${actor}_${count - 1}`,
    ]),
  );
}

/** How many there must be: n! / (a! b! …). */
export function countOf(pieces: Readonly<Record<string, number>>): number {
  let placed = 0;
  let count = 1;
  for (const each of Object.values(pieces)) {
    for (let nth = 1; nth <= each; nth += 1) {
      placed += 1;
      count = (count * placed) / nth;
    }
  }
  return count;
}

/** Nothing but calls: the tester's own syntax cannot say what contains a brace. */
export function specOf(
  pieces: Readonly<Record<string, number>>,
  orders: readonly (readonly string[])[],
): string {
  const actors = Object.entries(pieces);
  const sessions = actors.map(
    ([actor], index) => `
session ${actor}
setup { set iso.actor = ${index + 1}; set iso.passed = 0; }
step ${actor} { call iso.play('${actor}'); }`,
  );
  const openings = actors.flatMap(([actor, count], index) =>
    Array.from(
      { length: count - 1 },
      (_, gate) => `step ${actor}_${gate + 1} { call iso.open(${index + 1}, ${gate + 1}); }`,
    ),
  );
  return `
setup { call iso.reset(); }
teardown { select iso.facts() as facts; }
${sessions.join("\n")}

session gates
setup { call iso.close(); }
${openings.join("\n")}

${orders.map((order) => `permutation ${order.join(" ")}`).join("\n")}
`;
}

export async function runTester(
  url: string,
  options: { spec: string; settings: string },
): Promise<Played[]> {
  const { hostname, port, username, password, pathname } = new URL(url);
  const tester = spawn(urlOf("isolationtester"), [`dbname=${pathname.slice(1)}`], {
    env: {
      ...process.env,
      PGHOST: hostname,
      PGPORT: port,
      PGUSER: decodeURIComponent(username),
      PGPASSWORD: decodeURIComponent(password),
      PGOPTIONS: options.settings,
      PGISOLATIONTIMEOUT: String(STEP_S_MAX),
    },
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    tester.on("error", reject);
    tester.on("close", resolve);
  });
  tester.stdin.end(options.spec);
  const [printed, complaint, code] = await Promise.all([
    text(tester.stdout),
    text(tester.stderr),
    ended,
  ]);
  if (code !== 0 || complaint !== "") {
    throw new Error(`isolationtester ended with ${code}: ${complaint}\n${printed.slice(-2_000)}`);
  }
  return readPlayed(printed);
}

function readPlayed(printed: string): Played[] {
  const [, ...parts] = printed.split(/^starting permutation: /m);
  return parts.map((part) => {
    const facts = /^\{.*\}$/m.exec(part);
    if (facts === null) throw new Error(`No facts in: ${part}`);
    return {
      permutation: part.slice(0, part.indexOf("\n")).trim(),
      errors: part.match(/(?:ERROR|FATAL|PANIC): .*/g) ?? [],
      facts: JSON.parse(facts[0]) as Facts,
    };
  });
}
