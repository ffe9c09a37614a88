/** The tasks that there are, with what a form to enqueue them needs. */
import { bareName, isReserved } from "../core/name.ts";
import type { AnyTask } from "../core/task.ts";
import { inputSchemaOf, type TaskRecord } from "../registry/tasks.ts";
import type { WorkerRecord } from "../registry/worker-record.ts";

const TASKS_MAX = 500;

export interface TaskView {
  readonly name: string;
  /** Null: this server does not have the task's code, so its defaults are unknown here. */
  readonly queue: string | null;
  readonly maxAttempts: number | null;
  readonly schema: unknown;
  readonly hasSchema: boolean;
  /** Live workers that run it. */
  readonly workers: number;
}

interface TaskParts {
  /** The tasks whose code this process has. */
  readonly own: ReadonlyMap<string, AnyTask>;
  readonly recorded: readonly TaskRecord[];
  readonly workers: readonly Pick<WorkerRecord, "tasks">[];
}

export function tasksOf({ own, recorded, workers }: TaskParts): TaskView[] {
  const running = workers.flatMap(({ tasks }) => tasks);
  const schemas = new Map(recorded.map(({ name, inputSchema }) => [name, inputSchema]));
  const names = new Set([...own.keys(), ...schemas.keys(), ...running]);
  return [...names]
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
