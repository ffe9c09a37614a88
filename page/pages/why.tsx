/**
 * Why a job, or the jobs of a queue, do not run: the sentence is made from the facts, with links to what it names and times
 * that tick. The sentence of the server is for terminals.
 */
import type { JSX } from "preact";
import type {
  BusyFacts,
  ConcurrencyLimitFacts,
  ExpiredFacts,
  HeldFacts,
  JobExplanation,
  JobStory,
  NoWorkerFacts,
  QueueExplanation,
  RateLimitFacts,
  RunningFacts,
  WaitsForEventFacts,
  WaitsForJobsFacts,
} from "../api.gen.ts";
import * as f from "../format.ts";
import { wordOf } from "../icons.tsx";
import {
  Ago,
  type Children,
  JobLink,
  Lasting,
  Moment,
  QueueLink,
  Until,
  WorkerLink,
} from "../parts.tsx";
import { to } from "../router.ts";
import { Ended, FailedAttempt } from "./why-ended.tsx";

type Reason = JobExplanation | QueueExplanation;
type Facts<Name> = Extract<Reason, { reason: Name }>["facts"];

/** What facts do not have. */
interface About {
  readonly story: JobStory | undefined;
  readonly its: "Its" | "The";
  readonly it: "it" | "its jobs";
}

type Words = {
  readonly [Name in Reason["reason"]]: (facts: Facts<Name>, about: About) => JSX.Element;
};

/** Workers and queues that a sentence names. */
const NAMED_MAX = 3;

export function Why({
  of: { reason, facts },
  story,
  ofJob = story !== undefined,
}: {
  readonly of: Reason;
  readonly story?: JobStory;
  /** A job is explained, of which no more is known. */
  readonly ofJob?: boolean;
}): JSX.Element {
  const whose = ofJob
    ? ({ its: "Its", it: "it" } as const)
    : ({ its: "The", it: "its jobs" } as const);
  // Each function gets the facts of its own reason.
  const say = WORDS[reason] as (facts: Reason["facts"], about: About) => JSX.Element;
  return say(facts, { story, ...whose });
}

const WORDS: Words = {
  running: (claim) => <Running {...claim}>.</Running>,
  cancelling: (claim) => (
    <Running {...claim}>
      . It was asked to stop <Ago at={claim.requestedAt} word=" ago" />.
    </Running>
  ),
  "lease-expired": ({ attempt, maxAttempts, worker, lockedUntil }) => (
    <>
      Attempt {attempt} of {maxAttempts} ran on <WorkerLink id={worker} />, whose lease ended{" "}
      <Ago at={lockedUntil} word=" ago" />. The next worker that runs maintenance takes the job
      back.
    </>
  ),
  ended: (facts, { story }) => <Ended facts={facts} story={story} />,
  expired: (facts) => <Expired {...facts} />,
  scheduled: ({ dueAt }) => (
    <>
      It starts <Soon at={dueAt} />.
    </>
  ),
  due: ({ dueAt }) => (
    <>
      It was due at <Moment at={dueAt} />, and becomes pending when a worker next runs maintenance.
    </>
  ),
  "backing-off": ({ attempt, maxAttempts, until }, { story }) => (
    <>
      Attempt {attempt + 1} of {maxAttempts} starts <Soon at={until} />, because attempt {attempt}{" "}
      failed
      <FailedAttempt story={story} />.
    </>
  ),
  "waits-for-jobs": (facts, { story }) => <WaitsForJobs {...facts} flow={story?.flow ?? null} />,
  "waits-for-event": (facts) => <WaitsForEvent {...facts} />,
  sleeping: ({ until, why }) => (
    <>
      It {why === null ? "sleeps" : "was put off"} until <Moment at={until} />, <Until at={until} />
      {why !== null && `: ${f.clause(why)}`}.
    </>
  ),
  "effect-in-doubt": ({ effects }) => (
    <>
      It waits for an operator: it is not known whether{" "}
      {f.listed(effects.map(({ name }) => `“${name}”`))} happened.
    </>
  ),
  stuck: () => (
    <>
      It waits, but no time, event, job or effect is recorded that it waits for. Run{" "}
      <span class="mono">holdfast doctor</span> to find out more.
    </>
  ),
  paused: ({ queue, lane, by, at, why }, { its }) => (
    <>
      {its} {lane !== null && `lane ${lane} in the `}queue <QueueLink name={queue} /> is paused:{" "}
      {by} paused it <Ago at={at} word=" ago" />
      {why !== null && `, “${why}”`}.
    </>
  ),
  "no-worker": (facts, { its }) => <NoWorker {...facts} its={its} />,
  "workers-paused": ({ workers }, { it }) =>
    workers.length === 1 ? (
      <>
        Worker <Workers ids={workers} />, the only one that could run {it}, is paused.
      </>
    ) : (
      <>
        All workers that could run {it}, <Workers ids={workers} />, are paused.
      </>
    ),
  "concurrency-limit": (facts, { its }) => <AtLimit {...facts} its={its} />,
  "rate-limit": (facts, { its }) => <AtRate {...facts} its={its} />,
  "workers-busy": (busy, { it }) => (
    <>
      {it === "it" ? "It is next" : "Jobs are pending"}, but <Busy {...busy} it={it} />.
    </>
  ),
  behind: ({ before, isMore, queue, lane, busy }, { it }) => (
    <>
      {jobs(before, isMore)} {before === 1 ? "comes" : "come"} before it in{" "}
      {lane === null ? "" : `its lane “${lane}” of `}the queue <QueueLink name={queue} />
      {busy !== null && (
        <>
          , and <Busy {...busy} it={it} />
        </>
      )}
      .
    </>
  ),
  next: ({ queue }) => (
    <>
      Nothing holds it back: the next worker that polls the queue <QueueLink name={queue} /> takes
      it.
    </>
  ),
  empty: ({ running }) => <>No job is pending{runningText(running)}.</>,
  held: (facts) => <Held {...facts} />,
  moving: ({ pending, running }) => (
    <>
      {jobs(pending.count, pending.isMore)} {pending.count === 1 ? "is" : "are"} pending
      {running.count === 0 ? ", and workers are free to take them" : runningText(running)}.
    </>
  ),
};

