/** Keys of jobs that are enqueued together on PostgreSQL. keys.ts has the rules for all engines. */
import { bareName } from "../core/name.ts";
import type { Sending } from "../database/postgres/session.ts";
import { isKeyed, type Keyed, nameOf } from "./keys.ts";
import type { statements } from "./postgres-statements.ts";
import type { NewJob } from "./store.ts";

/** Tries to take keys whose holders finished in the meantime. */
const KEY_ROUNDS_MAX = 10;

interface Asking {
  readonly send: (sending: Sending) => Promise<{ rows: unknown[] }>;
  readonly text: (name: keyof typeof statements) => string;
  /** A test's clock. */
  readonly now: number | null;
}

interface HolderRow {
  task: string;
  job_key: string;
  job_id: string;
  kept_by: string | null;
}

/** For each job with a key, the id that holds the key from now on. */
export async function holdKeys(
  jobs: readonly NewJob[],
  asking: Asking,
): Promise<Map<string, string>> {
  const holders = new Map<string, string>();
  const keyed = jobs.filter(isKeyed);
  if (keyed.length === 0) return holders;
  const { send, text } = asking;
  const { rows } = await send({ text: text("existing"), values: [keyed.map(({ id }) => id)] });
  // A repeated call must not touch the key: its job may have finished, and another may hold it.
  const existing = new Set((rows as { id: string }[]).map(({ id }) => id));
  for (const id of existing) holders.set(id, id);
  const fresh = keyed.filter(({ id }) => !existing.has(id));
  let open = fresh;
  for (let round = 0; open.length > 0 && round < KEY_ROUNDS_MAX; round += 1) {
    await askForKeys(open, asking, holders);
    open = open.filter(({ id }) => !holders.has(id));
  }
  await keepKeys(
    fresh.filter(({ id }) => holders.get(id) === id),
    asking,
  );
  return holders;
}

async function askForKeys(
  jobs: readonly Keyed[],
  { send, text, now }: Asking,
  holders: Map<string, string>,
): Promise<void> {
  const tasks = jobs.map(({ task }) => bareName(task));
  const keys = jobs.map(({ key }) => key);
  const ids = jobs.map(({ id }) => id);
  await send({ text: text("insertKeys"), values: [tasks, keys, ids] });
  const { rows } = await send({ text: text("keyHolders"), values: [tasks, keys, now] });
  const found = new Map(
    (rows as HolderRow[]).map((row) => [nameOf({ task: row.task, key: row.job_key }), row]),
  );
  const ours = new Set(ids);
  const kept = [...found.values()].filter(
    ({ job_id, kept_by }) => kept_by !== null && ours.has(job_id),
  );
  if (kept.length > 0) {
    await send({ text: text("dropKeys"), values: [kept.map(({ job_id }) => job_id)] });
  }
  for (const job of jobs) {
    const row = found.get(nameOf(job));
    if (row === undefined) continue;
    const keeping = ours.has(row.job_id) ? row.kept_by : null;
    holders.set(job.id, keeping ?? row.job_id);
  }
}

async function keepKeys(jobs: readonly Keyed[], { send, text }: Asking): Promise<void> {
  const keeping = jobs.flatMap(({ id, task, key, keyForMs = null }) =>
    keyForMs === null ? [] : [{ id, task: bareName(task), key, keyForMs }],
  );
  if (keeping.length === 0) return;
  const values = [
    keeping.map(({ task }) => task),
    keeping.map(({ key }) => key),
    keeping.map(({ id }) => id),
    keeping.map(({ keyForMs }) => keyForMs),
  ];
  await send({ text: text("keepKeys"), values });
}
