/** Which type of lock is contended, when, and who holds the key now? */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ContendedLock, Lock, LockHeat, Mark } from "../api.gen.ts";
import * as f from "../format.ts";
import { serverNow, useRead } from "../live.ts";
import { Act, Empty, Head, Info, Lasting, Panel, Seg, Shown, Until } from "../parts.tsx";
import { type Column, Table } from "../table.tsx";
import { ContendedPanel } from "./contended-locks.tsx";
import { askRelease } from "./release-lock.tsx";
import { to, usePlace } from "../router.ts";
import "./locks.css";

type LockType = LockHeat["types"][number];
type Cell = LockType["cells"][number];

const RANGES = [
  ["1h", "1 h"],
  ["4h", "4 h"],
  ["24h", "24 h"],
  ["7d", "7 d"],
] as const;

const HEAT_EVERY_MS = 10_000;

/** Deploys are rare. */
const MARKS_EVERY_MS = 60_000;

const HEAT = [2, 10, 50, 250, 1_000];
const HELD_LONG_MS = 5_000;

export function LocksPage(): JSX.Element {
  const { query } = usePlace();
  const range = RANGES.find(([name]) => name === query.get("range")) ?? RANGES[1];
  const held = useRead("locks", { limit: 200 });
  const heat = useRead("locks/heat", { range: range[0] }, HEAT_EVERY_MS);
  const marks = useRead("series", { range: range[0] }, MARKS_EVERY_MS).data?.marks ?? [];
  const contended = useRead("locks/contended");
  return (
    <>
      <Head
        title="Locks"
        say={`${held.data === undefined ? "" : `${held.data.locks.length} held now. `}${sayAbout(contended.data?.locks)}`}
        acts={
          <Seg
            label="Range"
            choices={RANGES.map(([name, text]) => ({
              text,
              href: to("locks", { range: name }),
              current: name === range[0],
            }))}
          />
        }
      />
      <div class="stack">
        <ContendedPanel from={contended} />
        {heat.data !== undefined && <HeatPanel heat={heat.data} marks={marks} />}
        <div class="cols-2 wide-cols">
          <Panel title="Held now">
            <Shown from={held} rows={3}>
              {({ locks }) =>
                locks.length === 0 ? (
                  <Empty title="No lock is held." />
                ) : (
                  <HeldTable locks={locks} />
                )
              }
            </Shown>
          </Panel>
          <Panel title={`By type, last ${range[1]}`} {...adviceOf(heat.data?.types ?? [])}>
            <Shown from={heat} rows={3}>
              {({ types }) =>
                types.length === 0 ? (
                  <Empty title="No lock was taken in this time.">
                    The type of a lock is what stands before the colon in its key: order:42 has the
                    type order.
                  </Empty>
                ) : (
                  <TypeTable types={types} />
                )
              }
            </Shown>
          </Panel>
        </div>
      </div>
    </>
  );
}

/** The worst, by its key. */
function sayAbout(contended: readonly ContendedLock[] | undefined): string {
  const [worst] = contended ?? [];
  if (contended === undefined) return "";
  if (worst === undefined) return "None is contended.";
  const { key, waiting, timeouts } = worst;
  const parts = [
    ...(waiting > 0 ? [`${f.plural(waiting, "request")} ${waiting === 1 ? "waits" : "wait"}`] : []),
    ...(timeouts > 0 ? [`${f.count(timeouts)} gave up in the last hour`] : []),
  ];
  const more =
    contended.length === 1
      ? ""
      : `; so ${contended.length === 2 ? "is 1 more" : `are ${f.count(contended.length - 1)} more`}`;
  return `${key} is contended: ${parts.join(", ")}${more}.`;
}

/** Every step of the range: those that the server leaves out had no request. */
function stepsOf({ from, to: end, stepMs }: LockHeat, cells: readonly Cell[]): Cell[] {
  const known = new Map(cells.map((cell) => [cell.at, cell]));
  const steps = Math.ceil((end - from) / stepMs);
  return Array.from({ length: steps }, (_, step) => {
    const at = from + step * stepMs;
    return known.get(at) ?? { at, acquisitions: 0, p99Ms: null, timeouts: 0 };
  });
}

function levelOf(ms: number | null): number {
  if (ms === null) return 0;
  const at = HEAT.findIndex((limit) => ms < limit);
  return at === -1 ? HEAT.length : at;
}

const HEAT_WORDS = ["< 2 ms", "10 ms", "50 ms", "250 ms", "1 s", "more"];

