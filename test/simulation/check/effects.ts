/** What jobs did to the world, and what they came to. */
import type { EmitCall, Note } from "../history.ts";
import type { Change } from "../witness.ts";
import type { Evidence, Findings } from "./evidence.ts";
import type { Lives } from "./life.ts";
import { stepKey, type Steps } from "./steps.ts";

export function checkEffects(
  evidence: Evidence,
  lives: Lives,
  steps: Steps,
  findings: Findings,
): void {
  checkShipments(evidence.changes, evidence, findings);
  checkCharges(evidence, lives, findings);
  checkVerified(evidence, findings);
  checkCalled(evidence, findings);
  checkSleeps(evidence.history.notes, steps, findings);
  checkResults(evidence, steps, findings);
}

/** Rows of a commit are there once, with its step, while the job was owned by the worker that wrote them. */
function checkShipments(
  changes: readonly Change[],
  { tables }: Evidence,
  findings: Findings,
): void {
  const shipped = new Map<string, number>();
  const booked = new Set(
    changes
      .filter(({ tbl, name, status }) => tbl === "step" && name === "book" && status === "done")
      .map(({ tx, id }) => `${tx} ${id}`),
  );
  for (const {
    tbl,
    id,
    epoch,
    worker,
    tx,
    lease_epoch: leaseEpoch,
    lease_by: leaseBy,
  } of changes) {
    if (tbl !== "shipment") continue;
    shipped.set(id, (shipped.get(id) ?? 0) + 1);
    findings.expect(
      epoch === leaseEpoch && worker === leaseBy,
      "I5 the fence",
      () => `a shipment of ${id} was written at epoch ${epoch}, the job is at ${leaseEpoch}`,
    );
    findings.expect(
      booked.has(`${tx} ${id}`),
      "I6 effects once",
      () => `a shipment of ${id} was written without its step`,
    );
  }
  const tasks = new Map(tables.job.map(({ id, task }) => [id, task]));
  for (const { id, status } of tables.finished) {
    const times = shipped.get(id) ?? 0;
    if (times > 1) findings.add("I6 effects once", `${id} was shipped ${times} times`);
    const ships = tasks.get(id) === "ship" || tasks.get(id) === "order";
    if (ships && status === "done" && times !== 1)
      findings.add("I6 effects once", `${id} is done and was shipped ${times} times`);
  }
}

/** One key for every job, whatever happens; asked for no more often than the job was claimed. */
function checkCharges({ history, tables }: Evidence, lives: Lives, findings: Findings): void {
  const keys = new Map<string, string[]>();
  for (const [key, { requests }] of history.charges) {
    const job = key.split("/")[0] ?? "";
    keys.set(job, [...(keys.get(job) ?? []), key]);
    const claims = lives.jobs.get(job)?.claims ?? 0;
    findings.expect(
      requests <= claims,
      "I6 effects once",
      () => `${key} was charged ${requests} times in ${claims} attempts`,
    );
  }
  for (const [job, of] of keys) {
    findings.expect(
      of.length === 1,
      "I6 effects once",
      () => `${job} was charged under ${of.length} keys`,
    );
  }
  const tasks = new Map(tables.job.map(({ id, task }) => [id, task]));
  for (const { id, status } of tables.finished) {
    const pays = ["pay", "trust", "order"].includes(tasks.get(id) ?? "");
    if (!pays || status !== "done") continue;
    findings.expect(keys.has(id), "I6 effects once", () => `${id} is done and was never charged`);
  }
}

/**
 * An effect that was begun before is not made again without asking: by the attempt itself, or by a person, who says that it
 * was not done.
 */
function checkVerified({ changes, history }: Evidence, findings: Findings): void {
  const begun = new Map<string, { tx: number; epoch: number }[]>();
  for (const { tbl, op, id, name, tx, epoch, status } of changes) {
    if (tbl !== "step" || name !== "charge") continue;
    if (op === "delete") begun.delete(id);
    else if (status === "begun")
      begun.set(id, [...(begun.get(id) ?? []), { tx, epoch: epoch ?? 0 }]);
  }
  const verified = new Set<string>();
  for (const { kind, job, epoch, tx, value } of history.notes) {
    if (kind === "verify" && value === null) verified.add(`${job} ${epoch}`);
    if (kind !== "act") continue;
    const isEarlier = (begun.get(job) ?? []).some((one) => one.epoch < epoch && one.tx <= tx);
    if (!isEarlier) continue;
    findings.expect(
      verified.has(`${job} ${epoch}`),
      "I6 effects once",
      () =>
        `${job} was charged again at epoch ${epoch} and it was not verified whether it had been`,
    );
  }
}

/**
 * The function of a step is called only while its worker may take itself for the job's owner: its signal has not aborted, and
 * by its own clock the lease that it was last told of lasts.
 */
