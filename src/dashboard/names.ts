/** Names that there are, and what a pasted text is: for the search box and its completion. */
import { idRange, isId } from "../core/id.ts";
import { bareName, isReserved } from "../core/name.ts";
import type { Runtime } from "../core/runtime.ts";
import type { AnyTask } from "../core/task.ts";
import { Cached } from "../core/wait.ts";
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { keysOf } from "../jobs/candidates.ts";
import * as s from "../operations/shape.ts";
import { inputSchemaOf, type TaskRecord } from "../registry/tasks.ts";
import type { WorkerRecord } from "../registry/worker-record.ts";

/** Of each kind. */
const NAMES_MAX = 200;

/** A shorter text is not looked up as the start of an id. */
const PREFIX_LENGTH_MIN = 4;
const KEY_PREFIX_LENGTH_MIN = 3;

const HITS_MAX = 10;

/** Jobs whose id begins with the text. */
const PREFIX_HITS = 5;

const nameKinds = [
  "queues",
  "tasks",
  "tags",
  "workers",
  "builds",
  "schedules",
  "workflows",
] as const;

const listOfNames = s.list(s.text());

/** The same for every kind. */
const ofAllKinds = <T>(value: T) =>
  Object.fromEntries(nameKinds.map((kind) => [kind, value])) as Record<
    (typeof nameKinds)[number],
    T
  >;

export const namesShape = s.object(ofAllKinds(listOfNames)).named("Names", "At most 200 of each.");

export type Names = s.TypeOf<typeof namesShape>;

const NO_NAMES: Names = ofAllKinds([]);

export const hitKinds = [
  "job",
  "item",
  "flow",
  "bulk",
  "key",
  "tag",
  "lock",
  "queue",
  "task",
  "worker",
  "build",
  "schedule",
  "workflow",
] as const;

export const hit = s.object({ kind: s.choice(hitKinds), id: s.text(), text: s.text() });

export type Hit = s.TypeOf<typeof hit>;

const NAMES_FOR_MS = 10_000;
const NAMES_WAIT_MS = 5_000;

/** A process asks the database once for all who ask. */
export function keptNames(runtime: Runtime, ask: () => Promise<Names>): () => Promise<Names> {
  const kept = new Cached({ runtime, forMs: NAMES_FOR_MS, waitMs: NAMES_WAIT_MS, ask });
  return async () => (await kept.get()) ?? NO_NAMES;
}

export async function names(engine: Engine): Promise<Names> {
  const [queues, workers, known, tags, builds, schedules, workflows] = await Promise.all([
    namesIn(
      engine,
      sql`select distinct queue as name from holdfast.depth order by queue limit ${NAMES_MAX}`,
    ),
    engine.all<{ id: string; tasks: string; queues: string }>(sql`
      select id, tasks, queues from holdfast.worker where status <> 'stopped' order by id limit ${NAMES_MAX}`),
    namesIn(engine, sql`select name from holdfast.task order by name limit ${NAMES_MAX}`),
    tagsIn(engine),
    namesIn(
      engine,
      sql`select version as name from holdfast.build order by first_at desc limit ${NAMES_MAX}`,
    ),
    namesIn(engine, sql`select name from holdfast.schedule order by name limit ${NAMES_MAX}`),
    namesIn(engine, sql`select name from holdfast.workflow order by name limit ${NAMES_MAX}`),
  ]);
  return {
    queues: some([...queues, ...listed(workers.map((worker) => worker.queues))]),
    tasks: some([...known, ...listed(workers.map((worker) => worker.tasks))]),
    tags,
    workers: workers.map(({ id }) => id),
    builds,
    schedules,
    workflows: some(workflows),
  };
}

function listed(texts: readonly string[]): string[] {
  return texts.flatMap((text) => JSON.parse(text) as string[]);
}

function some(all: readonly string[]): string[] {
  const shown = [...new Set(all)].filter((name) => !isReserved(name));
  return shown.toSorted().slice(0, NAMES_MAX);
}

async function namesIn(engine: Engine, query: Parameters<Engine["all"]>[0]): Promise<string[]> {
  return (await engine.all<{ name: string }>(query)).map(({ name }) => name);
}

/** Goes from one tag to the next by the index: there may be a million jobs of one tag. */
function tagsIn(engine: Engine): Promise<string[]> {
  return namesIn(
    engine,
    sql`
    with recursive t (name, n) as (
      select min(tag), 1 from holdfast.job_tag
       union all
      select (select min(j.tag) from holdfast.job_tag j where j.tag > t.name), t.n + 1
        from t
       where t.name is not null
         and t.n < ${NAMES_MAX}
    )
    select name from t where name is not null`,
  );
}

/** What a text may be: ids first, then keys and tags, then names that contain it. */
export async function find(engine: Engine, text: string, known: Names): Promise<Hit[]> {
  const hits = [
    ...(await byId(engine, text)),
    ...(await byWord(engine, text)),
    ...byName(text, known),
  ];
  const seen = new Set<string>();
  const isFirst = ({ kind, id }: Hit): boolean => {
    const name = `${kind} ${id}`;
    return seen.has(name) ? false : seen.add(name) !== undefined;
  };
  return hits.filter(isFirst).slice(0, HITS_MAX);
}