function HeatPanel({
  heat,
  marks,
}: {
  readonly heat: LockHeat;
  readonly marks: readonly Mark[];
}): JSX.Element {
  const [told, tell] = useState<string | null>(null);
  return (
    <Panel
      title={`Wait for a lock, p99 by ${f.span(heat.stepMs)}`}
      right={
        <div class="legend">
          {told !== null ? (
            <span class="strong">{told}</span>
          ) : (
            <>
              {HEAT_WORDS.map((word, level) => (
                <span key={word}>
                  <svg width="12" height="12" aria-hidden="true">
                    <rect class={`q${level}`} width="12" height="12" rx="3" />
                  </svg>
                  {word}
                </span>
              ))}
              <span>
                <svg width="10" height="10" aria-hidden="true">
                  <circle class="tout" cx="5" cy="5" r="4" />
                </svg>
                time-outs
              </span>
            </>
          )}
        </div>
      }
    >
      <div class="body">
        {heat.types.length === 0 ? (
          <p class="dim">No lock was taken in this time.</p>
        ) : (
          <div class="heat" onPointerLeave={() => tell(null)}>
            {heat.types.map(({ type, cells }) => (
              <HeatRow
                key={type}
                type={type}
                cells={stepsOf(heat, cells)}
                whenOf={(at) => whenOf(heat, at)}
                tell={tell}
              />
            ))}
            <span />
            <svg class="hx" aria-hidden="true">
              {[0, 0.25, 0.5, 0.75, 1].map((share) => (
                <text
                  key={share}
                  class="ax"
                  x={`${share * 100}%`}
                  y="14"
                  text-anchor={share === 0 ? "start" : share === 1 ? "end" : "middle"}
                >
                  {share === 1 ? "now" : axisText(heat, heat.from + share * (heat.to - heat.from))}
                </text>
              ))}
              {marks.map((mark) => (
                <HeatMark key={`${mark.at} ${mark.text}`} heat={heat} mark={mark} />
              ))}
            </svg>
          </div>
        )}
      </div>
    </Panel>
  );
}

const DAY_MS = 86_400_000;

function isOfDays({ from, to: end }: LockHeat): boolean {
  return end - from > 2 * DAY_MS;
}

/** The time of day; in a week, the day too. */
function whenOf(heat: LockHeat, at: number): string {
  return isOfDays(heat) ? `${f.dayOf(at)}, ${f.hourMinute(at)}` : f.hourMinute(at);
}

function axisText(heat: LockHeat, at: number): string {
  return isOfDays(heat) ? f.dayOf(at) : f.hourMinute(at);
}

/** A deploy or a crash, below the rows and in line with them. */
function HeatMark({
  heat,
  mark,
}: {
  readonly heat: LockHeat;
  readonly mark: Mark;
}): JSX.Element | null {
  const share = (mark.at - heat.from) / (heat.to - heat.from);
  if (share < 0 || share > 1) return null;
  const isCrash = mark.kind === "crash";
  return (
    <svg class="hide-sm" x={`${share * 100}%`} y="0" overflow="visible">
      <title>{`${mark.kind} ${mark.text}, ${f.exact(mark.at)}`}</title>
      <path
        class={isCrash ? "mark-f crash" : "mark-f"}
        d={isCrash ? "M0 -3 4 1 0 5-4 1Z" : "M0 -4h7L5-.5 7 3H0Z"}
      />
    </svg>
  );
}

