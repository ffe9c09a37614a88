/** Scales and paths of charts. No DOM: the numbers alone. */
import * as f from "./format.ts";

export const WIDTH = 600;

/** Lines of a scale, from the base up: where (0 to 1) and what is written there. */
export interface Scale {
  readonly lines: readonly { readonly share: number; readonly text: string }[];
  readonly share: (value: number) => number;
}

const STEPS = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];
const INTERVALS = 3;

/** From zero to a round value, in three steps. Counts have no halves. */
export function linear(most: number, write: (value: number) => string = f.brief): Scale {
  const wanted = Math.max(most, INTERVALS) / INTERVALS;
  const size = 10 ** Math.floor(Math.log10(wanted));
  const step =
    size * (STEPS.find((one) => one * size >= wanted && Number.isInteger(one * size)) ?? 10);
  const top = step * INTERVALS;
  return {
    lines: Array.from({ length: INTERVALS + 1 }, (_, at) => ({
      share: at / INTERVALS,
      text: write(step * at),
    })),
    share: (value) => Math.min(1, Math.max(0, value / top)),
  };
}

const MS_TEXT = (exponent: number): string => {
  if (exponent === 0) return "1 ms";
  if (exponent < 3) return String(10 ** exponent);
  const text = f.span(10 ** exponent);
  return text.replace(/^(\d+ (?:min|h|d)).*$/, "$1");
};

/** Logarithmic, from 1 ms, for latencies. */
export function logarithmic(mostMs: number): Scale {
  const decades = Math.max(3, Math.ceil(Math.log10(Math.max(1, mostMs))));
  const each = Math.ceil(decades / INTERVALS);
  const top = each * INTERVALS;
  return {
    lines: Array.from({ length: INTERVALS + 1 }, (_, at) => ({
      share: at / INTERVALS,
      text: MS_TEXT(at * each),
    })),
    share: (value) => Math.min(1, Math.max(0, Math.log10(Math.max(1, value)) / top)),
  };
}

function n(value: number): string {
  return String(Math.round(value * 10) / 10);
}

/** Bars from one share to another, at positions of 0 to 1, each as wide as its step. */
export function bars(
  parts: readonly { readonly x: number; readonly from: number; readonly to: number }[],
  width: number,
  height: number,
): string {
  const wide = n(Math.max(0.8, width * WIDTH * 0.72));
  return parts
    .filter(({ from, to }) => to > from)
    .map(({ x, from, to }) => {
      const bottom = n(height - from * height);
      // What happened once is seen, however small its share.
      const top = n(Math.min(height - to * height, height - from * height - 0.8));
      return `M${n(x * WIDTH)} ${bottom}V${top}h${wide}V${bottom}z`;
    })
    .join("");
}

/** A line through points; where one is missing there is a gap. */
export function line(
  points: readonly { readonly x: number; readonly share: number | null }[],
  height: number,
  width = WIDTH,
): string {
  let pen = "M";
  const parts: string[] = [];
  for (const { x, share } of points) {
    if (share === null) {
      pen = "M";
      continue;
    }
    parts.push(`${pen}${n(x * width)} ${n(height - share * height)}`);
    pen = "L";
  }
  return parts.join("");
}

/** The area below a line, gap by gap. */
export function area(
  points: readonly { readonly x: number; readonly share: number | null }[],
  height: number,
  width = WIDTH,
): string {
  const runs: { x: number; share: number }[][] = [[]];
  for (const { x, share } of points) {
    if (share === null) runs.push([]);
    else runs.at(-1)?.push({ x, share });
  }
  return runs
    .filter((run) => run.length > 1)
    .map((run) => {
      const [first] = run;
      const last = run.at(-1);
      return `${line(run, height, width)}L${n((last?.x ?? 0) * width)} ${height}L${n((first?.x ?? 0) * width)} ${height}Z`;
    })
    .join("");
}

/** Marks nearer than this to each other are joined. */
const JOIN_PX = 12;

export interface JoinedMark {
  readonly at: number;
  readonly kind: "deploy" | "crash";
  readonly text: string;
  readonly title: string;
}

/** Marks in their order; those that would overlap become one, and a crash is never hidden behind a deploy. */
export function joined(
  marks: readonly {
    readonly at: number;
    readonly kind: "deploy" | "crash";
    readonly text: string;
    readonly detail: string | null;
  }[],
  { from, to, px }: { readonly from: number; readonly to: number; readonly px: number },
): JoinedMark[] {
  const gapMs = ((to - from) / Math.max(1, px)) * JOIN_PX;
  const groups: (typeof marks)[number][][] = [];
  for (const mark of marks.toSorted((a, b) => a.at - b.at)) {
    if (mark.at < from || mark.at > to) continue;
    const last = groups.at(-1);
    if (last !== undefined && mark.at - (last.at(-1)?.at ?? 0) < gapMs) last.push(mark);
    else groups.push([mark]);
  }
  return groups.map((group) => {
    const crashes = group.filter(({ kind }) => kind === "crash");
    const kind = crashes.length > 0 ? "crash" : "deploy";
    const same = group.filter((mark) => mark.kind === kind);
    const [first] = same;
    const names = new Set(same.map(({ text }) => text));
    const text =
      names.size === 1 && (same.length === 1 || kind === "deploy")
        ? (first?.text ?? "")
        : `${same.length} ${kind === "crash" ? "crashes" : "deploys"}`;
    const title = group
      .map(
        ({ text: word, detail, at }) =>
          `${f.hourMinute(at)} ${word}${detail === null ? "" : `, ${detail}`}`,
      )
      .join("\n");
    return { at: first?.at ?? 0, kind, text, title };
  });
}

/** The index of the point nearest to an instant. */
export function nearest(points: readonly { readonly at: number }[], at: number): number {
  let best = -1;
  let distance = Number.POSITIVE_INFINITY;
  for (const [index, point] of points.entries()) {
    const away = Math.abs(point.at - at);
    if (away < distance) [best, distance] = [index, away];
  }
  return best;
}