function jobs(count: number, isMore: boolean): string {
  return `${isMore ? "More than " : ""}${f.plural(count, "job")}`;
}

function runningText({ count }: { readonly count: number }): string {
  return count === 0 ? "" : `; ${f.plural(count, "job")} ${count === 1 ? "runs" : "run"}`;
}

function Expired({ startBy, finishedAt }: ExpiredFacts): JSX.Element {
  return (
    <>
      It{" "}
      {finishedAt === null ? (
        "has expired"
      ) : (
        <>
          expired <Ago at={finishedAt} word=" ago" />
        </>
      )}
      : no worker had started it{" "}
      {startBy === null ? (
        "in time"
      ) : (
        <>
          by <Moment at={startBy} />
        </>
      )}
      .
    </>
  );
}

/** "in 3 min 12 s, at 10:50:24". */
function Soon({ at }: { readonly at: number }): JSX.Element {
  return (
    <>
      <b>
        <Until at={at} />
      </b>
      , at <Moment at={at} />
    </>
  );
}

/** "a", "a and b", "a, b and c". */
function Listed({ of }: { readonly of: readonly Children[] }): JSX.Element {
  return (
    <>
      {of.map((one, at) => (
        <span key={at}>
          {at === 0 ? "" : at === of.length - 1 ? " and " : ", "}
          {one}
        </span>
      ))}
    </>
  );
}

/** The first few of them; the rest is counted. */
function Some({ of }: { readonly of: readonly Children[] }): JSX.Element {
  const more = of.length - NAMED_MAX;
  return <Listed of={more > 0 ? [...of.slice(0, NAMED_MAX), `${more} more`] : of} />;
}

function Workers({ ids }: { readonly ids: readonly string[] }): JSX.Element {
  return (
    <Some
      of={ids.map((id) => (
        <WorkerLink key={id} id={id} />
      ))}
    />
  );
}

function Running({
  attempt,
  maxAttempts,
  worker,
  claimedAt,
  children,
}: RunningFacts & { readonly children: Children }): JSX.Element {
  return (
    <>
      Attempt {attempt} of {maxAttempts} runs on <WorkerLink id={worker} /> since{" "}
      <Moment at={claimedAt} />
      {children}
    </>
  );
}