function HeatRow({
  type,
  cells,
  whenOf: when,
  tell,
}: {
  readonly type: string;
  readonly cells: readonly Cell[];
  readonly whenOf: (at: number) => string;
  readonly tell: (text: string | null) => void;
}): JSX.Element {
  const worst = Math.max(0, ...cells.map(({ p99Ms }) => p99Ms ?? 0));
  const lost = cells.reduce((sum, cell) => sum + cell.timeouts, 0);
  const textOf = ({ at, p99Ms, timeouts }: Cell): string =>
    `${type}, ${when(at)}: ${p99Ms === null ? "none taken" : `p99 ${f.span(p99Ms)}`}${timeouts > 0 ? `, ${f.plural(timeouts, "time-out")}` : ""}`;
  const [at, setAt] = useState(cells.length - 1);
  const press = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (by === 0) return;
    event.preventDefault();
    const next = Math.min(cells.length - 1, Math.max(0, at + by));
    setAt(next);
    const cell = cells[next];
    if (cell !== undefined) tell(textOf(cell));
  };
  return (
    <>
      <span class="sm clip" title={type}>
        {type}
      </span>
      <svg
        role="img"
        aria-label={`${type}: waits of at most ${f.span(worst)} (p99)${lost > 0 ? `, ${f.plural(lost, "time-out")}` : ""}`}
        tabIndex={0}
        onKeyDown={press}
        onBlur={() => tell(null)}
      >
        <svg width="100%" height="22" viewBox={`0 0 ${cells.length} 22`} preserveAspectRatio="none">
          {cells.map((cell, index) => (
            <rect
              key={cell.at}
              class={`c q${levelOf(cell.p99Ms)}`}
              x={index}
              width="1"
              height="22"
              onPointerEnter={() => tell(textOf(cell))}
            />
          ))}
        </svg>
        {cells.map(
          (cell, index) =>
            cell.timeouts > 0 && (
              <circle
                key={cell.at}
                class="tout"
                cx={`${((index + 0.5) / cells.length) * 100}%`}
                cy="11"
                r="3.5"
              />
            ),
        )}
      </svg>
    </>
  );
}

function HeldTable({ locks }: { readonly locks: readonly Lock[] }): JSX.Element {
  const wanted = usePlace().query.get("key");
  return (
    <Table
      tall
      rows={locks}
      keyOf={({ key }) => key}
      isMarked={({ key }) => key === wanted}
      columns={[
        {
          name: "Key",
          min: 144,
          cell: ({ key, owner, trace }) => (
            <>
              <span class="mono">{key}</span>
              <span class="under" title={owner}>
                {trace === null ? "" : `${trace} · `}
                {owner}
              </span>
            </>
          ),
        },
        {
          name: "Held",
          align: "end",
          width: 96,
          look: ({ acquiredAt }) => (serverNow() - acquiredAt > HELD_LONG_MS ? "retry strong" : ""),
          cell: ({ acquiredAt }) => <Lasting since={acquiredAt} />,
        },
        {
          name: "Ends",
          hide: "sm",
          align: "end",
          look: "dim",
          width: 104,
          cell: ({ expiresAt }) => <Until at={expiresAt} />,
        },
        {
          name: "Action",
          heading: null,
          align: "end",
          width: 120,
          narrow: 100,
          cell: (lock) => (
            <Act kind="quiet" onClick={() => askRelease(lock)}>
              Release…
            </Act>
          ),
        },
      ]}
    />
  );
}

function TypeTable({ types }: { readonly types: readonly LockType[] }): JSX.Element {
  return <Table rows={types} keyOf={({ type }) => type} columns={TYPE_COLUMNS} />;
}

const spanOr = (ms: number | null): string => (ms === null ? "–" : f.span(ms));

const TYPE_COLUMNS: readonly Column<LockType>[] = [
  { name: "Type", look: "name", cell: ({ type }) => type },
  {
    name: "Acquired",
    align: "end",
    width: 88,
    narrow: 72,
    cell: ({ acquisitions }) => f.count(acquisitions),
  },
  {
    name: "p50",
    hide: "lg",
    align: "end",
    look: "dim",
    width: 72,
    cell: ({ p50Ms }) => spanOr(p50Ms),
  },
  { name: "p99", align: "end", width: 72, narrow: 64, cell: ({ p99Ms }) => spanOr(p99Ms) },
  {
    name: "Time-outs",
    align: "end",
    width: 88,
    narrow: 80,
    cell: ({ timeouts }) =>
      timeouts === 0 ? (
        <span class="faint">0</span>
      ) : (
        <span class="failed strong">{f.count(timeouts)}</span>
      ),
  },
  {
    name: "Held most",
    hide: "sm",
    align: "end",
    look: "dim",
    width: 96,
    cell: ({ heldMsMax }) => f.span(heldMsMax),
  },
];

/** What to do about the type that is waited for most. */
function adviceOf(types: readonly LockType[]): { readonly footer?: JSX.Element } {
  const worst = types.find(
    ({ p50Ms, p99Ms, timeouts }) =>
      timeouts > 0 || ((p99Ms ?? 0) > 250 && (p99Ms ?? 0) > (p50Ms ?? 0) * 20),
  );
  if (worst === undefined) return {};
  return {
    footer: (
      <Info>
        {worst.type}: p99 is far above p50, so many want the same key at times. Lock something
        smaller, or put the work in a queue with a limit of one.
      </Info>
    ),
  };
}
