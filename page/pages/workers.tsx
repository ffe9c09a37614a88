/** Is a worker missing, blocked, paused or on another build? */
import type { JSX } from "preact";
import type { LeaseRecord, UnregisteredWorker, Worker } from "../api.gen.ts";
import { post } from "../client.ts";
import * as f from "../format.ts";
import { Glyph } from "../icons.tsx";
import { useKeys } from "../keys.ts";
import { useMay, useNow, useRead } from "../live.ts";
import { ask, reasonIn } from "../notices.ts";
import {
  Act,
  Ago,
  Bones,
  Btn,
  Build,
  type Children,
  Crumbs,
  Empty,
  Head,
  JobLink,
  Lasting,
  Note,
  Panel,
  Shown,
  Tag,
  Trouble,
} from "../parts.tsx";
import { Table } from "../table.tsx";
import { to, usePlace } from "../router.ts";
import { useRows } from "../rows.ts";
import { Blocked } from "./job-error.tsx";
import { LostNote, sayLost } from "./lost-workers.tsx";
import "./workers.css";

/** An event loop that is held up for longer is worth a sentence. */
const BLOCKED_MS = 500;

export function WorkersPage(): JSX.Element {
  const { query } = usePlace();
  const isStopped = query.get("stopped") === "true";
  const type = query.get("type");
  const { data, error, reload } = useRead("workers", {
    ...(isStopped ? { all: true } : {}),
    limit: 200,
  });
  const drift = useRead("drift", {}, 10_000);
  const lost = useRead("workers", isStopped ? null : { lost: true, limit: 200 });
  if (data === undefined)
    return error === null ? <Bones /> : <Trouble page="Workers" error={error} reload={reload} />;
  const ofType = data.workers.filter((worker) => type === null || worker.type === type);
  const shown = ofType.filter(({ liveness }) => (liveness === "stopped") === isStopped);
  return (
    <>
      <Head
        title="Workers"
        say={`${sayAbout(shown, isStopped)}${isStopped ? "" : sayLost(lost.data?.workers)}`}
        acts={<PageActs workers={shown} isStopped={isStopped} type={type} />}
      />
      <div class="stack">
        {error !== null && <Trouble error={error} reload={reload} />}
        {!isStopped &&
          (drift.data?.workers ?? []).map((one) => (
            <DriftNote key={one.type} {...one} workers={data.workers} />
          ))}
        {!isStopped && (
          <LostNote
            alive={data.workers}
            workers={(lost.data?.workers ?? []).filter((one) => type === null || one.type === type)}
          />
        )}
        {shown.length === 0 && data.unregistered.length === 0 && (
          <NoWorkers isStopped={isStopped} />
        )}
        <Groups workers={shown} />
        {!isStopped && type === null && <Others workers={data.unregistered} />}
      </div>
    </>
  );
}

function PageActs({
  workers,
  isStopped,
  type,
}: {
  readonly workers: readonly Worker[];
  readonly isStopped: boolean;
  readonly type: string | null;
}): JSX.Element {
  const running = workers.filter(({ desiredState }) => desiredState === "run");
  return (
    <>
      {type !== null && <Btn href={to("workers")}>All types</Btn>}
      <Btn href={to("workers", isStopped ? {} : { stopped: "true" })}>
        {isStopped ? "Alive" : "Stopped"}
      </Btn>
      {!isStopped && running.length > 0 && (
        <Act kind="danger" icon="pause" hide="sm" onClick={() => askWorkers("pause", running)}>
          Pause all…
        </Act>
      )}
    </>
  );
}

