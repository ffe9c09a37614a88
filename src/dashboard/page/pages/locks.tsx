/** Which type of lock is contended, when, and who holds the key now? */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { write } from "../api.ts";
import * as f from "../format.ts";
import { serverNow, useData } from "../live.ts";
import { ask, reasonIn } from "../notices.ts";
import { Act, Ago, Empty, Head, Info, Lasting, Panel, Seg, Shown, Until } from "../parts.tsx";
import { to, usePlace } from "../router.ts";
import type { Mark } from "../types.ts";

interface Lock {
  readonly key: string;
  readonly owner: string;
  readonly trace: string | null;
  readonly acquiredAt: number;
  readonly expiresAt: number;
  readonly waiting?: number | null;
}

interface Times {
  readonly type: string;
  readonly acquisitions: number;
  readonly timeouts: number;
  readonly waitMs: { readonly p50: number; readonly p99: number } | null;
  readonly heldMsMax: number;
}

interface LockStats {
  readonly types: readonly Times[];
  readonly minutes: readonly (Times & { readonly minute: number })[];
}

interface Cell {
  readonly at: number;
  readonly p99Ms: number | null;
  readonly timeouts: number;
}

interface Heat {
  readonly from: number;
  readonly to: number;
  readonly stepMs: number;
  readonly types: readonly { readonly type: string; readonly cells: readonly Cell[] }[];
  readonly marks?: readonly Mark[];
}

const RANGES = [
  ["1h", "1 h", 3_600_000],
  ["4h", "4 h", 14_400_000],
  ["24h", "24 h", 86_400_000],
  ["7d", "7 d", 604_800_000],
] as const;

const STEPS = 48;
const HEAT = [2, 10, 50, 250, 1_000];
const HELD_LONG_MS = 5_000;

export function LocksPage(): JSX.Element {
  const { query } = usePlace();
  const range = RANGES.find(([name]) => name === query.get("range")) ?? RANGES[1];
  const held = useData<{ locks: readonly Lock[] }>("locks?limit=200");
  const stats = useData<LockStats>(`locks/stats?last=${range[0]}`, 10_000);
  const heat = stats.data === undefined ? null : heatOf(stats.data, range[2]);
  const contended = (stats.data?.types ?? []).filter(({ timeouts }) => timeouts > 0);
  return (
    <>
      <Head
        title="Locks"
        say={`${held.data === undefined ? "" : `${held.data.locks.length} held now. `}${
          contended.length === 0
            ? "None timed out."
            : `${f.listed(contended.map(({ type, timeouts }) => `${type} is contended: ${f.plural(timeouts, "time-out")}`))}.`
        }`}
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
        {heat !== null && <HeatPanel heat={heat} />}
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
          <Panel title={`By type, last ${range[1]}`} {...adviceOf(stats.data?.types ?? [])}>
            <Shown from={stats} rows={3}>
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

/** The minutes of the statistics, joined to as many cells as a row has. */
function heatOf({ minutes, types }: LockStats, spanMs: number): Heat {
  const end = serverNow();
  const from = end - spanMs;
  const stepMs = spanMs / STEPS;
  const rows = types.map(({ type }) => {
    const cells: Cell[] = [];
    const own = minutes.filter((one) => one.type === type);
    for (let step = 0; step < STEPS; step += 1) {
      const [low, high] = [from + step * stepMs, from + (step + 1) * stepMs];
      const inside = own.filter(({ minute }) => minute >= low - 60_000 && minute < high);
      const waits = inside.flatMap(({ waitMs }) => (waitMs === null ? [] : [waitMs.p99]));
      cells.push({
        at: low,
        p99Ms: waits.length === 0 ? null : Math.max(...waits),
        timeouts: inside.reduce((sum, { timeouts }) => sum + timeouts, 0),
      });
    }
    return { type, cells };
  });
  return { from, to: end, stepMs, types: rows };
}

function levelOf(ms: number | null): number {
  if (ms === null) return 0;
  const at = HEAT.findIndex((limit) => ms < limit);
  return at === -1 ? HEAT.length : at;
}

const HEAT_WORDS = ["< 2 ms", "10 ms", "50 ms", "250 ms", "1 s", "more"];

function HeatPanel({ heat }: { readonly heat: Heat }): JSX.Element {
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
              <HeatRow key={type} type={type} cells={cells} tell={tell} />
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
                  {share === 1 ? "now" : f.hourMinute(heat.from + share * (heat.to - heat.from))}
                </text>
              ))}
            </svg>
          </div>
        )}
      </div>
    </Panel>
  );
}

