/**
 * Charts, drawn as SVG. Geometry is given by attributes, never by styles, so the strictest policy holds. All charts of a page
 * share one cross; the legends show its values.
 */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import * as m from "./chart-math.ts";
import * as f from "./format.ts";
import { go } from "./router.ts";
import { Store, useStore } from "./store.ts";
import type { Mark } from "./api.gen.ts";
import "./charts.css";

const HEIGHT = 132;
const TOP = 16;

/** The instant under the pointer, for all charts; null: none, the legends tell the newest. */
const cross = new Store<number | null>(null);

export interface SeriesLine<Point> {
  readonly name: string;
  readonly draw: "bar" | "line" | "area";
  /** The classes of the style: f-done, l-1 … */
  readonly look: string;
  /** The class of its square or dash in the legend. */
  readonly key: string;
  readonly value: (point: Point) => number | null;
}

interface ChartProps<Point extends { readonly at: number }> {
  readonly title: string;
  readonly label: string;
  readonly from: number;
  readonly to: number;
  readonly stepMs: number;
  /** Steps that end later are not over. */
  readonly openAt?: number;
  readonly points: readonly Point[];
  readonly lines: readonly SeriesLine<Point>[];
  readonly marks: readonly Mark[];
  readonly scale: (most: number) => m.Scale;
  readonly write: (value: number) => string;
  /** Only the first chart shows the words of marks. */
  readonly worded?: boolean;
  readonly empty: string;
  readonly height?: number;
  /** The address of the jobs of a step: a click on it, or Enter, goes there. */
  readonly jobsOf?: (at: number, until: number) => string;
}

