/**
 * Enqueueing, with a span around it where the application traces: what the jobs do belongs to the same trace, whoever runs
 * them and whenever.
 */
import type { Task } from "../core/task.ts";
import { checkTrace, type TraceContext } from "../core/trace.ts";
import { inSpan, isTracing, type OpenSpan } from "../core/tracing.ts";
import type { Enqueued, NewJob } from "../store/store.ts";
import { jobsOf, type OptionsOf } from "./new-job.ts";
import type { EnqueueOptions } from "./options.ts";

export interface Enqueueing {
  readonly task: Task | string;
  readonly inputs: readonly unknown[];
  readonly options: EnqueueOptions | OptionsOf;
  readonly newId: () => string;
}

export interface TaskEnqueued {
  /** The task's. */
  readonly name: string;
  readonly enqueued: readonly Enqueued[];
}

type Write = (news: readonly NewJob[]) => Promise<Enqueued[]>;

export function enqueueTraced(enqueueing: Enqueueing, write: Write): Promise<TaskEnqueued> {
  if (!isTracing()) return enqueuePlain(enqueueing, write);
  const { task } = enqueueing;
  const parent = parentOf(enqueueing);
  const name = `enqueue ${typeof task === "string" ? task : task?.name}`;
  return inSpan({ name, kind: "producer", ...(parent === null ? {} : { parent }) }, (span) =>
    enqueuePlain(enqueueing, (news) => write(describe(news, span)), span?.trace),
  );
}

async function enqueuePlain(
  enqueueing: Enqueueing,
  write: Write,
  trace?: TraceContext,
): Promise<TaskEnqueued> {
  const { name, news } = await jobsOf({ ...enqueueing, ...(trace === undefined ? {} : { trace }) });
  return { name, enqueued: await write(news) };
}

/** Options that differ from job to job may name a trace for each; then each keeps its own. */
function parentOf({ options }: Enqueueing): TraceContext | null {
  if (typeof options === "function" || options?.trace === undefined) return null;
  return checkTrace("trace", options.trace);
}

function describe(news: readonly NewJob[], span: OpenSpan | null): readonly NewJob[] {
  const [first] = news;
  if (span === null || first === undefined) return news;
  const facts = { "messaging.system": "holdfast", "messaging.destination.name": first.queue };
  const which =
    news.length === 1
      ? { "holdfast.job.id": first.id }
      : { "messaging.batch.message_count": news.length };
  span.add({ ...facts, ...which, "holdfast.task": first.task });
  return news;
}
