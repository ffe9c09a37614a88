/** What workers say about their tasks: the JSON schema of the input, so that a form can be made of it anywhere. */
import type { AnyTask } from "../core/task.ts";
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";

/** Tasks of one worker that are recorded. */
const TASKS_MAX = 500;

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
