/**
 * Checks rules that the database cannot enforce itself, or that manual changes may have broken.
 *
 * Each check is one query and independent: a check that the user is not permitted to run is reported as such, and the others
 * still run. Fixes use the operations that normally do the work, or check each row again first. Every fix writes an audit line.
 */
import { anyOperator, operatorFields, type OperatorOptions } from "../audit/entry.ts";
import type { AuditStore } from "../audit/store.ts";
import {
  ClosedError,
  invalid,
  OutcomeUnknownError,
  StoreUnavailableError,
} from "../core/errors.ts";
import { type CheckRecord, type Finding, severities, type Severity } from "../database/check.ts";
import { makeIds } from "../core/id.ts";
import { by, checkList, optionsOf, whole, yes } from "../core/options.ts";
import type { Runtime } from "../core/runtime.ts";
import type { DoctorStore } from "./store.ts";

/** Which checks to run, and how thorough they are. */
export interface ExamineOptions {
  /** Only these checks. Default: all that are not deep. */
  readonly checks?: readonly string[];
  /** Only checks that are cheap however much is stored, so they can run continuously. Default false. */
  readonly quick?: boolean;
  /** Also checks that take long. Default false. */
  readonly deep?: boolean;
  /** Maximum number of violations reported per check. Default 10. */
  readonly limit?: number;
  /** Skips history written before this time. */
  readonly since?: Date | number;
}

/** Which findings to fix, and who does it. */
export interface FixOptions extends OperatorOptions {
  /** Only these checks. Default: all that have a safe fix. */
  readonly checks?: readonly string[];
}

/** What an examination found. */
export interface Diagnosis {
  /** By the clock of this process. */
  readonly at: number;
  /** How long all checks took, in milliseconds. */
  readonly tookMs: number;
  /** Every check that ran. */
  readonly checks: readonly Checked[];
  /** The findings, most severe first. */
  readonly findings: readonly Finding[];
  /** No finding is worse than an info. */
  readonly healthy: boolean;
}

/** A check that was run: its outcome, and how long it took. */
export interface Checked extends CheckRecord {
  /** `failed`: the check itself could not run. */
  readonly outcome: "ok" | "found" | "failed";
  /** How long it took, in milliseconds. */
  readonly tookMs: number;
}

/** A check whose findings were fixed, and in which rows. */
export interface Fixed {
  /** The name of the check. */
  readonly check: string;
  /** What was fixed. */
  readonly subjects: readonly string[];
}

const LIMIT_MAX = 1_000;

const examineOptions = optionsOf<ExamineOptions>()({
  checks: by(checkList<string>),
  quick: yes(false),
  deep: yes(false),
  limit: whole(1, LIMIT_MAX, 10),
  since: by((_field, since: Date | number) => instantOf(since)),
});

const fixOptions = optionsOf<FixOptions>()({ checks: by(checkList<string>), ...operatorFields });

/** Rows fixed in one transaction, and the maximum number of transactions. */
const FIX_BATCH = 500;

const FIX_ROUNDS_MAX = 200;

/** The parts of Holdfast that the doctor needs. */
export interface DoctorTarget {
  /** @internal */
  readonly store: { readonly audit: AuditStore; readonly checks: DoctorStore };
  /** Its clock and timers. */
  readonly runtime: Runtime;
}

/** Checks a database for inconsistencies, and fixes what is safe to fix. */
export class Doctor {
  readonly #store: DoctorTarget["store"];
  readonly #runtime: Runtime;
  readonly #newId: () => string;

  constructor(target: DoctorTarget) {
    this.#store = target.store;
    this.#runtime = target.runtime;
    this.#newId = makeIds(target.runtime);
  }

  /** The available checks. */
  checks(): Promise<CheckRecord[]> {
    return this.#store.checks.list();
  }