/** Also finds the id within a trace id or an address. */
const ID_WITHIN = /[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/gi;

async function byId(engine: Engine, text: string): Promise<Hit[]> {
  const id = text.match(ID_WITHIN)?.at(-1)?.toLowerCase();
  if (id !== undefined && isId(id)) {
    return engine.all<Hit>(sql`
      select 'job' as kind, id, task as text from holdfast.job where id = ${id}
       union all
      select 'item', id, workflow from holdfast.item where id = ${id}
       union all
      select 'flow', id, name from holdfast.flow where id = ${id}
       union all
      select 'bulk', id, action from holdfast.bulk_action where id = ${id}`);
  }
  const range = text.length < PREFIX_LENGTH_MIN ? null : idRange(text);
  if (range === null) return [];
  return engine.all<Hit>(sql`
    select 'job' as kind, id, task as text
      from holdfast.job
     where id >= ${range.from}
       and id <= ${range.to}
     order by id desc
     limit ${PREFIX_HITS}`);
}

/** Keys, tags and locks, each by an index. */
async function byWord(engine: Engine, text: string): Promise<Hit[]> {
  const found = await Promise.all([
    engine.all<Hit>(
      sql`select 'key' as kind, job_key as id, task as text from holdfast.job where job_key = ${text} order by job_key desc, id desc limit 1`,
    ),
    keysLike(engine, text),
    engine.all<Hit>(
      sql`select 'tag' as kind, tag as id, tag as text from holdfast.job_tag where tag = ${text} limit 1`,
    ),
    engine.all<Hit>(
      sql`select 'lock' as kind, name as id, owner as text from holdfast.lock where name = ${text} and holder is not null`,
    ),
    engine.all<Hit>(
      sql`select 'item' as kind, id, workflow as text from holdfast.item where identifier = ${text} limit 3`,
    ),
  ]);
  return found.flat();
}

/** Keys that begin with the text, by the index of keys. A text within a key has no index: that is a search of the inputs. */
function keysLike(engine: Engine, text: string): Promise<Hit[]> {
  if (text.length < KEY_PREFIX_LENGTH_MIN) return Promise.resolve([]);
  return engine.all<Hit>(sql`
    select 'key' as kind, j.job_key as id, j.task as text
      from holdfast.job j
     where ${keysOf(text)}
       and j.job_key > ${text}
     order by j.job_key, j.id
     limit ${PREFIX_HITS}`);
}

function byName(text: string, known: Names): Hit[] {
  const wanted = text.toLowerCase();
  const kinds = [
    ["queue", known.queues],
    ["task", known.tasks],
    ["worker", known.workers],
    ["schedule", known.schedules],
    ["workflow", known.workflows],
    ["tag", known.tags],
    ["build", known.builds],
  ] as const;
  const all = kinds.flatMap(([kind, list]) =>
    list
      .filter((name) => name.toLowerCase().includes(wanted))
      .map((name): Hit => ({ kind, id: name, text: name })),
  );
  const weight = ({ id }: Hit): number =>
    id === text ? 0 : id.toLowerCase().startsWith(wanted) ? 1 : 2;
  return all.toSorted((a, b) => weight(a) - weight(b));
}

// The tasks that there are, with what a form to enqueue them needs.

const TASKS_MAX = 500;

export const taskInfo = s
  .object({
    name: s.text(),
    queue: s.text().nullable().about("Null: this server does not have the task's code."),
    maxAttempts: s.count.nullable(),
    hasSchema: s.boolean(),
    schema: s.anything().about("The JSON schema of the input; null: none."),
    workers: s.count.about("Live workers that run it."),
  })
  .named("TaskInfo", "A task that the server or a worker knows.");

export type TaskView = s.TypeOf<typeof taskInfo>;

interface TaskParts {
  /** The tasks whose code this process has. */
  readonly own: ReadonlyMap<string, AnyTask>;
  readonly recorded: readonly TaskRecord[];
  readonly workers: readonly Pick<WorkerRecord, "tasks">[];
}

export function tasksOf({ own, recorded, workers }: TaskParts): TaskView[] {
  const running = workers.flatMap(({ tasks }) => tasks);
  const schemas = new Map(recorded.map(({ name, inputSchema }) => [name, inputSchema]));
  const all = new Set([...own.keys(), ...schemas.keys(), ...running]);
  return [...all]
    .filter((name) => !isReserved(bareName(name)))
    .toSorted()
    .slice(0, TASKS_MAX)
    .map((name) => {
      const task = own.get(name);
      const text = task === undefined ? (schemas.get(name) ?? null) : inputSchemaOf(task);
      return {
        name,
        queue: task?.queue ?? null,
        maxAttempts: task?.retry?.maxAttempts ?? null,
        schema: text === null ? null : (JSON.parse(text) as unknown),
        hasSchema: text !== null,
        workers: workers.filter(({ tasks }) => tasks.includes(name)).length,
      };
    });
}