function sayAbout(workers: readonly Worker[], isStopped: boolean): string {
  if (isStopped) return `${f.plural(workers.length, "worker")} ended lately.`;
  if (workers.length === 0) return "None is alive.";
  const alive = workers.filter(({ liveness }) => liveness === "alive");
  const hosts = new Set(alive.map(({ hostname }) => hostname)).size;
  const used = alive.reduce((sum, { leases }) => sum + leases, 0);
  const slots = alive.reduce((sum, { concurrency }) => sum + concurrency, 0);
  const paused = alive.filter(({ desiredState }) => desiredState === "pause").length;
  const silent = workers.length - alive.length;
  const more = [
    ...(paused > 0 ? [`${paused} ${paused === 1 ? "is" : "are"} paused`] : []),
    ...(silent > 0 ? [`${silent} ${silent === 1 ? "does" : "do"} not answer`] : []),
  ];
  const living =
    alive.length === 0
      ? "None is alive."
      : `${alive.length} alive on ${f.plural(hosts, "host")}, ${used} of ${slots} slots in use.`;
  return `${living}${more.length === 0 ? "" : ` ${f.listed(more)}.`}`;
}

function NoWorkers({ isStopped }: { readonly isStopped: boolean }): JSX.Element {
  return (
    <section class="panel">
      <Empty title={isStopped ? "None has ended." : "No worker is alive."}>
        {isStopped ? (
          "Workers that stop or crash appear here, with the reason."
        ) : (
          <>
            Jobs wait until one starts: <code>holdfast work --tasks tasks.ts</code>
          </>
        )}
      </Empty>
    </section>
  );
}

function DriftNote({
  type,
  versions,
  workers,
}: {
  readonly type: string;
  readonly versions: readonly string[];
  readonly workers: readonly Worker[];
}): JSX.Element {
  const count = (version: string): number =>
    workers.filter(
      (worker) =>
        worker.type === type && worker.version === version && worker.liveness !== "stopped",
    ).length;
  return (
    <Note tone="warn">
      <strong>
        {versions.length === 2 ? "Two" : versions.length} builds of {type} run at once:
      </strong>{" "}
      {versions.map((version, at) => (
        <span key={version}>
          {at > 0 && ", "}
          {count(version)} × <Build id={version} />
        </span>
      ))}
      . After a deploy this should end by itself.
    </Note>
  );
}

function Groups({ workers }: { readonly workers: readonly Worker[] }): JSX.Element {
  const groups = [...Map.groupBy(workers, ({ type }) => type)];
  const flat = groups.flatMap(([, group]) => group);
  const cursor = useRows(flat.length);
  const here = flat[cursor.at];
  const { operator } = useMay();
  useKeys(
    operator && here !== undefined
      ? {
          p: () => askWorkers(here.desiredState === "pause" ? "resume" : "pause", [here]),
          s: () => askWorkers("stop", [here]),
        }
      : {},
  );
  return (
    <>
      {groups.map(([type, group]) => (
        <section key={type} class="stack tight" aria-label={type}>
          <GroupHead type={type} workers={group} />
          <div class="cards">
            {group.map((worker) => (
              <Card
                key={worker.id}
                worker={worker}
                newest={newestBuild(group)}
                isAt={worker === here}
              />
            ))}
          </div>
        </section>
      ))}
    </>
  );
}

/** The build of the worker that started last. */
function newestBuild(workers: readonly Worker[]): string {
  return workers.toSorted((a, b) => b.startedAt - a.startedAt)[0]?.version ?? "";
}

function GroupHead({
  type,
  workers,
}: {
  readonly type: string;
  readonly workers: readonly Worker[];
}): JSX.Element {
  const alive = workers.filter(({ liveness }) => liveness === "alive");
  const used = alive.reduce((sum, { leases }) => sum + leases, 0);
  const slots = alive.reduce((sum, { concurrency }) => sum + concurrency, 0);
  const queues = [...new Set(workers.flatMap((worker) => worker.queues))];
  const live = workers.filter(({ liveness }) => liveness !== "stopped");
  const paused = live.filter(({ desiredState }) => desiredState === "pause");
  const running = live.filter(({ desiredState }) => desiredState === "run");
  return (
    <div class="group">
      <h2>{type}</h2>
      <span class="sm dim">
        {live.length === 0
          ? f.plural(workers.length, "ended worker")
          : `${alive.length} alive · ${used} of ${slots} slots`}{" "}
        · {queues.length === 1 ? "queue" : "queues"} {f.listed(queues, 6)}
      </span>
      {live.length > 0 && (
        <span class="push line">
          {paused.length > 0 && (
            <Act kind="primary" onClick={() => askWorkers("resume", paused)}>
              Resume {paused.length}…
            </Act>
          )}
          {running.length > 0 && (
            <>
              <Act kind="quiet" hide="sm" onClick={() => askWorkers("pause", running)}>
                Pause…
              </Act>
              <Act kind="quiet" hide="sm" onClick={() => askWorkers("drain", running)}>
                Drain…
              </Act>
            </>
          )}
          <Act kind="quiet" hide="sm" onClick={() => askWorkers("stop", live)}>
            Stop…
          </Act>
        </span>
      )}
    </div>
  );
}