function WaitsForJobs({
  count,
  jobs: some,
  until,
  flow,
}: WaitsForJobsFacts & { readonly flow: string | null }): JSX.Element {
  const named = some.map(({ id, task, status }) => (
    <>
      <JobLink id={id}>{task ?? f.shortId(id)}</JobLink>
      {status === null ? " (deleted)" : `, ${wordOf(status)}`}
    </>
  ));
  const isAll = named.length === count;
  return (
    <>
      It waits for {count === 1 ? "a job" : f.plural(count, "job")}
      {flow !== null && (
        <>
          {" "}
          of <a href={to(["flows", flow])}>its flow</a>
        </>
      )}{" "}
      to end{named.length === 0 ? "" : isAll ? ": " : ", among them "}
      <Listed of={named} />
      <AtTheLatest at={until} />.
    </>
  );
}

function WaitsForEvent({ events, until }: WaitsForEventFacts): JSX.Element {
  return (
    <>
      It waits for {events.length === 1 ? "the event " : "one of the events "}
      <Listed
        of={events.map(({ name, key }) => (
          <>
            <b>{name}</b> with the key <span class="mono">{key}</span>
          </>
        ))}
      />
      <AtTheLatest at={until} />.
    </>
  );
}

function AtTheLatest({ at }: { readonly at: number | null }): JSX.Element | null {
  if (at === null) return null;
  return (
    <>
      , until <Moment at={at} /> at the latest
    </>
  );
}

function NoWorker({
  missing,
  queue,
  task,
  silent,
  known,
  its,
}: NoWorkerFacts & { readonly its: string }): JSX.Element {
  const whose = its.toLowerCase();
  return (
    <>
      {missing === "worker" && "No worker is running"}
      {missing === "queue" && (
        <>
          No live worker serves {whose} queue <QueueLink name={queue} />
        </>
      )}
      {(missing === "task" || missing === "version") && (
        <>
          No live worker of the queue <QueueLink name={queue} /> knows the task {task}
          {missing === "version" && " in this version"}
        </>
      )}
      {silent !== null ? (
        <>
          ; <WorkerLink id={silent.worker} />, which could take it, sent its last heartbeat{" "}
          <Ago at={silent.heartbeatAt} word=" ago" />
        </>
      ) : known.length === 0 ? (
        ""
      ) : missing === "version" ? (
        `; they know ${f.listed(known)}`
      ) : (
        <>
          ; the workers that know {task} serve{" "}
          <Some
            of={known.map((name) => (
              <QueueLink key={name} name={name} />
            ))}
          />
        </>
      )}
      .
    </>
  );
}

/** "Its queue mail", "Its lane “acme” in the queue mail". */
function Limited({
  queue,
  of,
  name,
  its,
}: Pick<RateLimitFacts, "queue" | "of" | "name"> & { readonly its: string }): JSX.Element {
  return (
    <>
      {its} {of === "queue" ? "queue" : `${of} “${name ?? ""}” in the queue`}{" "}
      <QueueLink name={queue} />
    </>
  );
}

function AtLimit(facts: ConcurrencyLimitFacts & { readonly its: string }): JSX.Element {
  const { limit, running, longest } = facts;
  if (limit === 0 && running === 0)
    return (
      <>
        <Limited {...facts} /> has a limit of 0, so no job may start.
      </>
    );
  return (
    <>
      <Limited {...facts} /> runs at most {f.plural(limit, "job")} at once, and {f.count(running)}{" "}
      {running === 1 ? "runs" : "run"}
      {longest !== null && (
        <>
          : {running === 1 ? "" : "the longest is "}
          <JobLink id={longest.job}>{longest.task}</JobLink>, on <WorkerLink id={longest.worker} />{" "}
          for <Lasting since={longest.claimedAt} />
        </>
      )}
      .
    </>
  );
}

function AtRate(facts: RateLimitFacts & { readonly its: string }): JSX.Element {
  return (
    <>
      <Limited {...facts} /> starts at most {f.plural(facts.count, "job")} in{" "}
      {f.span(facts.periodMs)}, and the next may start <Until at={facts.freeAt} />.
    </>
  );
}

/** "all 2 workers that could run it, a and b, run 20 jobs, as many as they may". */
function Busy({ workers, places, it }: BusyFacts & { readonly it: string }): JSX.Element {
  const isOne = workers.length === 1;
  return (
    <>
      <Workers ids={workers} />, {isOne ? "the only worker" : "all workers"} that could run {it},{" "}
      {isOne ? "runs" : "run"} {f.plural(places, "job")}, as many as {isOne ? "it" : "they"} may
    </>
  );
}

function Held({ job, because }: HeldFacts): JSX.Element {
  return (
    <>
      <JobLink id={job}>The first job</JobLink> does not start. <Why of={because} ofJob />
    </>
  );
}
