/** The verbs about the store's own tables: whether they are up to date, and whether what is in them is sound. */
import { InvalidArgument } from "../core/errors.ts";
import type { Finding } from "../core/finding.ts";
import { checksOf } from "./checks/all.ts";
import { signing, type Check, type Mended } from "./checks/check.ts";
import { refuseIncomplete } from "./copy-row.ts";
import type { CheckRecord, Examination, Findings, Fix } from "./findings.ts";
import { checkSchema, migrate, planMigration } from "./migrate.ts";
import { SqlTraces } from "./sql-traces.ts";
import type { Migrated, MigrationPlan } from "./store.ts";
import { actOrLookUp } from "./unknown.ts";

export class SqlFindings extends SqlTraces implements Findings {
  async migrate(): Promise<Migrated> {
    const migrated = await migrate(this.engine);
    await refuseIncomplete(this.engine);
    return migrated;
  }

  planMigration(): Promise<MigrationPlan> {
    return planMigration(this.engine);
  }

  async checkSchema(): Promise<void> {
    await checkSchema(this.engine);
    await refuseIncomplete(this.engine);
  }

  async checks(): Promise<CheckRecord[]> {
    return [...checksOf(this.engine).values()].map(({ record }) => record);
  }

  async examine(name: string, look: Examination): Promise<Finding | null> {
    const { check, record } = this.#named(name);
    const { limit, deep = false, sinceAt = null } = look;
    // One more than wanted tells whether there are more.
    const found = await check.find(this.engine, {
      limit: limit + 1,
      deep,
      sinceAt,
      pushWorks: () => this.pushWorks(),
    });
    if (found.length === 0) return null;
    const { severity, problem, remedy, fixable } = record;
    const offenders = found.slice(0, limit);
    return {
      check: name,
      severity,
      problem,
      remedy,
      fixable,
      offenders,
      more: found.length > limit,
    };
  }

  async fix(name: string, { limit, ...signature }: Fix): Promise<string[]> {
    const { engine } = this;
    const { fix } = this.#named(name).check;
    if (fix === undefined) {
      throw new InvalidArgument({
        field: "check",
        problem: `'${name}' has no remedy that is safe.`,
      });
    }
    const mend = (): Promise<Mended> =>
      fix(engine, { limit, sign: signing(engine, name, signature) });
    const { subjects, queues } = await actOrLookUp(engine, signature, mend, async ({ detail }) => ({
      ...(JSON.parse(detail ?? "{}") as Pick<Mended, "subjects">),
      queues: [],
    }));
    for (const queue of queues) this.announce({ kind: "pending", queue });
    if (subjects.length > 0) this.announce({ kind: "waiting" });
    return [...subjects];
  }

  #named(name: string): { check: Check; record: CheckRecord } {
    const checks = checksOf(this.engine);
    const known = checks.get(name);
    if (known !== undefined) return known;
    const problem = `there is no check '${name}'. There are: ${[...checks.keys()].join(", ")}.`;
    throw new InvalidArgument({ field: "check", problem });
  }
}
