/** Is a worker missing? One that is gone is in no list of those that are alive. */
import type { JSX } from "preact";
import type { Worker } from "../api.gen.ts";
import * as f from "../format.ts";
import { Ago, Note, WorkerLink } from "../parts.tsx";

/** Of the sentence on top. */
export function sayLost(lost: readonly Worker[] | undefined): string {
  if (lost === undefined) return "";
  return lost.length === 0 ? " None was lost in the last hour." : "";
}

const LOST_SHOWN_MAX = 8;

/** How each of them was found dead. */
const LOST: ReadonlyMap<string | null, string> = new Map([
  ["gone", "process gone"],
  ["stale", "no heartbeat"],
  ["hung", "did not end in time"],
]);

export function LostNote({
  workers,
  alive,
}: {
  readonly workers: readonly Worker[];
  readonly alive: readonly Worker[];
}): JSX.Element | null {
  if (workers.length === 0) return null;
  const shown = workers
    .toSorted((a, b) => (b.stoppedAt ?? 0) - (a.stoppedAt ?? 0))
    .slice(0, LOST_SHOWN_MAX);
  return (
    <Note tone="warn">
      <strong>{f.plural(workers.length, "worker")} lost in the last hour:</strong>{" "}
      {shown.map((worker, at) => (
        <span key={worker.id}>
          {at > 0 && ", "}
          <WorkerLink id={worker.id} /> (<HowLost worker={worker} alive={alive} />
          {worker.stoppedAt !== null && (
            <>
              , <Ago at={worker.stoppedAt} word=" ago" />
            </>
          )}
          )
        </span>
      ))}
      {workers.length > shown.length && ` and ${f.count(workers.length - shown.length)} more`}.
      {workers.length === 1 ? "Its" : "Their"} jobs were taken back.
    </Note>
  );
}

/** A process that was only silent for too long goes on under another id. */
function HowLost({
  worker,
  alive,
}: {
  readonly worker: Worker;
  readonly alive: readonly Worker[];
}): JSX.Element {
  const { hostname, pid, type } = worker;
  const again = alive.find(
    (other) =>
      other.id !== worker.id &&
      other.hostname === hostname &&
      other.pid === pid &&
      other.type === type &&
      other.startedAt >= worker.heartbeatAt,
  );
  if (again === undefined) return <>{LOST.get(worker.reason) ?? worker.reason}</>;
  return (
    <>
      evicted for want of a heartbeat, goes on as <WorkerLink id={again.id} />
    </>
  );
}
