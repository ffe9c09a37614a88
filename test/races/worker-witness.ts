/**
 * Preloaded into every thread of a worker process: notes down each write about a claimed job, with
 * what was offered and what the store accepted. So a test can prove that a write was attempted.
 *
 * It can also plant a bug: a statement whose fence lets everybody through.
 */
import { appendFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";
import type { Fence } from "../../src/core/job.ts";
import { SqlJobs } from "../../src/jobs/sql-jobs.ts";

import { HotStatements } from "../../src/jobs/sqlite.ts";
import { statements } from "../../src/jobs/sqlite-statements.ts";
import { codeOf } from "../worker/observe.ts";

export interface Write {
  readonly verb: "settle" | "extend" | "release";
  readonly thread: "main" | "keeper";
  readonly offered: readonly Fence[];
  readonly accepted: readonly Fence[];
  /** The write got past the fence, if there is one, and failed then. */
  readonly error: string | null;
}

const journal = process.env["WITNESS_JOURNAL"] ?? "";
const plant = process.env["WITNESS_PLANT"] ?? "";

type Settling = readonly Fence[];

async function note<T>(
  verb: Write["verb"],
  offered: Settling,
  write: Promise<T>,
  acceptedOf: (answer: T) => Settling,
): Promise<T> {
  try {
    const answer = await write;
    append({ verb, offered, accepted: acceptedOf(answer), error: null });
    return answer;
  } catch (error) {
    append({ verb, offered, accepted: [], error: codeOf(error) });
    throw error;
  }
}

function append(write: Omit<Write, "thread">): void {
  if (write.offered.length === 0) return;
  const thread = isMainThread ? "main" : "keeper";
  const [offered, accepted] = [write.offered.map(bare), write.accepted.map(bare)];
  const line = JSON.stringify({ ...write, thread, offered, accepted } satisfies Write);
  appendFileSync(journal, `${line}\n`);
}

function bare({ id, worker, epoch }: Fence): Fence {
  return { id, worker, epoch };
}

function watchStore({ prototype }: typeof SqlJobs): void {
  // oxlint-disable-next-line typescript/unbound-method -- they are called on a store below
  const { settle, settleAndClaim, release } = prototype;
  const all = (accepted: Settling): Settling => accepted;
  prototype.settle = function (this: SqlJobs, settlements) {
    return note("settle", settlements, settle.call(this, settlements), all);
  };
  prototype.settleAndClaim = function (this: SqlJobs, settlements, wanted) {
    const turn = settleAndClaim.call(this, settlements, wanted);
    return note("settle", settlements, turn, ({ settled }) => settled);
  };
  prototype.release = function (this: SqlJobs, fences) {
    return note("release", fences, release.call(this, fences), all);
  };
}

/** The keeper's thread has no whole store: it asks the engine. */
function watchEngine({ prototype }: typeof HotStatements): void {
  // oxlint-disable-next-line typescript/unbound-method -- it is called on statements below
  const { extend } = prototype;
  prototype.extend = function (this: HotStatements, ...given) {
    const extended = extend.apply(this, given);
    void note("extend", given[0], Promise.resolve(extended), (accepted) => accepted);
    return extended;
  };
}

/** The same number of values, and every one of them is right. */
function removeFence(name: string): void {
  if (name !== "findLease" && name !== "extendLease") throw new Error(`No fence in '${name}'.`);
  const fenced = statements[name];
  const open = fenced
    .replace("locked_by = ?", "? is not null")
    .replace("epoch = ?", "? is not null");
  if (open.split("? is not null").length !== 3)
    throw new Error(`'${name}' has no fence to remove.`);
  statements[name] = open;
}

if (journal !== "") {
  watchStore(SqlJobs);
  watchEngine(HotStatements);
}
if (plant !== "") removeFence(plant);
