/** What workers say about their tasks: the JSON schema of the input, so that a form can be made of it anywhere. */
import type { AnyTask } from "../core/task.ts";
import { didYouMean } from "../core/text.ts";
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { JobView } from "../jobs/jobs.ts";
import { activeStates, type UnregisteredWorker, type WorkerRecord } from "./worker-record.ts";
import { isRunnable, type Workers } from "./workers.ts";

/** Tasks of one worker that are recorded, and tasks that are read. */
export const TASKS_MAX = 500;

/** A longer schema makes no form that people fill in. */
const SCHEMA_LENGTH_MAX = 65_536;

const TARGET = { target: "draft-2020-12" } as const;

export interface TaskRecord {
  readonly name: string;
  /** Null: it has none, or its library cannot say it as JSON schema. */
  readonly inputSchema: string | null;
}

interface Described {
  readonly jsonSchema?: { readonly input: (options: typeof TARGET) => unknown };
}

/** The JSON schema of a task's input, if its library offers it (Standard JSON Schema). */
export function inputSchemaOf(task: Pick<AnyTask, "input">): string | null {
  const described = task.input?.["~standard"] as Described | undefined;
  try {
    const schema = described?.jsonSchema?.input(TARGET);
    const text = schema === undefined ? null : JSON.stringify(schema);
    return text === null || text.length > SCHEMA_LENGTH_MAX ? null : text;
  } catch {
    return null; // the library cannot describe this one
  }
}

/** Records the tasks of a worker; those that are recorded as they are cost no write. */
export async function noteTasks(
  engine: Engine,
  tasks: readonly TaskRecord[],
  version: string,
): Promise<void> {
  const noted = tasks.slice(0, TASKS_MAX);
  const names = noted.map(({ name }) => name);
  if (names.length === 0) return;
  const rows = await engine.all<TaskRecord & { version: string }>(sql`
    select name, input_schema as "inputSchema", version
      from holdfast.task
     where ${engine.among(sql`name`, names)}`);
  const known = new Map(rows.map((row) => [row.name, row]));
  for (const { name, inputSchema } of noted) {
    const before = known.get(name);
    if (before?.inputSchema === inputSchema && before.version === version) continue;
    await engine.put({
      table: sql`holdfast.task`,
      columns: ["name", "input_schema", "version", "seen_at"],
      values: sql`${name}, ${inputSchema}, ${version}, ${engine.now()}`,
      key: ["name"],
      set: sql`input_schema = ${inputSchema}, version = ${version}, seen_at = ${engine.now()}`,
      where: sql`was.name = ${name}`,
      returning: sql`name`,
      durable: false,
    });
  }
}

/** By name. */
export function knownTasks(engine: Engine): Promise<TaskRecord[]> {
  return engine.all<TaskRecord>(sql`
    select name, input_schema as "inputSchema"
      from holdfast.task
     order by name
     limit ${TASKS_MAX}`);
}

/**
 * Why jobs of a task that was given by name may wait for good. Null: workers have or had it, or it cannot be known, because
 * no worker has run here or programs that acquire leases do not say their tasks.
 */
export async function whyUnknown(
  task: string,
  { known, workers }: { readonly known: readonly string[]; readonly workers: Workers },
): Promise<string | null> {
  if (known.length === 0 || known.length >= TASKS_MAX || known.includes(task)) return null;
  const live = await workers.list({ limit: WORKERS_SEEN_MAX });
  if (live.some(({ tasks }) => tasks.includes(task))) return null;
  const leases = (await workers.unregistered()).filter(({ kind }) => kind === "leases");
  if (leases.some(({ tasks }) => tasks === null || tasks.includes(task))) return null;
  return `No worker has had the task '${task}' so far: jobs of it wait for one that does.${didYouMean(task, known)}`;
}

// Whether a live worker can run a job. Such jobs are accepted anyway: their worker may come with the next deployment.

const WORKERS_SEEN_MAX = 1_000;

interface Prospect {
  /** Null: it is not waiting for a worker. */
  readonly runnable: boolean | null;
  /** Why no worker can run it; null: one can. */
  readonly note: string | null;
}

type Wanted = Pick<JobView, "queue" | "task" | "status">;

/** Considers registered workers, and programs that acquire leases; the latter need not declare their tasks. */
export async function prospectOf(workers: Workers, view: Wanted): Promise<Prospect> {
  const [prospect] = await prospectsOf(workers, [view]);
  return prospect as Prospect;
}

/** The same for several jobs, with one query for the workers. */
export async function prospectsOf(workers: Workers, views: readonly Wanted[]): Promise<Prospect[]> {
  const isWaiting = ({ status }: Wanted): boolean => status === "pending" || status === "scheduled";
  const none: Prospect = { runnable: null, note: null };
  if (!views.some(isWaiting)) return views.map(() => none);
  const all = await workers.list({ limit: WORKERS_SEEN_MAX });
  // A stopping worker claims no new jobs.
  const live = all.filter((worker) => activeStates.some((state) => state === worker.status));
  const others = views.every((view) => isRunnable(view, live)) ? [] : await workers.unregistered();
  return views.map((view) => {
    if (!isWaiting(view)) return none;
    const runnable = isRunnable(view, live) || takes(view, others);
    return { runnable, note: runnable ? null : whyNot(view, live) };
  });
}

/** Whether a program that acquires leases may claim it. */
export function takes(
  { task, queue }: Pick<JobView, "queue" | "task">,
  others: readonly UnregisteredWorker[],
): boolean {
  return others.some(
    ({ kind, queues, tasks }) =>
      kind === "leases" && queues.includes(queue) && (tasks === null || tasks.includes(task)),
  );
}

function whyNot(
  { task, queue }: Pick<JobView, "queue" | "task">,
  live: readonly WorkerRecord[],
): string {
  if (live.length === 0) return "No worker is running: the job waits for one.";
  const elsewhere = live.find(({ tasks }) => tasks.includes(task))?.queues;
  if (elsewhere !== undefined) {
    return `No live worker serves the queue '${queue}': the workers that know '${task}' serve ${elsewhere.map((name) => `'${name}'`).join(", ")}. The job waits.`;
  }
  const known = [...new Set(live.flatMap(({ tasks }) => tasks))];
  return `No live worker knows the task '${task}': the job waits for a worker that does.${didYouMean(task, known)}`;
}