  /** Runs the checks, and returns what they found. Changes nothing. */
  async examine(options: ExamineOptions = {}): Promise<Diagnosis> {
    const { checks, quick, deep, limit, since = null } = examineOptions.read(options);
    const look = { limit, deep, sinceAt: since };
    const startedAt = this.#runtime.monotonic();
    const made: { checked: Checked; finding: Finding | null }[] = [];
    for (const record of await this.#wanted({ checks, quick, deep }))
      made.push(await this.#check(record, look));
    const findings = made.flatMap(({ finding }) => finding ?? []).toSorted(worstFirst);
    return {
      at: this.#runtime.now(),
      tookMs: this.#runtime.monotonic() - startedAt,
      checks: made.map(({ checked }) => checked),
      findings,
      healthy: findings.every(({ severity }) => severity === "info"),
    };
  }

  /** The findings of the cheap checks, for the monitor. */
  async quick(): Promise<readonly Finding[]> {
    return (await this.examine({ quick: true })).findings;
  }

  /** Applies the safe fixes. Returns what was fixed, by check. */
  async fix(options: FixOptions = {}): Promise<Fixed[]> {
    const { checks, ...audited } = fixOptions.read(options);
    const wanted = await this.#wanted({ checks, quick: false, deep: false });
    const unfixable = checks === undefined ? undefined : wanted.find(({ fixable }) => !fixable);
    if (unfixable !== undefined) {
      throw invalid("checks", `'${unfixable.name}' has no safe fix. ${unfixable.remedy}`);
    }
    const fixed: Fixed[] = [];
    for (const { name } of wanted.filter(({ fixable }) => fixable)) {
      const subjects = await this.#fix(name, audited);
      if (subjects.length > 0) fixed.push({ check: name, subjects });
    }
    return fixed;
  }

  async #wanted(only: {
    readonly checks: readonly string[] | undefined;
    readonly quick: boolean;
    readonly deep: boolean;
  }): Promise<CheckRecord[]> {
    const all = await this.#store.checks.list();
    if (only.checks !== undefined) return named(all, only.checks);
    if (only.quick) return all.filter(({ cost }) => cost === "quick");
    return all.filter(({ cost }) => only.deep || cost !== "deep");
  }

  async #check(
    record: CheckRecord,
    look: { limit: number; deep: boolean; sinceAt: number | null },
  ): Promise<{ checked: Checked; finding: Finding | null }> {
    const startedAt = this.#runtime.monotonic();
    const ended = (outcome: Checked["outcome"]): Checked => ({
      ...record,
      outcome,
      tookMs: this.#runtime.monotonic() - startedAt,
    });
    try {
      const finding = await this.#store.checks.examine(record.name, look);
      return { checked: ended(finding === null ? "ok" : "found"), finding };
    } catch (error) {
      if (isAway(error)) await this.#store.audit.head(); // Throws if the database does not answer at all.
      return { checked: ended("failed"), finding: notMade(record.name, error) };
    }
  }

  async #fix(check: string, audited: OperatorOptions): Promise<string[]> {
    const subjects: string[] = [];
    for (let round = 0; round < FIX_ROUNDS_MAX; round += 1) {
      const operator = anyOperator(audited, this.#newId);
      const fixed = await this.#store.checks.fix(check, { ...operator, limit: FIX_BATCH });
      subjects.push(...fixed);
      if (fixed.length < FIX_BATCH) break;
    }
    return subjects;
  }
}

function named(all: readonly CheckRecord[], names: readonly string[]): CheckRecord[] {
  return names.map((name) => {
    const record = all.find((one) => one.name === name);
    if (record !== undefined) return record;
    const known = all.map((one) => one.name).join(", ");
    throw invalid("checks", `unknown check '${name}'. Known: ${known}.`);
  });
}

function instantOf(since: Date | number): number {
  const at = Number(since);
  if (Number.isFinite(at)) return at;
  throw invalid("since", "must be a date.");
}

function worstFirst(a: { severity: Severity }, b: { severity: Severity }): number {
  return severities.indexOf(b.severity) - severities.indexOf(a.severity);
}

/** Without a database there is nothing to check. */
function isAway(error: unknown): boolean {
  return (
    error instanceof StoreUnavailableError ||
    error instanceof OutcomeUnknownError ||
    error instanceof ClosedError
  );
}

function notMade(check: string, error: unknown): Finding {
  const why = error instanceof Error ? error.message : String(error);
  return {
    check,
    severity: "info",
    problem: `The check could not run: ${why}`,
    remedy:
      "Grant the database user the privileges to read this, or run the check as another user.",
    fixable: false,
    offenders: [],
    more: false,
  };
}
