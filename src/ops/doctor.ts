/**
 * Asks the database whether every rule holds that it cannot enforce itself, or that somebody may have broken by hand.
 *
 * Each check is one question and stands alone: one that cannot be asked, for want of rights, is told as such, and the others
 * are asked all the same. What is mended is mended by the verbs that would have done it, or only after asking once more
 * whether it still is wrong, and every time there is a line in the audit.
 */
import { checkKnown, checkList, checkWhole } from "../core/check.ts";
import { Closed, InvalidArgument, OutcomeUnknown, StoreUnavailable } from "../core/errors.ts";
import type { Finding, Severity } from "../core/finding.ts";
import { severities } from "../core/finding.ts";
import { makeIds } from "../core/id.ts";
import type { Runtime } from "../core/runtime.ts";
import { anyOperator, OPERATOR_OPTIONS, type ByOperator } from "../queue/signature.ts";
import type { CheckRecord } from "../store/findings.ts";
import type { Store } from "../store/store.ts";

export interface ExamineOptions {
  /** Only these. Default: all that are not deep. */
  readonly checks?: readonly string[];
  /** Only those that cost little, whatever is stored: fit to be asked all the time. */
  readonly quick?: boolean;
  /** Also those that take long. */
  readonly deep?: boolean;
  /** How many offenders of each are told, at most. Default 10. */
  readonly limit?: number;
  /** What was written into history before this is left alone. */
  readonly since?: Date | number;
}

export interface FixOptions extends ByOperator {
  /** Only these. Default: all that have a remedy which is safe. */
  readonly checks?: readonly string[];
}

export interface Diagnosis {
  /** By the clock of this process. */
  readonly at: number;
  readonly tookMs: number;
  /** Every check that was made. */
  readonly checks: readonly Checked[];
  /** What they found, the worst first. */
  readonly findings: readonly Finding[];
  /** Nothing was found that is worse than an info. */
  readonly healthy: boolean;
}

export interface Checked extends CheckRecord {
  /** Whether it found something, or could not be made. */
  readonly outcome: "ok" | "found" | "failed";
  readonly tookMs: number;
}

export interface Fixed {
  readonly check: string;
  /** Those that were mended. */
  readonly subjects: readonly string[];
}

const EXAMINE_OPTIONS = new Set(["checks", "quick", "deep", "limit", "since"]);
const FIX_OPTIONS = new Set<string>(["checks", ...OPERATOR_OPTIONS]);
const LIMIT_DEFAULT = 10;
const LIMIT_MAX = 1_000;
/** Mended in one transaction, and how many of these there are at most. */
const FIX_BATCH = 500;
const FIX_ROUNDS_MAX = 200;

/** As much of Holdfast as a doctor needs. */
export interface Patient {
  readonly store: Store;
  readonly runtime: Runtime;
}

export class Doctor {
  readonly #store: Store;
  readonly #runtime: Runtime;
  readonly #newId: () => string;

  constructor({ store, runtime }: Patient) {
    this.#store = store;
    this.#runtime = runtime;
    this.#newId = makeIds(runtime);
  }

  /** What can be looked for. */
  checks(): Promise<CheckRecord[]> {
    return this.#store.checks();
  }

  async examine(options: ExamineOptions = {}): Promise<Diagnosis> {
    checkKnown(options, EXAMINE_OPTIONS);
    const { checks, quick = false, deep = false, limit = LIMIT_DEFAULT, since } = options;
    checkWhole("limit", limit, { least: 1, most: LIMIT_MAX });
    const look = { limit, deep, sinceAt: since === undefined ? null : instantOf(since) };
    const startedAt = this.#runtime.monotonic();
    const made: { checked: Checked; finding: Finding | null }[] = [];
    for (const record of await this.#wanted({ checks, quick, deep })) {
      made.push(await this.#check(record, look));
    }
    const findings = made.flatMap(({ finding }) => finding ?? []).toSorted(worstFirst);
    return {
      at: this.#runtime.now(),
      tookMs: this.#runtime.monotonic() - startedAt,
      checks: made.map(({ checked }) => checked),
      findings,
      healthy: findings.every(({ severity }) => severity === "info"),
    };
  }

  /** What the checks find that cost little: for whoever looks all the time. */
  async quick(): Promise<readonly Finding[]> {
    return (await this.examine({ quick: true })).findings;
  }

  /** Mends what can be mended without anybody's judgement. Returns what was, by check. */
  async fix(options: FixOptions = {}): Promise<Fixed[]> {
    checkKnown(options, FIX_OPTIONS);
    const { checks, ...by } = options;
    const wanted = await this.#wanted({ checks, quick: false, deep: false });
    const hopeless = checks === undefined ? undefined : wanted.find(({ fixable }) => !fixable);
    if (hopeless !== undefined) {
      const problem = `'${hopeless.name}' has no remedy that is safe. ${hopeless.remedy}`;
      throw new InvalidArgument({ field: "checks", problem });
    }
    const fixed: Fixed[] = [];
    for (const { name } of wanted.filter(({ fixable }) => fixable)) {
      const subjects = await this.#mend(name, by);
      if (subjects.length > 0) fixed.push({ check: name, subjects });
    }
    return fixed;
  }

  async #wanted(only: {
    readonly checks: readonly string[] | undefined;
    readonly quick: boolean;
    readonly deep: boolean;
  }): Promise<CheckRecord[]> {
    const all = await this.#store.checks();
    if (only.checks !== undefined) return named(all, checkList("checks", only.checks));
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
      const finding = await this.#store.examine(record.name, look);
      return { checked: ended(finding === null ? "ok" : "found"), finding };
    } catch (error) {
      if (isAway(error)) await this.#store.auditHead(); // throws, if it does not answer at all
      return { checked: ended("failed"), finding: notMade(record.name, error) };
    }
  }

  async #mend(check: string, by: ByOperator): Promise<string[]> {
    const subjects: string[] = [];
    for (let round = 0; round < FIX_ROUNDS_MAX; round += 1) {
      const signature = anyOperator(by, this.#newId);
      const mended = await this.#store.fix(check, { ...signature, limit: FIX_BATCH });
      subjects.push(...mended);
      if (mended.length < FIX_BATCH) break;
    }
    return subjects;
  }
}

function named(all: readonly CheckRecord[], names: readonly string[]): CheckRecord[] {
  return names.map((name) => {
    const record = all.find((one) => one.name === name);
    if (record !== undefined) return record;
    const known = all.map((one) => one.name).join(", ");
    const problem = `there is no check '${name}'. There are: ${known}.`;
    throw new InvalidArgument({ field: "checks", problem });
  });
}

function instantOf(since: Date | number): number {
  const at = Number(since);
  if (Number.isFinite(at)) return at;
  throw new InvalidArgument({ field: "since", problem: "give a date." });
}

function worstFirst(a: { severity: Severity }, b: { severity: Severity }): number {
  return severities.indexOf(b.severity) - severities.indexOf(a.severity);
}

/** Of a database that does not answer nothing can be said at all. */
function isAway(error: unknown): boolean {
  return (
    error instanceof StoreUnavailable || error instanceof OutcomeUnknown || error instanceof Closed
  );
}

function notMade(check: string, error: unknown): Finding {
  const why = error instanceof Error ? error.message : String(error);
  return {
    check,
    severity: "info",
    problem: `It could not be checked: ${why}`,
    remedy: "Give the database's user the rights to read this, or have it checked by one who may.",
    fixable: false,
    offenders: [],
    more: false,
  };
}
