/** Which lock is contended: who holds it, who waits, and how many gave up. */
import type { JSX } from "preact";
import type { ContendedLock } from "../api.gen.ts";
import * as f from "../format.ts";
import type { Data } from "../live.ts";
import { Act, Ago, Empty, Lasting, Panel, Shown } from "../parts.tsx";
import { to } from "../router.ts";
import { type Column, Table } from "../table.tsx";
import { askRelease } from "./release-lock.tsx";

export function ContendedPanel({
  from,
}: {
  readonly from: Data<{ locks: readonly ContendedLock[] }>;
}): JSX.Element {
  return (
    <Panel title="Contended" aside="waited for now, or given up in the last hour">
      <Shown from={from} rows={2}>
        {({ locks }) =>
          locks.length === 0 ? (
            <Empty title="No lock is contended.">
              Nothing waits for a lock, and no request gave up in the last hour.
            </Empty>
          ) : (
            <Table rows={locks} keyOf={({ key }) => key} columns={COLUMNS} tall />
          )
        }
      </Shown>
    </Panel>
  );
}

const COLUMNS: readonly Column<ContendedLock>[] = [
  {
    name: "Key",
    min: 128,
    cell: ({ key }) => (
      <a class="name mono clip" href={to("locks", { key })}>
        {key}
      </a>
    ),
  },
  { name: "Held by", min: 144, hide: "sm", cell: ({ holder }) => <Holder of={holder} /> },
  {
    name: "Held",
    align: "end",
    width: 96,
    narrow: 80,
    cell: ({ holder }) =>
      holder === null ? <span class="faint">–</span> : <Lasting since={holder.acquiredAt} />,
  },
  { name: "Waiting", min: 128, cell: (lock) => <Waiters of={lock} /> },
  {
    name: "Timed out, 1 h",
    align: "end",
    width: 112,
    hide: "sm",
    cell: ({ timeouts }) =>
      timeouts === 0 ? (
        <span class="faint">0</span>
      ) : (
        <span class="failed strong">{f.count(timeouts)}</span>
      ),
  },
  {
    name: "Action",
    heading: null,
    hide: "md",
    align: "end",
    width: 120,
    cell: ({ holder }) =>
      holder !== null && (
        <Act kind="quiet" onClick={() => askRelease(holder)}>
          Release…
        </Act>
      ),
  },
];

function Holder({ of }: { readonly of: ContendedLock["holder"] }): JSX.Element {
  if (of === null) return <span class="dim">free</span>;
  return (
    <>
      <span class="clip">{of.owner}</span>
      {of.trace !== null && <span class="under clip">{of.trace}</span>}
    </>
  );
}

/** "3, the first for 8 s" with the processes in which they wait. */
function Waiters({ of: { waiting, waiters } }: { readonly of: ContendedLock }): JSX.Element {
  const [first] = waiters;
  if (first === undefined) return <span class="faint">0</span>;
  const owners = f.listed(waiters.map(({ owner }) => owner));
  return (
    <>
      <span class="retry strong">{f.count(waiting)}</span>{" "}
      <span class="dim">
        since <Ago at={first.since} />
      </span>
      <span class="under clip" title={owners}>
        {owners}
      </span>
    </>
  );
}
