/** Runs the checks of all features and of the database, and applies their fixes. */
import type { OperatorEntry } from "../audit/entry.ts";
import { actOrLookUp, noteAction } from "../audit/store.ts";
import { invalid } from "../core/errors.ts";
import type { Check, CheckRecord, Finding, FixedRows, Fixing } from "../database/check.ts";
import type { Database } from "../database/database.ts";
import type { Engine, EngineKind } from "../database/engine.ts";

export type DoctorStore = Pick<SqlChecks, keyof SqlChecks>;

/** Checks of one part of the product. */
export interface CheckGroup {
  readonly about: string;
  readonly checks: readonly Check[];
}

interface Known {
  readonly check: Check;
  readonly record: CheckRecord;
}

export class SqlChecks {
  readonly #db: Database;
  readonly #engine: Engine;
  readonly #groups: readonly CheckGroup[];
  #known: Promise<ReadonlyMap<string, Known>> | null = null;

  constructor(db: Database, groups: readonly CheckGroup[]) {
    this.#db = db;
    this.#engine = db.engine;
    this.#groups = groups;
  }

  /** All checks, in the order of the report. */
  async list(): Promise<CheckRecord[]> {
    return [...(await this.#all()).values()].map(({ record }) => record);
  }

  /** Finds the rows that violate one rule, as of one moment. Null: there are none. Reads only, and takes no locks. */
  async examine(name: string, look: Examination): Promise<Finding | null> {
    const { check, record } = await this.#named(name);
    const { limit, deep = false, sinceAt = null } = look;
    const pushWorks = (): ReturnType<Database["pushWorks"]> => this.#db.pushWorks();
    // One more row shows whether there are more.
    const found = await check.find(this.#engine, { limit: limit + 1, deep, sinceAt, pushWorks });
    if (found.length === 0) return null;
    const { severity, problem, remedy, fixable } = record;
    const [offenders, more] = [found.slice(0, limit), found.length > limit];
    return { check: name, severity, problem, remedy, fixable, offenders, more };
  }

  /**
   * Fixes up to `limit` rows, each only if it still violates the rule, and writes a line into the operators' audit. Returns
   * what was fixed; call again when it is `limit`.
   */
  async fix(name: string, { limit, ...operator }: Fix): Promise<string[]> {
    const engine = this.#engine;
    const { fix } = (await this.#named(name)).check;
    if (fix === undefined) {
      throw invalid("check", `'${name}' has no safe fix.`);
    }
    const { subjects, queues } = await actOrLookUp<FixedRows>(
      this.#db,
      operator,
      () => fix(engine, { limit, sign: signing(engine, name, operator) }),
      async ({ detail }) => ({ ...(JSON.parse(detail ?? "{}") as FixedRows), queues: [] }),
    );
    for (const queue of queues) this.#db.announce({ kind: "pending", queue });
    if (subjects.length > 0) this.#db.announce({ kind: "waiting" });
    return [...subjects];
  }

  async #named(name: string): Promise<Known> {
    const all = await this.#all();
    const known = all.get(name);
    if (known !== undefined) return known;
    throw invalid("check", `unknown check '${name}'. Known: ${[...all.keys()].join(", ")}.`);
  }

  #all(): Promise<ReadonlyMap<string, Known>> {
    this.#known ??= knownOf(this.#groups, this.#engine.kind);
    return this.#known;
  }
}

async function knownOf(
  shared: readonly CheckGroup[],
  kind: EngineKind,
): Promise<ReadonlyMap<string, Known>> {
  const groups = [...shared, { about: "server", checks: await checksFor(kind) }];
  const known = groups.flatMap(({ about, checks }) =>
    checks.map((check): [string, Known] => {
      const { name, severity, problem, remedy, cost, fix } = check;
      const fixable = fix !== undefined;
      return [name, { check, record: { name, about, severity, problem, remedy, cost, fixable } }];
    }),
  );
  return new Map(known);
}

/** Loaded when the doctor first runs: a worker never needs them. */
async function checksFor(kind: EngineKind): Promise<readonly Check[]> {
  switch (kind) {
    case "sqlite":
      return (await import("./sqlite.ts")).checks;
    case "postgres":
      return (await import("./postgres.ts")).checks;
    case "mysql":
      return (await import("./mysql.ts")).checks;
  }
}

/** The audit line lists at most this many. */
const NOTED_MAX = 100;

/** Writes a fix's audit line; none if nothing was fixed. */
function signing(engine: Engine, check: string, operator: OperatorEntry): Fixing["sign"] {
  return async (tx, subjects) => {
    if (subjects.length === 0) return;
    const facts = { fixed: subjects.length, subjects: subjects.slice(0, NOTED_MAX) };
    const action = { action: "doctor.fix", subject: `check ${check}` };
    await noteAction(engine, tx, operator, { ...action, detail: JSON.stringify(facts) });
  };
}

interface Examination {
  readonly limit: number;
  /** Also examine what takes long. */
  readonly deep?: boolean;
  /** Checks of history skip older rows. */
  readonly sinceAt?: number | null;
}

interface Fix extends OperatorEntry {
  readonly limit: number;
}