const SLOTS_MAX = 60;

function Squares({ used, of }: { readonly used: number; readonly of: number }): JSX.Element {
  return (
    <div class="slots" role="img" aria-label={`${used} of ${of} slots in use`}>
      {Array.from({ length: Math.min(of, SLOTS_MAX) }, (_, at) => (
        <i key={at} class={at < used ? "on" : ""} />
      ))}
    </div>
  );
}

function Pair({
  name,
  children,
}: {
  readonly name: string;
  readonly children: Children;
}): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function badge(worker: Worker): Children {
  if (worker.liveness === "stopped")
    return (
      <span class="sm faint">
        {worker.stoppedAt !== null && <Ago at={worker.stoppedAt} word=" ago" />}
      </span>
    );
  if (worker.liveness !== "alive")
    return <Tag tone="bad">{worker.liveness === "stale" ? "silent" : "hung"}</Tag>;
  const words: Readonly<Record<Worker["desiredState"], string | null>> = {
    run: null,
    pause: "paused",
    drain: "draining",
    stop: "stopping",
  };
  const word = words[worker.desiredState];
  if (word !== null) return <Tag tone="warn">{word}</Tag>;
  return (
    <span class="sm faint">
      up <Lasting since={worker.startedAt} />
    </span>
  );
}

function Card({
  worker,
  newest,
  isAt,
}: {
  readonly worker: Worker;
  readonly newest: string;
  readonly isAt: boolean;
}): JSX.Element {
  const now = useNow();
  const isStopped = worker.liveness === "stopped";
  const delayMs = Math.max(worker.loopDelayMs, worker.blockedMs);
  const isBlocked = delayMs > BLOCKED_MS && !isStopped;
  const isLate = worker.liveness === "stale" || worker.liveness === "hung";
  const look = isStopped ? "card off" : isBlocked || isLate ? "card warn" : "card";
  return (
    <article class={isAt ? `${look} here` : look} data-row>
      <div class="line">
        <a class="name strong clip" href={to(["workers", worker.id])} title={worker.id}>
          {f.workerName(worker.id)}
        </a>
        <span class="push nowrap">{badge(worker)}</span>
      </div>
      <div class="line sm dim">
        <span class="clip">
          {worker.hostname} · pid {worker.pid}
          {worker.slot !== null && ` · slot ${worker.slot}`}
        </span>
        <span class="push">
          <Build id={worker.version} warn={worker.version !== newest && !isStopped} />
        </span>
      </div>
      {!isStopped && <Squares used={worker.leases} of={worker.concurrency} />}
      <dl class="pairs">
        <Pair name={isStopped ? "Done" : "Slots"}>
          {isStopped ? f.brief(worker.done) : `${worker.leases} of ${worker.concurrency}`}
        </Pair>
        <Pair name="Seen">
          {isLate ? (
            <span class="failed strong">{f.age(now - worker.heartbeatAt)}</span>
          ) : (
            f.age(now - worker.heartbeatAt)
          )}
        </Pair>
        <Pair name="Loop">
          {isBlocked ? <span class="retry strong">{f.span(delayMs)}</span> : f.span(delayMs)}
        </Pair>
        <Pair name="Memory">{f.bytes(worker.memoryBytes)}</Pair>
      </dl>
      <CardNote worker={worker} isBlocked={isBlocked} />
    </article>
  );
}

