/** Shows workers: as a table, and in detail. */
import { shortIds } from "../core/id.ts";
import { isKnownVersion } from "../core/version.ts";
import { type Cell, counted, facts, moment, relative, span, table } from "../terminal/table.ts";
import type { Colors, Terminal } from "../terminal/terminal.ts";
import type { UnregisteredWorker, WorkerRecord, WorkerState } from "./worker-record.ts";
import { driftOf } from "./workers.ts";

/** A worker without what identifies its process on its host. */
export interface WorkerView extends Omit<WorkerRecord, "hostBoot" | "processStart"> {
  /** Its process ran on this host, and exists no longer. */
  readonly gone: boolean;
}

/** From this width on, the table also shows where the workers run. */
const WIDE = 120;

const BYTES_PER_MB = 1e6;

export function workerTable(
  workers: readonly WorkerView[],
  others: readonly UnregisteredWorker[],
  { columns, colors }: Pick<Terminal, "columns" | "colors">,
): string[] {
  const drifting = new Set(driftOf(workers).map(({ type }) => type));
  const wide = columns === null || columns >= WIDE;
  const names = wide ? null : shortNames(workers);
  return table({
    columns: [
      { title: "WORKER", flexible: true },
      { title: "STATUS" },
      { title: "VERSION", flexible: true },
      { title: "SEEN", align: "right" },
      { title: "JOBS", align: "right" },
      { title: "DONE", align: "right" },
      ...(wide ? [{ title: "HOST", flexible: true }] : []),
    ],
    rows: [
      ...workers.map((worker): (string | Cell)[] => [
        names?.get(worker.id) ?? worker.id,
        { text: standing(worker), paint: paintOf(colors, worker) },
        { text: versionText(worker), paint: drifting.has(worker.type) ? colors.yellow : String },
        span(worker.silentMs),
        String(worker.leases),
        String(worker.done),
        ...(wide ? [`${worker.hostname}:${worker.pid}`] : []),
      ]),
      ...others.map((worker): (string | Cell)[] => [
        worker.id,
        { text: KINDS[worker.kind], paint: colors.cyan },
        versionText(worker),
        span(worker.silentMs),
        String(worker.leases),
        UNKNOWN,
        ...(wide ? [whereOf(worker) ?? UNKNOWN] : []),
      ]),
    ],
    width: columns,
    paintTitle: colors.bold,
  });
}

/** Unregistered: a standby, or a program that claims jobs over HTTP or with the lease API. */
const KINDS = { standby: "standby", leases: "external" } as const;

const UNKNOWN = "–";

/** A generated version, used if the build is unknown, is not worth showing. */
export function versionText({ version }: { readonly version: string | null }): string {
  return version !== null && isKnownVersion(version) ? version : UNKNOWN;
}

function whereOf({ hostname, pid }: UnregisteredWorker): string | null {
  return hostname === null ? null : `${hostname}:${pid}`;
}

export function portraitOfUnregistered(worker: UnregisteredWorker, { colors }: Terminal): string[] {
  const now = worker.heartbeatAt + worker.silentMs;
  const lines = facts(colors, {
    status: `${KINDS[worker.kind]}, not registered`,
    version: worker.version === null ? null : versionText(worker),
    process: whereOf(worker),
    queues: worker.queues.join(", "),
    tasks: worker.tasks?.join(", ") ?? "any",
    started: moment(worker.startedAt, now),
    seen: relative(worker.heartbeatAt, now),
    jobs: `holds ${worker.leases}`,
  });
  return [colors.bold(worker.id), ...lines];
}

const rest = ({ id, type }: WorkerView): string => id.slice(type.length + 1);

/** Short ids that can be typed: the type, and enough of the rest to tell them apart. */
function shortNames(workers: readonly WorkerView[]): Map<string, string> {
  const short = shortIds(workers.map(rest), []);
  return new Map(
    workers.map((worker) => [
      worker.id,
      `${worker.type}-${short.get(rest(worker)) ?? rest(worker)}`,
    ]),
  );
}

/** Combines the status with the desired state. A dead worker may not have recorded its end. */
function standing(worker: WorkerView): string {
  const { status, reason, desiredState } = worker;
  if (status === "stopped") return reason === null || reason === "asked" ? status : reason;
  return (
    deathOf(worker) ??
    (status === "running" && desiredState !== "run" ? DESIRED[desiredState] : status)
  );
}

/** Why a worker that has not stopped is dead; null: it is alive, as far as this host can tell. */
function deathOf(worker: WorkerView): "gone" | "stale" | "hung" | null {
  const { liveness, gone } = worker;
  if (liveness === "stopped") return null;
  if (gone) return "gone";
  return liveness === "alive" ? null : liveness;
}

const DESIRED = { pause: "paused", drain: "draining", stop: "stopping" } as const;

const TONES = {
  starting: "cyan",
  running: "green",
  stopping: "yellow",
  stopped: "dim",
} as const satisfies Record<WorkerState, keyof Colors>;

function paintOf(colors: Colors, worker: WorkerView): (text: string) => string {
  const { status, desiredState, reason } = worker;
  if (deathOf(worker) !== null) return colors.red;
  if (status === "running" && desiredState !== "run") return colors.yellow;
  if (status === "stopped" && reason !== null && reason !== "asked") return colors.red;
  return colors[TONES[status]];
}

export function portrait(worker: WorkerView, { colors }: Terminal): string[] {
  const now = worker.heartbeatAt + worker.silentMs; // by the database's clock, as all these times are
  const lines = facts(colors, {
    status: { text: standing(worker), paint: paintOf(colors, worker) },
    reason: worker.reason,
    slot: worker.slot === null ? null : `${worker.slot} (instance ${worker.instance})`,
    version: versionText(worker),
    process: `${worker.pid} on ${worker.hostname}`,
    node: `${worker.nodeVersion}, ${worker.platform} ${worker.arch}`,
    queues: worker.queues.join(", "),
    tasks: worker.tasks.join(", "),
    started: moment(worker.startedAt, now),
    seen: `${relative(worker.heartbeatAt, now)}; ${counted(worker.heartbeats, "heartbeat")}, longest gap ${span(worker.gapMsMax)}`,
    stopped: worker.stoppedAt === null ? null : moment(worker.stoppedAt, now),
    jobs: `holds ${worker.leases} of ${worker.concurrency}; ${worker.claimed} claimed, ${worker.done} done, ${worker.retried} retried, ${worker.failed} failed`,
    lost: worker.leasesLost === 0 ? null : counted(worker.leasesLost, "lease"),
    memory: `${Math.round(worker.memoryBytes / BYTES_PER_MB)} MB; event loop delay ${worker.loopDelayMs} ms`,
  });
  return [colors.bold(worker.id), ...lines];
}
