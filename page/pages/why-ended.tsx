/** How a job ended, and how its last attempt failed. */
import type { JSX } from "preact";
import type { Attempt, EndedFacts, JobStory } from "../api.gen.ts";
import * as f from "../format.ts";
import { Ago } from "../parts.tsx";
import { to } from "../router.ts";

interface Of {
  readonly story: JobStory | undefined;
}

export function Ended({ facts, story }: Of & { readonly facts: EndedFacts }): JSX.Element {
  const { status, finishedAt, attempts, maxAttempts, error } = facts;
  if (status === "cancelled") return <Cancelled facts={facts} story={story} />;
  if (status === "failed")
    return (
      <>
        It failed for good <Ago at={finishedAt} word=" ago" />,{" "}
        {attempts === 0 ? "before it started" : `in attempt ${attempts} of ${maxAttempts}`}
        <FailedAttempt story={story} withMessage />.
      </>
    );
  const notStored = story?.job.lastError?.code === "RESULT_NOT_STORED";
  return (
    <>
      It was done <Ago at={finishedAt} word=" ago" />
      {story !== undefined &&
        `, ${f.span(finishedAt - story.job.enqueuedAt)} after it was enqueued`}
      , with {f.plural(attempts, "attempt")}.{notStored && error !== null && ` ${f.clause(error)}.`}
    </>
  );
}

/** By whom is in the audit log. A job that fails with one it depends on is cancelled by the system. */
function Cancelled({ facts, story }: Of & { readonly facts: EndedFacts }): JSX.Element {
  const { finishedAt, error } = facts;
  const line = story?.audit.findLast(
    ({ action, newStatus }) => action === "job.cancel" || newStatus === "pending",
  );
  if (line?.action === "job.cancel")
    return (
      <>
        {line.actor} cancelled it <Ago at={finishedAt} word=" ago" />
        {line.reason !== null && `: “${line.reason}”`}.
      </>
    );
  return (
    <>
      It was cancelled <Ago at={finishedAt} word=" ago" />
      {error !== null && `: ${f.clause(error)}`}.
    </>
  );
}

/** " at shipping label with CarrierTimeout", which leads to all jobs with this error. */
export function FailedAttempt({
  story,
  withMessage = false,
}: Of & { readonly withMessage?: boolean }): JSX.Element | null {
  const error = story?.job.lastError ?? null;
  if (story === undefined || error === null) return null;
  const { step, name, message } = error;
  return (
    <>
      {step !== undefined && (
        <>
          {" "}
          at <b>{stepName(step)}</b>
        </>
      )}{" "}
      with <a href={errorAddress(story)}>{name}</a>
      {withMessage && `: ${f.clause(message)}`}
    </>
  );
}

export function stepName({
  name,
  occurrence,
}: {
  readonly name: string;
  readonly occurrence: number;
}): string {
  return occurrence > 1 ? `${name} ${occurrence}` : name;
}

/** The jobs whose last error is of the same kind; of an earlier attempt, those whose error has the same name. */
export function errorAddress(
  { job, attempts }: JobStory,
  of: Attempt | undefined = attempts.findLast(({ error }) => error !== null),
): string {
  const kind = attempts.find(({ epoch }) => epoch === of?.epoch)?.kind ?? null;
  if (kind !== null) return to("jobs", { kind });
  return to("jobs", { task: job.task, error: of?.error?.name ?? job.lastError?.name });
}
