/**
 * The time of a job as shares of a width. Waits are far longer than work, so every stretch of time gets a width by its
 * logarithm, and long waits are folded: what happened stays readable whether it took a millisecond or a week.
 */
import type { Attempt, Job, Step } from "../api.gen.ts";

export interface Stretch {
  readonly from: number;
  readonly to: number;
  readonly kind:
    | "pending"
    | "running"
    | "waiting"
    | "retry"
    | "scheduled"
    | "done"
    | "failed"
    | "cancelled";
  /** Shares of the width. */
  readonly x: number;
  readonly width: number;
  readonly folded: boolean;
}

export interface Timeline {
  readonly stretches: readonly Stretch[];
  readonly from: number;
  readonly to: number;
  readonly share: (at: number) => number;
}

const FOLD_MS = 60_000;
const NOW_SHARE = 0.99;
const LEAST = 0.012;

type Part = Omit<Stretch, "x" | "width" | "folded">;

/** What state the job was in, from its enqueue until now or its end. */
function partsOf(job: Job, attempts: readonly Attempt[], now: number): Part[] {
  const end = job.finishedAt ?? now;
  const parts: Part[] = [];
  const sorted = attempts.toSorted((a, b) => a.startedAt - b.startedAt);
  const [first] = sorted;
  // What an attempt that is not known ended in, is not known either.
  let at = first === undefined || first.epoch === 1 ? job.enqueuedAt : first.startedAt;
  let before: Attempt | null = null;
  for (const attempt of sorted) {
    const start = Math.max(at, attempt.startedAt);
    if (start > at) parts.push({ from: at, to: start, kind: waitKind(before) });
    const stop = Math.max(start, attempt.endedAt ?? end);
    parts.push({ from: start, to: stop, kind: "running" });
    at = stop;
    before = attempt;
  }
  if (end > at) parts.push({ from: at, to: end, kind: lastKind(job, before) });
  return parts.length === 0
    ? [{ from: job.enqueuedAt, to: Math.max(end, job.enqueuedAt + 1), kind: lastKind(job, null) }]
    : parts;
}

function waitKind(before: Attempt | null): Part["kind"] {
  if (before === null) return "pending";
  if (before.outcome === "suspended") return "waiting";
  return before.outcome === "released" ? "pending" : "retry";
}

function lastKind(job: Job, before: Attempt | null): Part["kind"] {
  if (
    job.status === "retry" ||
    job.status === "waiting" ||
    job.status === "scheduled" ||
    job.status === "pending"
  )
    return job.status;
  return waitKind(before);
}

export function timelineOf(job: Job, attempts: readonly Attempt[], now: number): Timeline {
  const parts = partsOf(job, attempts, now);
  const weights = parts.map(({ from, to, kind }) => weightOf(to - from, kind));
  const total = weights.reduce((sum, one) => sum + one, 0);
  const stretches: Stretch[] = [];
  let x = 0;
  for (const [index, part] of parts.entries()) {
    const width = Math.max(LEAST, ((weights[index] ?? 0) / total) * NOW_SHARE);
    stretches.push({
      ...part,
      x,
      width,
      folded: part.kind !== "running" && part.to - part.from > FOLD_MS,
    });
    x += width;
  }
  // The least widths may add up to more than there is.
  const scale = x > NOW_SHARE ? NOW_SHARE / x : 1;
  const scaled = stretches.map((one) => ({ ...one, x: one.x * scale, width: one.width * scale }));
  const [first] = scaled;
  const last = scaled.at(-1);
  return {
    stretches: scaled,
    from: first?.from ?? now,
    to: last?.to ?? now,
    share: (at) => shareOf(scaled, at),
  };
}

/** Work gets more room than waiting of the same length. */
function weightOf(ms: number, kind: Part["kind"]): number {
  const log = Math.log10(Math.max(1, ms) + 1);
  if (ms < 1) return 0.1;
  return kind === "running" ? 1 + log * 1.6 : 0.2 + log * 0.5;
}

function shareOf(stretches: readonly Stretch[], at: number): number {
  const [first] = stretches;
  if (first === undefined || at <= first.from) return 0;
  for (const { from, to, x, width } of stretches) {
    if (at <= to) return x + (to === from ? 0 : (Math.max(0, at - from) / (to - from)) * width);
  }
  const last = stretches.at(-1);
  return last === undefined ? 0 : last.x + last.width;
}

export interface Lane {
  readonly attempt: Attempt;
  /** A suspended attempt that went on has the number of the one before. */
  readonly wentOn: boolean;
  readonly steps: readonly StepBar[];
}

export interface StepBar {
  readonly step: Step;
  readonly from: number;
  readonly to: number;
}

/** Attempts with the steps that they ran. A step belongs to the claim that wrote it last. */
export function lanesOf(attempts: readonly Attempt[], steps: readonly Step[], now: number): Lane[] {
  const sorted = attempts.toSorted((a, b) => a.startedAt - b.startedAt);
  const [first] = sorted;
  // Of a job with many attempts only the newest are known: what the others did is not theirs.
  const known =
    first === undefined || first.epoch === 1
      ? steps
      : steps.filter(({ begunAt }) => begunAt >= first.startedAt);
  return sorted.map((attempt, index) => {
    const end = attempt.endedAt ?? now;
    const own = known
      .filter((step) => holder(sorted, step) === attempt)
      .toSorted((a, b) => a.begunAt - b.begunAt || a.position - b.position);
    return {
      attempt,
      wentOn: sorted[index - 1]?.attempt === attempt.attempt,
      steps: [
        ...own
          .filter((step) => step.status === "done" || !isFailed(attempt, step))
          .map((step) => ({
            step,
            from: step.begunAt,
            to: step.endedAt ?? (isWait(step) ? now : end),
          })),
        ...failedStep(attempt, steps, end),
      ],
    };
  });
}

function isFailed({ error }: Attempt, { name, occurrence }: Step): boolean {
  return error?.step?.name === name && error.step.occurrence === occurrence;
}

/** A plain step that failed has no row: it is known by the attempt's error. */
function failedStep(attempt: Attempt, steps: readonly Step[], end: number): readonly StepBar[] {
  const { error, epoch, startedAt } = attempt;
  if (error?.step === undefined) return [];
  const { name, occurrence, tookMs } = error.step;
  const from = Math.max(startedAt, end - tookMs);
  const kind = steps.find((step) => isFailed(attempt, step))?.kind ?? "step";
  const seen = { name, occurrence, kind, position: 0, epoch, begunAt: from, endedAt: end } as const;
  return [{ step: { ...seen, status: "failed" }, from, to: end }];
}

function isWait({ kind }: Step): boolean {
  return kind === "sleep" || kind === "event" || kind === "call";
}

/** The attempt in whose time the step began. */
function holder(attempts: readonly Attempt[], { begunAt, epoch }: Step): Attempt | undefined {
  const inTime = attempts.findLast(
    ({ startedAt, endedAt }) => startedAt <= begunAt && (endedAt === null || begunAt <= endedAt),
  );
  return inTime ?? attempts.find((one) => one.epoch === epoch) ?? attempts.at(-1);
}
