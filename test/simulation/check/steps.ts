/** Steps: written only by the owner of the job, kept once they are done, and not made again. */
import type { Note, Recorded, StepCall } from "../history.ts";
import type { Change } from "../witness.ts";
import type { Evidence, Findings } from "./evidence.ts";
import type { Lives } from "./life.ts";

/** A step of a job; the tasks of the simulation use every name once. */
const stepKey = (job: string, name: string | null): string => `${job} ${name}`;

export interface Kept {
  /** When it was done, and with what. */
  doneTx: number | null;
  result: string | null;
  /** Since when it was begun, and by which attempt. */
  begun: { tx: number; at: number; epoch: number } | null;
}

export type Steps = Map<string, Kept>;

export function checkSteps(evidence: Evidence, lives: Lives, findings: Findings): Steps {
  const asked = askedSteps(evidence.history.calls);
  const steps: Steps = new Map();
  const written = new Map<string, number[]>();
  for (const change of evidence.changes) {
    if (change.tbl !== "step") continue;
    checkWrite(change, asked, findings);
    keep(steps, change, findings);
    const key = `${stepKey(change.id, change.name)} ${change.epoch} ${change.op === "delete" ? "dropped" : change.status}`;
    written.set(key, [...(written.get(key) ?? []), change.tx]);
  }
  for (const call of evidence.history.calls) {
    if (call.f === "step") checkTold(call, written, evidence, findings);
  }
  checkBodies(evidence.history.notes, { lives, steps, findings });
  return steps;
}

/** Who asked for which write of which step, and since when. */
interface Asked {
  readonly puts: Map<string, { epoch: number; worker: string; status: string; from: number }[]>;
  readonly others: Map<string, number>;
}

function askedSteps(calls: readonly Recorded[]): Asked {
  const asked: Asked = { puts: new Map(), others: new Map() };
  for (const call of calls) {
    if (call.f === "step") {
      const key = stepKey(call.fence.id, call.name);
      const { epoch, worker } = call.fence;
      const { status, from } = call;
      asked.puts.set(key, [...(asked.puts.get(key) ?? []), { epoch, worker, status, from }]);
    }
    // A person, or a reopening, changes steps of jobs without an owner.
    if (call.f === "resolve")
      asked.others.set(call.job, Math.min(asked.others.get(call.job) ?? call.from, call.from));
    if (call.f === "retry")
      asked.others.set(call.id, Math.min(asked.others.get(call.id) ?? call.from, call.from));
  }
  return asked;
}

function checkWrite(change: Change, asked: Asked, findings: Findings): void {
  const { id, name, epoch, status, tx, op, lease_epoch: leaseEpoch, lease_by: leaseBy } = change;
  const what = `step '${name}' of ${id}, transaction ${tx}`;
  if (leaseEpoch === null) {
    const isOther = (asked.others.get(id) ?? Number.POSITIVE_INFINITY) < tx;
    return findings.expect(
      isOther,
      "I5 the fence",
      () => `${what}: written while the job had no owner`,
    );
  }
  if (op !== "delete" && epoch !== leaseEpoch) {
    findings.add("I5 the fence", `${what}: written at epoch ${epoch}, the job is at ${leaseEpoch}`);
  }
  const wanted = op === "delete" ? "dropped" : status;
  const isAsked = (asked.puts.get(stepKey(id, name)) ?? []).some(
    (put) =>
      put.epoch === leaseEpoch && put.worker === leaseBy && put.status === wanted && put.from < tx,
  );
  findings.expect(
    isAsked,
    "I5 the fence",
    () => `${what}: ${wanted} at epoch ${leaseEpoch}, which its owner did not ask for`,
  );
}

function keep(steps: Steps, change: Change, findings: Findings): void {
  const key = stepKey(change.id, change.name);
  const { tx, at, epoch, status, op, result } = change;
  const before = steps.get(key) ?? { doneTx: null, result: null, begun: null };
  if (before.doneTx !== null)
    findings.add("I11 steps", `step '${change.name}' of ${change.id} was done, and changed since`);
  if (op === "delete") return void steps.delete(key);
  const begun = before.begun ?? { tx, at, epoch: epoch ?? 0 };
  steps.set(key, {
    doneTx: status === "done" ? tx : null,
    result: status === "done" ? result : null,
    begun,
  });
}

/** A step whose write was acknowledged is there, written by that worker. */
function checkTold(
  call: StepCall,
  written: Map<string, number[]>,
  { coverage }: Evidence,
  findings: Findings,
): void {
  if (call.answer !== "ok") return;
  if (!call.told) return coverage.hit("refused: a step");
  if (call.op === "drop") return; // there may have been nothing to drop
  const key = `${stepKey(call.fence.id, call.name)} ${call.fence.epoch} ${call.status}`;
  const isThere = (written.get(key) ?? []).some(
    (tx) => tx <= (call.to ?? Number.POSITIVE_INFINITY),
  );
  findings.expect(
    isThere,
    "I5 the fence",
    () => `${call.who} was told that ${key} is written, and it is not`,
  );
}

/** A function does not run again in an attempt that was claimed after it was done. */
function checkBodies(
  notes: readonly Note[],
  { lives, steps, findings }: { lives: Lives; steps: Steps; findings: Findings },
): void {
  for (const note of notes) {
    const isMade = note.kind === "body begins" || note.kind === "act";
    if (!isMade) continue;
    const doneTx = steps.get(stepKey(note.job, note.name))?.doneTx ?? null;
    const claimed = lives.jobs.get(note.job)?.claimedAt.get(note.epoch);
    if (doneTx === null || claimed === undefined) continue;
    findings.expect(
      claimed.tx <= doneTx,
      "I11 steps",
      () => `'${note.name}' of ${note.job} was done, and made again at epoch ${note.epoch}`,
    );
  }
}

export { stepKey };