function HeatRow({
  type,
  cells,
  tell,
}: {
  readonly type: string;
  readonly cells: readonly Cell[];
  readonly tell: (text: string | null) => void;
}): JSX.Element {
  const worst = Math.max(0, ...cells.map(({ p99Ms }) => p99Ms ?? 0));
  const textOf = ({ at, p99Ms, timeouts }: Cell): string =>
    `${type} ${f.hourMinute(at)}: ${p99Ms === null ? "none taken" : `p99 ${f.span(p99Ms)}`}${timeouts > 0 ? `, ${f.plural(timeouts, "time-out")}` : ""}`;
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
        aria-label={`${type}: p99 at most ${f.span(worst)}`}
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
    <table class="table">
      <thead>
        <tr>
          <th>Key</th>
          <th class="num">Held</th>
          <th class="num hide-sm">Ends</th>
          <th class="num hide-sm">Waiting</th>
          <th>
            <span class="sr">Action</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {locks.map((lock) => (
          <tr key={lock.key} class={lock.key === wanted ? "tall at" : "tall"}>
            <td class="fill">
              <span class="mono">{lock.key}</span>
              <span class="under clip" title={lock.owner}>
                {lock.trace === null ? "" : `${lock.trace} · `}
                {lock.owner}
              </span>
            </td>
            <td class={serverNow() - lock.acquiredAt > HELD_LONG_MS ? "num retry strong" : "num"}>
              <Lasting since={lock.acquiredAt} />
            </td>
            <td class="num hide-sm dim">
              <Until at={lock.expiresAt} />
            </td>
            <td class="num hide-sm">
              {lock.waiting === undefined || lock.waiting === null ? (
                <span class="faint">–</span>
              ) : lock.waiting === 0 ? (
                <span class="faint">0</span>
              ) : (
                <b>{lock.waiting}</b>
              )}
            </td>
            <td class="end">
              <Act kind="quiet" onClick={() => askRelease(lock)}>
                Release…
              </Act>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function TypeTable({ types }: { readonly types: readonly Times[] }): JSX.Element {
  return (
    <table class="table">
      <thead>
        <tr>
          <th>Type</th>
          <th class="num">Acquired</th>
          <th class="num">p50</th>
          <th class="num">p99</th>
          <th class="num">Time-outs</th>
          <th class="num hide-sm">Held most</th>
        </tr>
      </thead>
      <tbody>
        {types.map(({ type, acquisitions, timeouts, waitMs, heldMsMax }) => (
          <tr key={type}>
            <td class="name">{type}</td>
            <td class="num">{f.count(acquisitions)}</td>
            <td class="num dim">{waitMs === null ? "–" : f.span(waitMs.p50)}</td>
            <td class="num">{waitMs === null ? "–" : f.span(waitMs.p99)}</td>
            <td class="num">
              {timeouts === 0 ? (
                <span class="faint">0</span>
              ) : (
                <span class="failed strong">{f.count(timeouts)}</span>
              )}
            </td>
            <td class="num hide-sm dim">{f.span(heldMsMax)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** What to do about the type that is waited for most. */
function adviceOf(types: readonly Times[]): { readonly footer?: JSX.Element } {
  const worst = types.find(
    ({ waitMs, timeouts }) =>
      timeouts > 0 || (waitMs !== null && waitMs.p99 > 250 && waitMs.p99 > waitMs.p50 * 20),
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

function askRelease(lock: Lock): void {
  ask({
    title: `Release ${lock.key}?`,
    body: (
      <p>
        {lock.owner} holds it since <Ago at={lock.acquiredAt} word="" />. Whether it still works is
        not known: two may then work at once, unless what they write checks the fencing token.
      </p>
    ),
    reason: true,
    danger: true,
    confirm: "Release it",
    run: (answers) => write("locks/release", { key: lock.key, ...reasonIn(answers) }),
  });
}
