/** Why is it where it is, what happens next and when, and what will not be done twice? */
import type { JSX } from "preact";
import * as f from "../format.ts";
import { Glyph } from "../icons.tsx";
import { JsonPanel } from "../json.tsx";
import { useKeys } from "../keys.ts";
import { useMay, useRead } from "../live.ts";
import { toast } from "../notices.ts";
import {
  Ago,
  Bones,
  Build,
  type Children,
  Copy,
  copyText,
  Crumbs,
  Info,
  JobLink,
  Moment,
  Note,
  Panel,
  QueueLink,
  State,
  Tag,
  TaskLink,
  Trouble,
  WorkerLink,
} from "../parts.tsx";
import { setQuery, to, usePlace } from "../router.ts";
import type { Job, JobStory, Report, Step } from "../api.gen.ts";
import { useAttempts } from "./attempts.ts";
import { may } from "./job-actions.tsx";
import { JobButtons, resolveEffect, retryJob, runNow, askCancel } from "./job-buttons.tsx";
import { Blocked, ErrorPanel } from "./job-error.tsx";
import { Gantt } from "./gantt.tsx";
import { Related } from "./related.tsx";
import { Why } from "./why.tsx";
import "./job.css";

const STORY_EVERY_MS = 3_000;

/** The tag that the server gives a replay. */
const REPLAY_OF = "replay-of:";

export function JobPage({ id }: { readonly id: string }): JSX.Element {
  const { data, error, reload } = useRead("jobs/{id}/story", { id }, STORY_EVERY_MS);
  const reports = useRead("jobs/{id}/events", { id, newest: true, limit: 200 }, STORY_EVERY_MS);
  if (data === undefined)
    return error === null ? (
      <Bones rows={10} />
    ) : (
      <Trouble page="Job" error={error} reload={reload} />
    );
  return <JobView story={data} reports={reports.data?.reports ?? []} />;
}

function JobView({
  story,
  reports,
}: {
  readonly story: JobStory;
  readonly reports: readonly Report[];
}): JSX.Element {
  const { job } = story;
  const past = useAttempts(story);
  const { operator } = useMay();
  const { query } = usePlace();
  const failed = past.all.filter(({ error }) => error !== null).map(({ epoch }) => epoch);
  const at = failed.indexOf(Number(query.get("attempt") ?? failed.at(-1)));
  const turn = (by: number): void => {
    const next = failed[at + by];
    if (next !== undefined) setQuery({ attempt: String(next) }, "replace");
  };
  useKeys({
    y: () => copyText(job.id).then(() => toast("Copied the id.")),
    Y: () => copyText(globalThis.location.href).then(() => toast("Copied the link.")),
    "]": () => turn(1),
    "[": () => turn(-1),
    ...(operator && may("runNow", job) ? { r: () => void runNow(job) } : {}),
    ...(operator && may("retry", job) ? { r: () => void retryJob(job) } : {}),
    ...(operator && may("cancel", job) ? { c: () => askCancel(job) } : {}),
  });
  const progress = reports.findLast((one) => one.kind === "progress");
  return (
    <>
      <Crumbs>
        {[
          <a href={to("jobs")}>Jobs</a>,
          <TaskLink name={job.task} />,
          <>
            <span class="mono dim">{job.id}</span>
            <Copy tiny text={job.id} label="Copy id (y)" />
          </>,
        ]}
      </Crumbs>
      <div class="head">
        <div class="grow">
          <div class="line wrap">
            <h1>{job.task}</h1>
            {job.key !== null && <span class="mono dim">{job.key}</span>}
            <State badge status={job.status} />
          </div>
          <Explained story={story} />
        </div>
        <JobButtons story={story} />
      </div>
      <div class="cols-side">
        <div class="stack">
          {job.inDoubt !== null && (
            <InDoubt job={job} step={story.steps.find(({ status }) => status === "doubt")} />
          )}
          {story.blocked !== null && <Blocked {...story.blocked} />}
          {job.status === "processing" && progress !== undefined && <Progress report={progress} />}
          <Gantt story={story} />
          <ErrorPanel story={story} attempts={past} reports={reports} />
          <div class="cols-2">
            <JsonPanel title="Payload" value={job.input} none="None: the task takes no input." />
            <JsonPanel title="Result" value={job.result} none={noResult(job)} />
          </div>
        </div>
        <div class="stack">
          <Facts story={story} />
          <Effects steps={story.steps} />
          <Related story={story} />
          <ByHand story={story} />
        </div>
      </div>
    </>
  );
}

function Explained({ story }: { readonly story: JobStory }): JSX.Element {
  const { job, explanation, steps } = story;
  const made = steps
    .filter(({ kind, status }) => kind === "effect" && status === "done")
    .map(({ name }) => name);
  const isOne = made.length === 1;
  return (
    <p class="say explain">
      {explanation !== null && <Why of={explanation} story={story} />}
      {made.length > 0 &&
        job.status !== "done" &&
        ` The effect${isOne ? "" : "s"} ${f.listed(made)} ${isOne ? "was" : "were"} made and will not be made again.`}
    </p>
  );
}

function noResult({ status }: Job): string {
  if (status === "done") return "None: the task returned nothing.";
  if (may("replay", { status })) return "None: only a job that is done has a result.";
  return "None yet. It appears here when the job is done.";
}