function checkCalled({ history, settings }: Evidence, findings: Findings): void {
  const leases = new Map<string, { readonly sentAt: number; readonly to: number }[]>();
  for (const call of history.calls) {
    const told = call.f === "settle" ? call.claimed : call.f === "extend" ? call.told : [];
    for (const { id, epoch } of told) {
      const key = `${id} ${epoch}`;
      const lease = { sentAt: call.sentAt, to: call.to ?? Number.POSITIVE_INFINITY };
      leases.set(key, [...(leases.get(key) ?? []), lease]);
    }
  }
  for (const { kind, job, epoch, name, tx, monotonicAt, value } of history.notes) {
    if (kind !== "called") continue;
    const holds = (leases.get(`${job} ${epoch}`) ?? []).some(
      ({ sentAt, to }) => to <= tx && monotonicAt < sentAt + settings.leaseMs,
    );
    findings.expect(
      holds && value === false,
      "I6 effects once",
      () =>
        `'${name}' of ${job} was called at epoch ${epoch} ` +
        (holds ? "with its signal aborted" : "when its lease could not be trusted any more"),
    );
  }
}

function checkSleeps(notes: readonly Note[], steps: Steps, findings: Findings): void {
  for (const { kind, job, name, at, value } of notes) {
    if (kind !== "slept") continue;
    const begun = steps.get(stepKey(job, name))?.begun;
    const isOver = begun !== null && begun !== undefined && at >= begun.at + Number(value);
    findings.expect(isOver, "I11 steps", () => `${job} slept for less than ${String(value)} ms`);
  }
}

interface Result {
  readonly kept?: readonly unknown[];
  readonly receipt?: unknown;
  readonly heard?: unknown;
  readonly child?: unknown;
}

/** A job that is done has the results that its steps kept. */
function checkResults({ tables, history }: Evidence, steps: Steps, findings: Findings): void {
  const jobs = new Map(tables.job.map((job) => [job.id, job]));
  const children = childrenOf(tables.job);
  const results = new Map(tables.finished.map(({ id, result }) => [id, result]));
  const emits = history.calls.filter((call): call is EmitCall => call.f === "emit");
  for (const { id, status, result } of tables.finished) {
    if (status !== "done" || result === null) continue;
    const job = jobs.get(id);
    const { kept = [], receipt, heard, child } = JSON.parse(result) as Result;
    const told = STEPS_OF[job?.task ?? ""] ?? [];
    const stored = told.map((name) => steps.get(stepKey(id, name))?.result ?? null);
    findings.expect(
      JSON.stringify(kept.map(asText)) === JSON.stringify(stored),
      "I11 steps",
      () => `${id} came to ${result}, its steps to ${stored.join(", ")}`,
    );
    if (receipt !== undefined) {
      const charged = [...history.charges].find(([key]) => key.startsWith(`${id}/`))?.[1].receipt;
      findings.expect(
        receipt === charged,
        "I6 effects once",
        () => `${id} has the receipt ${JSON.stringify(receipt)}, the bank ${charged}`,
      );
    }
    if (heard !== undefined) {
      const { n } = JSON.parse(job?.payload ?? "{}") as { n: number };
      checkHeard(
        id,
        heard,
        emits.filter(({ key }) => key === `order-${n}`),
        findings,
      );
    }
    if (child !== undefined) {
      const called = children.get(job?.payload ?? "") ?? [];
      const isOne = called.length === 1 && results.get(called[0] ?? "") === JSON.stringify(child);
      findings.expect(
        isOne,
        "I11 steps",
        () => `${id} called ${called.length} jobs, and came to ${result}`,
      );
    }
  }
  for (const [payload, called] of children) {
    findings.expect(
      called.length === 1,
      "I11 steps",
      () => `${called.length} jobs were called with ${payload}`,
    );
  }
}

/** Jobs that others called, by their input, which is the caller's own. */
function childrenOf(jobs: Evidence["tables"]["job"]): Map<string, string[]> {
  const children = new Map<string, string[]>();
  for (const { id, task, payload } of jobs) {
    if (task === "errand") children.set(payload, [...(children.get(payload) ?? []), id]);
  }
  return children;
}

function checkHeard(
  id: string,
  heard: unknown,
  emits: readonly EmitCall[],
  findings: Findings,
): void {
  const first = emits.find(({ told }) => told) ?? emits[0];
  const isFirst = JSON.stringify(heard) === first?.payload;
  findings.expect(
    isFirst,
    "I11 steps",
    () => `${id} heard ${JSON.stringify(heard)}, said was ${first?.payload}`,
  );
}

const STEPS_OF: Readonly<Record<string, readonly string[]>> = {
  steps: ["first", "second", "third"],
  beside: ["left", "right"],
  order: ["quote"],
};

function asText(value: unknown): string {
  return JSON.stringify(value);
}