function CardNote({
  worker,
  isBlocked,
}: {
  readonly worker: Worker;
  readonly isBlocked: boolean;
}): JSX.Element | null {
  const { blockedMs, blockedStack, reason, liveness, desiredState, leases, leasesLost } = worker;
  if (liveness === "stopped")
    return reason === null ? null : <p class="sm dim">It ended: {reason}.</p>;
  if (liveness === "stale")
    return (
      <p class="sm dim">
        No heartbeat for longer than its limit. Its jobs are taken back when their leases end.
      </p>
    );
  if (isBlocked) {
    return (
      <p class="sm">
        <strong class="retry">A task blocks its event loop</strong>
        <span class="dim">
          {" "}
          for {f.span(Math.max(worker.loopDelayMs, blockedMs))}
          {blockedStack !== null && (
            <>
              {" "}
              <code class="wraps">{blockedStack.split("\n")[0]}</code>
            </>
          )}
          . Its leases are renewed beside it: no job is lost.
        </span>
      </p>
    );
  }
  if (desiredState === "drain")
    return (
      <p class="sm dim">
        It ends when its {f.plural(leases, "job")} {leases === 1 ? "has" : "have"}.
      </p>
    );
  return leasesLost > 0 ? <p class="sm dim">It has lost {f.plural(leasesLost, "lease")}.</p> : null;
}

function Others({
  workers,
}: {
  readonly workers: readonly UnregisteredWorker[];
}): JSX.Element | null {
  if (workers.length === 0) return null;
  return (
    <section class="stack tight" aria-label="Others">
      <div class="group">
        <h2>Others</h2>
        <span class="sm dim">without a registration: standbys, and workers over HTTP</span>
      </div>
      <div class="cards">
        {workers.map((worker) => (
          <article key={worker.id} class="card">
            <div class="line">
              <strong class="clip" title={worker.id}>
                {f.workerName(worker.id)}
              </strong>
              <span class="push">
                <Tag>{worker.kind === "standby" ? "standby" : "HTTP"}</Tag>
              </span>
            </div>
            <div class="line sm dim">
              <span class="clip">{worker.hostname ?? "host unknown"}</span>
              {worker.version !== null && (
                <span class="push">
                  <Build id={worker.version} />
                </span>
              )}
            </div>
            <dl class="pairs">
              <Pair name="Jobs">{worker.leases}</Pair>
              <Pair name="Seen">
                <Ago at={worker.heartbeatAt} />
              </Pair>
            </dl>
          </article>
        ))}
      </div>
    </section>
  );
}

type WorkerAction = "pause" | "resume" | "drain" | "stop";

const WHAT: Readonly<Record<WorkerAction, (jobs: number) => string>> = {
  pause: (jobs) =>
    jobs === 0
      ? "They run no job now, and take no new ones."
      : `They finish the ${f.plural(jobs, "job")} they run, and take no new ones.`,
  resume: () => "They take jobs again.",
  drain: (jobs) =>
    jobs === 0
      ? "They run no job now, so they end at once."
      : `They finish the ${f.plural(jobs, "job")} they run, then end.`,
  stop: (jobs) =>
    jobs === 0
      ? "They end."
      : `They end. Of the ${f.plural(jobs, "job")} they run, those that do not finish in time are handed back and run elsewhere; no attempt is charged.`,
};

function askWorkers(action: WorkerAction, workers: readonly Worker[]): void {
  const [only] = workers;
  const jobs = workers.reduce((sum, { leases }) => sum + leases, 0);
  const many =
    workers.length === 1 && only !== undefined
      ? f.workerName(only.id)
      : f.plural(workers.length, "worker");
  const verb = action.replace(/^./, (first) => first.toUpperCase());
  ask({
    title: `${verb} ${many}?`,
    body: <p>{WHAT[action](jobs)}</p>,
    reason: true,
    danger: action === "stop" || action === "drain",
    confirm: `${verb} ${many}`,
    run: async (answers) => {
      for (const { id } of workers)
        await post(`workers/{id}/${action}`, { id, ...reasonIn(answers) });
    },
  });
}

