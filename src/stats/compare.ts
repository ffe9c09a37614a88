/** What a deployment changed, in words: only what the numbers can show. */
import type { Outcomes } from "./task-totals.ts";

/** Below this, attempts or runs of a build show nothing. */
const COMPARED_MIN = 30;

/** Fewer failures of both builds together are chance. */
const FAILURES_MIN = 3;

/** How many standard errors two shares of failures must be apart: chance alone gets there once in 370 times. */
const ERRORS_APART = 3;

/** Histograms are accurate to a fifth, so a smaller difference of times may be none. */
const TIMES_APART = 1.5;

/** Accurate to a fifth. */
export interface Times {
  readonly count: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
}

export interface Compared {
  readonly build: string;
  readonly outcomes: Outcomes;
  readonly runs: Times | null;
}

export interface Change {
  /** The build, and the one before it; null: no build before it ran this. */
  readonly build: string;
  readonly before: string | null;
  /** Of failures first, and if they are the same, of times. */
  readonly is: "worse" | "better" | "same" | "unknown";
  readonly text: string;
}

/** Attempts that ended, and the share of them that failed; the share is null if there were none. */
export function attemptsOf({ done, failed, retried, crashed }: Outcomes): {
  readonly attempts: number;
  readonly failedShare: number | null;
} {
  const bad = failed + retried + crashed;
  const attempts = done + bad;
  return { attempts, failedShare: attempts === 0 ? null : bad / attempts };
}

export function changeOf(now: Compared, before: Compared | null): Change {
  if (before === null) {
    const text = `Build ${now.build} is the first that is known here: there is nothing to compare it with.`;
    return { build: now.build, before: null, is: "unknown", text };
  }
  const change = { build: now.build, before: before.build };
  const few = [now, before].find(({ outcomes }) => attemptsOf(outcomes).attempts < COMPARED_MIN);
  if (few !== undefined) {
    const { attempts } = attemptsOf(few.outcomes);
    const text = `Too little to tell: build ${few.build} has ${attempts} attempts here, and ${COMPARED_MIN} are needed.`;
    return { ...change, is: "unknown", text };
  }
  const failures = failuresOf(now, before);
  const durations = timesOf(now, before);
  const is = failures.is === "same" ? durations.is : failures.is;
  const said = [failures.text, durations.text].filter((text) => text !== "");
  const [first = "", ...rest] = `${said.join(", and ")} since build ${now.build}.`;
  return { ...change, is, text: first.toUpperCase() + rest.join("") };
}

interface Part {
  readonly is: "worse" | "better" | "same";
  readonly text: string;
}

function failuresOf(now: Compared, before: Compared): Part {
  const [a, b] = [attemptsOf(before.outcomes), attemptsOf(now.outcomes)];
  const [was, is] = [a.failedShare ?? 0, b.failedShare ?? 0];
  const both = (was * a.attempts + is * b.attempts) / (a.attempts + b.attempts);
  const parts = 1 / a.attempts + 1 / b.attempts;
  // Counts are whole, so half a failure on either side is not counted (Yates).
  const apart = Math.abs(is - was) - parts / 2;
  const isFew = both * (a.attempts + b.attempts) < FAILURES_MIN - 0.5;
  const shares = `${percent(is)} of attempts, ${percent(was)} before`;
  if (isFew || apart <= ERRORS_APART * Math.sqrt(both * (1 - both) * parts)) {
    return { is: "same", text: `fails as often as before, as far as can be told (${shares})` };
  }
  if (was === 0) return { is: "worse", text: `fails, which it did not before (${shares})` };
  if (is === 0) return { is: "better", text: `fails no more (${shares})` };
  return is > was
    ? { is: "worse", text: `fails ${times(is / was)} as often (${shares})` }
    : { is: "better", text: `fails ${part(is / was)} as often (${shares})` };
}

/** By the median of runs: a few slow ones do not move it. */
function timesOf({ runs: now }: Compared, { runs: before }: Compared): Part {
  const few = now === null || before === null || Math.min(now.count, before.count) < COMPARED_MIN;
  if (few) return { is: "same", text: "" };
  const ratio = now.p50Ms / Math.max(before.p50Ms, Number.MIN_VALUE);
  const both = `p50 ${duration(now.p50Ms)}, ${duration(before.p50Ms)} before`;
  if (ratio >= TIMES_APART) return { is: "worse", text: `takes ${times(ratio)} as long (${both})` };
  if (ratio <= 1 / TIMES_APART)
    return { is: "better", text: `takes ${part(ratio)} as long (${both})` };
  return { is: "same", text: "" };
}

/** "1.5 times", "4 times". */
function times(ratio: number): string {
  return `${ratio < 10 ? Number(ratio.toFixed(1)) : Math.round(ratio)} times`;
}

/** "half", "40 %". */
function part(ratio: number): string {
  if (Math.abs(ratio - 0.5) < 0.03) return "half";
  return percent(ratio);
}

function percent(share: number): string {
  const value = share * 100;
  if (value === 0 || value === 100) return `${value} %`;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

function duration(ms: number): string {
  if (ms < 1_000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.round(ms / 60_000)} min`;
}