function Progress({
  report,
}: {
  readonly report: Extract<Report, { kind: "progress" }>;
}): JSX.Element {
  const share = Math.round(report.share * 100);
  return (
    <Panel title="Progress" aside={`${share} %`}>
      <div class="body">
        <svg class="gauge tallg" role="img" aria-label={`${share} percent`}>
          <rect class="g-bg" width="100%" height="8" rx="2" />
          <rect class="g-run" width={`${share}%`} height="8" rx="2" />
        </svg>
        {report.text !== null && <p class="sm dim progress-text">{report.text}</p>}
      </div>
    </Panel>
  );
}

function InDoubt({
  job,
  step,
}: {
  readonly job: Job;
  readonly step: Step | undefined;
}): JSX.Element {
  const { operator } = useMay();
  return (
    <Note
      tone="warn"
      right={
        operator && step !== undefined ? (
          <span class="line">{resolveEffect(job, step)}</span>
        ) : undefined
      }
    >
      <strong>It is not known whether “{job.inDoubt}” happened.</strong> Its worker ended between
      the intent and the answer. Look on the other side, then say what you found: the job goes on
      from there, and nothing is done twice.
    </Note>
  );
}

function Fact({
  name,
  children,
}: {
  readonly name: string;
  readonly children: Children;
}): JSX.Element {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function Facts({ story }: { readonly story: JobStory }): JSX.Element {
  const { job, attempts, item, startBy } = story;
  const last = attempts.at(-1);
  const build = last?.build ?? null;
  const original = job.tags.find((tag) => tag.startsWith(REPLAY_OF))?.slice(REPLAY_OF.length);
  return (
    <Panel title="Facts">
      <div class="body">
        <dl class="facts">
          <Fact name="Queue">
            <QueueLink name={job.queue} />, priority {job.priority}
          </Fact>
          {job.lane !== null && <Fact name="Lane">{job.lane}</Fact>}
          <Fact name="Attempts">
            {job.attempts} of {job.maxAttempts},{" "}
            {job.crashes === 0 ? (
              "no crashes"
            ) : (
              <span class="failed">{f.plural(job.crashes, "crash", "crashes")}</span>
            )}
          </Fact>
          {original !== undefined && (
            <Fact name="Replay of">
              <JobLink id={original} />
            </Fact>
          )}
          {job.tags.length > 0 && (
            <Fact name="Tags">
              <span class="line wrap">
                {job.tags.map((tag) => (
                  <a key={tag} href={to("jobs", { tag })}>
                    <Tag>{tag}</Tag>
                  </a>
                ))}
              </span>
            </Fact>
          )}
          <Fact name="Enqueued">
            <Moment at={job.enqueuedAt} />
          </Fact>
          {last !== undefined && (
            <Fact name={job.status === "processing" ? "Worker" : "Last worker"}>
              <WorkerLink id={last.worker} /> {build !== null && <Build id={build} />}
            </Fact>
          )}
          {startBy !== null && (
            <Fact name="Start by">
              <Moment at={startBy} />, else it expires
            </Fact>
          )}
          {story.schedule !== null && (
            <Fact name="Schedule">
              <a href={to(["schedules", story.schedule])}>{story.schedule}</a>
            </Fact>
          )}
          {item !== null && (
            <Fact name="Item">
              <a href={to(["items", item.id])}>
                {item.workflow} {item.identifier}
              </a>
              , {item.status}
            </Fact>
          )}
          {job.traceId !== null && (
            <Fact name="Trace">
              <span class="mono sm line">
                <span class="clip" title={job.traceId}>
                  {job.traceId}
                </span>
                <Copy tiny text={job.traceId} label="Copy the trace" />
              </span>
            </Fact>
          )}
        </dl>
      </div>
    </Panel>
  );
}

function Effects({ steps }: { readonly steps: readonly Step[] }): JSX.Element | null {
  const effects = steps.filter(({ kind }) => kind === "effect");
  if (effects.length === 0) return null;
  return (
    <Panel title="Effects">
      <ul class="rows">
        {effects.map((step) => (
          <li key={`${step.name} ${step.occurrence}`}>
            <Glyph
              status={
                step.status === "done"
                  ? "done"
                  : step.status === "doubt"
                    ? "waiting"
                    : step.status === "failed"
                      ? "failed"
                      : "processing"
              }
            />
            <div class="grow">
              <strong>{step.name}</strong>{" "}
              <span class="dim sm">
                {step.status === "done" && step.endedAt !== null ? (
                  <>
                    made at <Moment at={step.endedAt} />
                  </>
                ) : step.status === "doubt" ? (
                  "in doubt"
                ) : (
                  step.status
                )}
              </span>
              <p class="sm dim">
                {step.status === "done"
                  ? "Never made twice, also when you retry."
                  : step.status === "doubt"
                    ? "An operator decides."
                    : ""}
              </p>
            </div>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function ByHand({ story }: { readonly story: JobStory }): JSX.Element {
  const lines = story.audit ?? [];
  const inputs = story.inputs ?? [];
  return (
    <Panel title="Done by hand">
      {lines.length === 0 ? (
        <p class="body dim">
          Nothing. If an operator retries, cancels or edits this job, the name and the reason stand
          here.
        </p>
      ) : (
        <ul class="rows">
          {lines.map((line) => (
            <li key={line.id}>
              <div class="grow">
                <strong>{line.action}</strong> <span class="dim">by {line.actor}</span>
                {line.reason !== null && <p class="sm dim wraps">“{line.reason}”</p>}
              </div>
              <span class="sm faint nowrap">
                <Ago at={line.at} />
              </span>
            </li>
          ))}
        </ul>
      )}
      {inputs.length > 0 && (
        <footer>
          <Info>The payload was changed {f.plural(inputs.length, "time")}.</Info>
        </footer>
      )}
    </Panel>
  );
}