/** The width of an element, followed. */
function useWidth(): [{ current: HTMLDivElement | null }, number] {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  useEffect(() => {
    if (box.current === null) return undefined;
    const watch = new ResizeObserver(([entry]) =>
      setWidth(Math.round(entry?.contentRect.width ?? 600)),
    );
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return [box, width];
}

/** What is drawn above one another adds up. */
function stackedMost<Point>(points: readonly Point[], lines: readonly SeriesLine<Point>[]): number {
  let most = 0;
  for (const point of points) {
    let sum = 0;
    for (const { draw, value } of lines) {
      const one = value(point) ?? 0;
      if (draw === "bar") sum += one;
      else most = Math.max(most, one);
    }
    most = Math.max(most, sum);
  }
  return most;
}

export function Chart<Point extends { readonly at: number }>(
  props: ChartProps<Point>,
): JSX.Element {
  const { title, label, from, to, points, lines, marks, empty, height = HEIGHT } = props;
  const at = useStore(cross);
  const [box, width] = useWidth();
  const most = stackedMost(points, lines);
  const scale = props.scale(most);
  const span = Math.max(1, to - from);
  const index = at === null ? points.length - 1 : m.nearest(points, at);
  const shown = points[index];
  const isNow = at === null;
  const counts = lines.some(({ draw }) => draw === "bar");
  const isOpen = counts && shown !== undefined && shown.at + props.stepMs > (props.openAt ?? to);
  const under = (event: MouseEvent): Point | undefined => {
    const area = box.current?.getBoundingClientRect();
    if (area === undefined) return undefined;
    const share = (event.clientX - area.left - 36) / Math.max(1, area.width - 36);
    if (share < 0 || share > 1) return undefined;
    // A bar begins at its instant, and is found from its beginning to its end.
    const instant = from + share * span - (counts ? props.stepMs * 0.36 : 0);
    return points[m.nearest(points, instant)];
  };
  const move = (event: PointerEvent): void => cross.set(under(event)?.at ?? null);
  const open = (point: Point | undefined): void => {
    if (point === undefined || props.jobsOf === undefined) return;
    cross.set(null);
    go(props.jobsOf(point.at, point.at + props.stepMs));
  };
  const step = (by: number): void => {
    const next = points[Math.min(points.length - 1, Math.max(0, index + by))];
    if (next !== undefined) cross.set(next.at);
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key === "ArrowLeft") step(-1);
    else if (event.key === "ArrowRight") step(1);
    else if (event.key === "Escape") cross.set(null);
    else if (event.key === "Enter" && props.jobsOf !== undefined) open(shown);
    else return;
    event.preventDefault();
  };
  return (
    <section class="panel">
      <header class="bare">
        <h2>{title}</h2>
        <Legend
          shown={shown}
          lines={lines}
          write={props.write}
          when={isOpen ? "so far" : isNow ? "now" : f.hourMinute(shown?.at ?? to)}
        />
      </header>
      <div class="body">
        <div
          class={props.jobsOf === undefined ? "chart" : "chart leads"}
          ref={box}
          role="img"
          aria-label={
            props.jobsOf === undefined ? label : `${label} Enter opens the jobs of a step.`
          }
          onClick={(event) => open(under(event))}
          tabIndex={0}
          onPointerMove={move}
          onPointerLeave={() => cross.set(null)}
          onKeyDown={press}
          onBlur={() => cross.set(null)}
        >
          <Axis scale={scale} height={height} />
          <svg height={height + 20} aria-hidden="true">
            {scale.lines.map(({ share }) => {
              const y = TOP + height - share * height + 0.5;
              return (
                <line
                  key={share}
                  class={share === 0 ? "base-l" : "grid-l"}
                  x1="0"
                  x2="100%"
                  y1={y}
                  y2={y}
                />
              );
            })}
            <svg
              y={TOP}
              width="100%"
              height={height}
              viewBox={`0 0 ${m.WIDTH} ${height}`}
              preserveAspectRatio="none"
            >
              <Drawn {...props} scale={scale} height={height} />
            </svg>
            <Marks
              marks={marks}
              from={from}
              to={to}
              px={width - 36}
              worded={props.worded === true}
              height={height}
            />
            {!isNow && shown !== undefined && (
              <Cross share={placeOf(shown.at, props)} height={height} />
            )}
          </svg>
          <Times from={from} to={to} px={width - 36} />
        </div>
        {most === 0 && <p class="sm faint center">{empty}</p>}
      </div>
    </section>
  );
}

/** A bar begins at its instant; the middle of the step is where the cross points. */
function placeOf(
  at: number,
  {
    from,
    to,
    stepMs,
    lines,
  }: {
    readonly from: number;
    readonly to: number;
    readonly stepMs: number;
    readonly lines: readonly { readonly draw: string }[];
  },
): number {
  const isBar = lines.some(({ draw }) => draw === "bar");
  return Math.min(
    1,
    Math.max(0, (at - from + (isBar ? stepMs * 0.36 : 0)) / Math.max(1, to - from)),
  );
}

function Cross({
  share,
  height,
}: {
  readonly share: number;
  readonly height: number;
}): JSX.Element {
  const x = `${(share * 100).toFixed(2)}%`;
  return <line class="cross" x1={x} x2={x} y1="8" y2={TOP + height} />;
}

function Axis({
  scale,
  height,
}: {
  readonly scale: m.Scale;
  readonly height: number;
}): JSX.Element {
  return (
    <svg height={height + 20} aria-hidden="true">
      {scale.lines.map(({ share, text }) => (
        <text key={share} class="ax" x="28" y={TOP + height - share * height + 4} text-anchor="end">
          {text}
        </text>
      ))}
    </svg>
  );
}

function Times({
  from,
  to,
  px,
}: {
  readonly from: number;
  readonly to: number;
  readonly px: number;
}): JSX.Element {
  const isDays = to - from > 2 * 24 * 3_600_000;
  const shares = px < 360 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  return (
    <svg class="xs" height="16" aria-hidden="true">
      {shares.map((share) => {
        const at = from + share * (to - from);
        const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
        return (
          <text key={share} class="ax" x={`${share * 100}%`} y="12" text-anchor={anchor}>
            {share === 1 ? "now" : isDays ? f.dayOf(at) : f.hourMinute(at)}
          </text>
        );
      })}
    </svg>
  );
}

function Drawn<Point extends { readonly at: number }>({
  from,
  to,
  stepMs,
  points,
  lines,
  scale,
  height,
}: Omit<ChartProps<Point>, "scale"> & {
  readonly scale: m.Scale;
  readonly height: number;
}): JSX.Element {
  const span = Math.max(1, to - from);
  const floor = new Map<Point, number>();
  const paths = lines.map(({ draw, look, value, name }) => {
    if (draw === "bar") {
      const parts = points.map((point) => {
        const base = floor.get(point) ?? 0;
        const top = base + (value(point) ?? 0);
        floor.set(point, top);
        return { x: (point.at - from) / span, from: scale.share(base), to: scale.share(top) };
      });
      return <path key={name} class={look} d={m.bars(parts, stepMs / span, height)} />;
    }
    const through = withGaps(points, stepMs).map((point) => {
      const one = point.point === null ? null : value(point.point);
      return { x: (point.at - from) / span, share: one === null ? null : scale.share(one) };
    });
    return (
      <g key={name}>
        {draw === "area" && <path class="f-area" d={m.area(through, height)} />}
        <path class={look} d={m.line(through, height)} />
      </g>
    );
  });
  return <>{paths}</>;
}

/** A step that is missing is a gap. */
function withGaps<Point extends { readonly at: number }>(
  points: readonly Point[],
  stepMs: number,
): { readonly at: number; readonly point: Point | null }[] {
  const all: { at: number; point: Point | null }[] = [];
  let before: Point | null = null;
  for (const point of points) {
    if (before !== null && point.at - before.at > stepMs * 1.5)
      all.push({ at: before.at + stepMs, point: null });
    all.push({ at: point.at, point });
    before = point;
  }
  return all;
}

function Legend<Point extends { readonly at: number }>({
  shown,
  lines,
  write,
  when,
}: {
  readonly shown: Point | undefined;
  readonly lines: readonly SeriesLine<Point>[];
  readonly write: (value: number) => string;
  readonly when: string;
}): JSX.Element {
  return (
    <div class="legend">
      {shown !== undefined && <span class="faint">{when}</span>}
      {lines.map(({ name, key, draw, value }) => {
        const one = shown === undefined ? null : value(shown);
        return (
          <span key={name}>
            <svg width="8" height="8" aria-hidden="true">
              <rect
                class={key}
                width="8"
                height={draw === "bar" ? 8 : 2}
                y={draw === "bar" ? 0 : 3}
                rx="1"
              />
            </svg>
            {name} <b>{one === null ? "–" : write(one)}</b>
          </span>
        );
      })}
    </div>
  );
}

function Marks({
  marks,
  from,
  to,
  px,
  worded,
  height,
}: {
  readonly marks: readonly Mark[];
  readonly from: number;
  readonly to: number;
  readonly px: number;
  readonly worded: boolean;
  readonly height: number;
}): JSX.Element {
  const all = m.joined(marks, { from, to, px });
  return (
    <>
      {all.map(({ at, kind, text, title }, index) => {
        const share = (at - from) / Math.max(1, to - from);
        const x = `${(share * 100).toFixed(2)}%`;
        const next = all[index + 1];
        const roomPx = (((next?.at ?? to) - at) / Math.max(1, to - from)) * px;
        const cut = text.length > 14 ? `${text.slice(0, 13)}…` : text;
        const fits = worded && roomPx > cut.length * 6.2 + 14;
        return (
          <g key={`${kind}${at}`}>
            <title>{title}</title>
            <line class={`mark ${kind}`} x1={x} x2={x} y1="8" y2={TOP + height} />
            <svg x={x} y={kind === "crash" ? 4 : 0} overflow="visible">
              <path
                class={kind === "crash" ? "mark-f crash" : "mark-f"}
                d={kind === "crash" ? "M0-4 4 0 0 4-4 0Z" : "M0 0h7L5 3.5l2 3.5H0Z"}
              />
            </svg>
            {fits && (
              <text class="mark-t hide-sm" x={x} dx={kind === "crash" ? 8 : 11} y="8">
                {cut}
              </text>
            )}
          </g>
        );
      })}
    </>
  );
}

/** A small line without an axis; red only for errors that are new or came back. */
export function Spark({
  values,
  bad = false,
  wide = false,
}: {
  readonly values: readonly (number | null)[];
  readonly bad?: boolean;
  readonly wide?: boolean;
}): JSX.Element {
  const most = Math.max(1, ...values.map((one) => one ?? 0));
  const points = values.map((one, at) => ({
    x: values.length < 2 ? 0 : at / (values.length - 1),
    share: one === null ? null : (one / most) * 0.92,
  }));
  return (
    <svg
      class={wide ? "spark wide" : "spark"}
      viewBox="0 0 96 20"
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <path class="f-area" d={m.area(points, 20, 96)} />
      <path class={bad ? "l-bad" : "l-2"} d={m.line(points, 20, 96)} />
    </svg>
  );
}

/** Blue in use, grey at a limit that is meant, amber when jobs wait for it too long. */
export function Gauge({
  share,
  look = "g-run",
  label,
}: {
  readonly share: number;
  readonly look?: string;
  readonly label?: string;
}): JSX.Element {
  const percent = Math.round(Math.min(1, Math.max(0, share)) * 1_000) / 10;
  return (
    <svg class="gauge" role="img" aria-label={label ?? `${Math.round(percent)} percent`}>
      <rect class="g-bg" width="100%" height="6" rx="2" />
      {percent > 0 && <rect class={look} width={`${percent}%`} height="6" rx="2" />}
    </svg>
  );
}

export function Slots({
  used,
  of,
  paused = false,
}: {
  readonly used: number;
  readonly of: number;
  readonly paused?: boolean;
}): JSX.Element {
  const look = paused ? "g-warn" : "g-run";
  return (
    <div class="line">
      <span class="gaugew">
        <Gauge
          share={of === 0 ? 0 : used / of}
          look={look}
          label={`${used} of ${of} slots in use`}
        />
      </span>
      <span class="sm dim nowrap">
        {of === 0 ? "no worker" : `${f.count(used)} of ${f.count(of)}`}
      </span>
    </div>
  );
}