export function WorkerPage({ id }: { readonly id: string }): JSX.Element {
  const from = useRead("workers/{id}", { id });
  const leases = useRead("leases", { worker: id, limit: 100 });
  return (
    <>
      <Crumbs>{[<a href={to("workers")}>Workers</a>, <span class="mono dim">{id}</span>]}</Crumbs>
      <Shown from={from} page={f.workerName(id)}>
        {(data) =>
          "worker" in data ? (
            <OneWorker worker={data.worker} leases={leases.data?.leases ?? []} />
          ) : (
            <Others workers={[data.unregistered]} />
          )
        }
      </Shown>
    </>
  );
}

function OneWorker({
  worker,
  leases,
}: {
  readonly worker: Worker;
  readonly leases: readonly LeaseRecord[];
}): JSX.Element {
  const { operator } = useMay();
  const isAlive = worker.liveness !== "stopped";
  const isPaused = worker.desiredState === "pause";
  useKeys(
    operator && isAlive
      ? {
          p: () => askWorkers(isPaused ? "resume" : "pause", [worker]),
          s: () => askWorkers("stop", [worker]),
        }
      : {},
  );
  return (
    <>
      <Head
        title={f.workerName(worker.id)}
        tag={badge(worker)}
        say={`${worker.type} on ${worker.hostname}, pid ${worker.pid}, Node ${worker.nodeVersion}.`}
        acts={
          isAlive ? (
            <>
              <Act hint="p" onClick={() => askWorkers(isPaused ? "resume" : "pause", [worker])}>
                {isPaused ? "Resume…" : "Pause…"}
              </Act>
              <Act onClick={() => askWorkers("drain", [worker])}>Drain…</Act>
              <Act kind="danger" hint="s" onClick={() => askWorkers("stop", [worker])}>
                Stop…
              </Act>
            </>
          ) : undefined
        }
      />
      <div class="cols-side">
        <div class="stack">
          {worker.blockedStack !== null && isAlive && (
            <Blocked ms={worker.blockedMs} stack={worker.blockedStack} />
          )}
          <Panel title="Runs now" aside={f.plural(leases.length, "job")}>
            {leases.length === 0 ? (
              <p class="body dim">Nothing.</p>
            ) : (
              <LeaseTable leases={leases} />
            )}
          </Panel>
        </div>
        <div class="stack">
          <Card worker={worker} newest={worker.version} isAt={false} />
          <Panel
            title="So far"
            aside={
              <>
                as of its last heartbeat, <Ago at={worker.heartbeatAt} word=" ago" />
              </>
            }
          >
            <div class="body">
              <dl class="facts">
                <dt>Claimed</dt>
                <dd>{f.count(worker.claimed)}</dd>
                <dt>Done</dt>
                <dd>{f.count(worker.done)}</dd>
                <dt>Retried</dt>
                <dd>{f.count(worker.retried)}</dd>
                <dt>Failed</dt>
                <dd>{f.count(worker.failed)}</dd>
                <dt>Leases lost</dt>
                <dd>{f.count(worker.leasesLost)}</dd>
                <dt>Longest gap</dt>
                <dd>{f.span(worker.gapMsMax)} between heartbeats</dd>
                <dt>Queues</dt>
                <dd>{f.listed(worker.queues, 12)}</dd>
                <dt>Tasks</dt>
                <dd>{f.listed(worker.tasks, 30)}</dd>
              </dl>
            </div>
          </Panel>
        </div>
      </div>
    </>
  );
}

function LeaseTable({ leases }: { readonly leases: readonly LeaseRecord[] }): JSX.Element {
  return (
    <Table
      at={-1}
      rows={leases}
      keyOf={({ id }) => id}
      columns={[
        {
          name: "Task",
          cell: ({ id, task }) => (
            <span class="line">
              <Glyph status="processing" />
              <span class="name clip">
                <JobLink id={id}>{task}</JobLink>
              </span>
            </span>
          ),
        },
        { name: "Queue", hide: "sm", look: "dim", cell: ({ queue }) => queue },
        {
          name: "Attempt",
          align: "end",
          look: "dim",
          width: 88,
          cell: ({ attempt }) => attempt,
        },
        {
          name: "Runs for",
          align: "end",
          width: 112,
          cell: ({ claimedAt }) => <Lasting since={claimedAt} />,
        },
      ]}
    />
  );
}
