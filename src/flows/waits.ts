/**
 * Jobs that wait for the ends of other jobs.
 *
 * A row of `dep` is one end that a job still waits for, and `missing` in its waiting row is their number. The end of a job
 * deletes its rows and subtracts as many as it deleted, under the lock of the waiting row. So of two ends at the same moment
 * the second sees what the first left, and an end that is repeated finds no row.
 *
 * A transaction that makes a job wait changes the row in `flow_job` of the job that it waits for, then looks whether that one
 * has ended. The transaction in which that one ends locks the same row, then looks in a later statement for jobs that wait.
 * So one of the two sees the other.
 *
 * The order of locks: the gate, rows of `flow_job` by id, waiting rows by id, rows of `dep`.
 */
import { asRow, type Engine, type Row, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { News, Placement } from "../jobs/hooks.ts";
import type { FinishedRow, WaitingRow } from "../jobs/rows.ts";
import type { Dependency, DependencyPolicy, Member, NewJob } from "../jobs/store.ts";
import { CircleError, DependencyNotFoundError, StartedError } from "./errors.ts";

/** Ids in one statement: longer lists make optimizers scan. */
const IDS_PER_STATEMENT = 500;

/** A row of `dep`. */
export interface Wait {
  readonly job_id: string;
  readonly on_id: string;
  readonly on_failed: DependencyPolicy;
  readonly on_cancelled: DependencyPolicy;
}

export type MissingRow = WaitingRow & { readonly missing: number };

/** How a job ended that others wait for. `deleted`: nothing is known about it any more. */
export type EndStatus = FinishedRow["status"] | "deleted";

/** One list after the other, because a statement takes only so many ids. */
export async function inGroups<T>(
  ids: readonly string[],
  ask: (some: readonly string[]) => Promise<readonly T[]>,
): Promise<T[]> {
  const all: T[] = [];
  for (let at = 0; at < ids.length; at += IDS_PER_STATEMENT) {
    all.push(...(await ask(ids.slice(at, at + IDS_PER_STATEMENT))));
  }
  return all;
}

export async function runInGroups(
  ids: readonly string[],
  run: (some: readonly string[]) => Promise<number>,
): Promise<number> {
  const changed = await inGroups(ids, async (some) => [await run(some)]);
  return changed.reduce((sum, one) => sum + one, 0);
}

export function sorted(ids: Iterable<string>): string[] {
  return [...new Set(ids)].toSorted();
}

/** Locks the rows of these jobs in `flow_job`, in the order of their ids. Returns those that have one. */
export function lockMembers(
  engine: Engine,
  tx: Transaction,
  ids: readonly string[],
): Promise<string[]> {
  return inGroups(ids, async (some) => {
    const rows = await tx.all<{ id: string }>(sql`
      select job_id as id
        from holdfast.flow_job
       where ${engine.among(sql`job_id`, some)}
       order by job_id ${engine.lockRows()}`);
    return rows.map(({ id }) => id);
  });
}

export function lockWaiting(
  engine: Engine,
  tx: Transaction,
  ids: readonly string[],
): Promise<MissingRow[]> {
  return inGroups(ids, (some) =>
    tx.all<MissingRow>(sql`
      select *
        from holdfast.waiting
       where ${engine.among(sql`id`, some)}
         and missing > 0
       order by id ${engine.lockRows()}`),
  );
}

/** The end that ends a job in turn. */
export interface Because {
  readonly on: string;
  readonly was: EndStatus;
  readonly status: "failed" | "cancelled";
}

/** Null: these ends do not keep the job from running. */
export function reasonToEnd(
  waits: readonly Wait[],
  ended: ReadonlyMap<string, EndStatus>,
): Because | null {
  for (const wait of waits) {
    const was = ended.get(wait.on_id) ?? "deleted";
    const status = policyFor(was, { onFailed: wait.on_failed, onCancelled: wait.on_cancelled });
    if (status !== null) return { on: wait.on_id, was, status };
  }
  return null;
}

/** How a job ends when a job that it waits for ended like this. Null: it does not. */
function policyFor(
  was: EndStatus,
  { onFailed, onCancelled }: Pick<Dependency, "onFailed" | "onCancelled">,
): "failed" | "cancelled" | null {
  if (was === "done") return null;
  const policy = was === "cancelled" ? onCancelled : onFailed;
  if (policy === "ignore") return null;
  return policy === "fail" ? "failed" : "cancelled";
}

export function errorOf({ on, was }: Pick<Because, "on" | "was">): string {
  const what =
    was === "deleted" ? "has ended, and its record was deleted" : (ENDINGS[was] ?? "failed");
  const message = `Job ${on}, which it waited for, ${what}. Retry that job, and this one waits for it again.`;
  return JSON.stringify({ name: "DependencyUnmetError", code: "DEPENDENCY_UNMET", message });
}

const ENDINGS: Readonly<Record<string, string>> = {
  failed: "failed",
  cancelled: "was cancelled",
  expired: "expired",
};

// New jobs: what they wait for, and where they begin.

/** Waits that the search for a circle follows. */
const CIRCLE_WAITS_MAX = 50_000;

interface Placing extends NewJob {
  readonly member: Member;
}

function isMember(job: NewJob): job is Placing {
  return job.member !== undefined;
}

/** Writes what new jobs wait for. They come in an order in which each follows the jobs that it waits for. */
export async function place(
  engine: Engine,
  tx: Transaction,
  { jobs, holders }: News,
): Promise<ReadonlyMap<string, Placement>> {
  const members = jobs.filter(isMember);
  if (members.length === 0) return new Map();
  const here = new Set(jobs.map(({ id }) => id));
  const onId = ({ id }: Dependency): string => holders.get(id) ?? id;
  const outside = sorted(
    members.flatMap(({ member }) => member.after.map(onId)).filter((id) => !here.has(id)),
  );
  if (members.some(({ member }) => member.after.length > 0 && member.before.length > 0))
    await refuseCircles(engine, tx, { members, holders });
  const { marked, statuses } = await stateOf(engine, tx, outside);
  for (const { id } of members) marked.add(id);
  const placements = new Map<string, Placement>();
  const edges: Row[] = [];
  const waits: Row[] = [];
  const ended = new Map<string, string>();
  for (const { id, member } of members) {
    const on = new Map(member.after.map((dependency) => [onId(dependency), dependency]));
    let because: Pick<Because, "on" | "was" | "status"> | null = null;
    const missing: Row[] = [];
    for (const [index, [other, { onFailed, onCancelled }]] of [...on].entries()) {
      const policies = { on_failed: onFailed, on_cancelled: onCancelled };
      edges.push({ job_id: id, position: index + 1, on_id: other, ...policies });
      const was = statuses.get(other) ?? null;
      if (was === null) {
        missing.push({ job_id: id, on_id: other, ...policies, look: marked.has(other) ? 0 : 1 });
        continue;
      }
      const status = policyFor(was, { onFailed, onCancelled });
      if (status !== null) because ??= { on: other, was, status };
    }
    if (because !== null) {
      placements.set(id, { status: because.status, error: errorOf(because) });
      statuses.set(id, because.status);
      ended.set(id, because.on);
    } else if (missing.length > 0) {
      placements.set(id, { missing: missing.length });
      waits.push(...missing);
    }
  }
  await tx.insert(
    "flow_job",
    members.map((job) => memberRow(job, ended.get(job.id) ?? null)),
  );
  await tx.insert("job_after", edges);
  await tx.insert("dep", waits);
  await waitToo(engine, tx, members);
  return placements;
}

function memberRow({ id, member, start }: Placing, endedBy: string | null): Row {
  const waits = member.after.length > 0 && start !== null;
  return asRow({
    job_id: id,
    flow_id: member.flow,
    name: member.name,
    awaited: 0,
    start_at: waits && "at" in start ? start.at : null,
    delay_ms: waits && "delayMs" in start ? start.delayMs : null,
    ended_by: endedBy,
  });
}

/** Whether these jobs have ended, and whether their ends release the jobs that wait for them. Locks them until the commit. */
export async function stateOf(
  engine: Engine,
  tx: Transaction,
  ids: readonly string[],
): Promise<{ marked: Set<string>; statuses: Map<string, EndStatus | null> }> {
  const marked = new Set(await lockMembers(engine, tx, ids));
  // A change, not only a lock: a transaction with an older snapshot in which such a job ends must notice.
  await runInGroups([...marked], (some) =>
    tx.run(sql`
      update holdfast.flow_job set awaited = awaited + 1 where ${engine.among(sql`job_id`, some)}`),
  );
  // In a later statement: an end that the lock waited for is committed by now.
  const rows = await inGroups(ids, (some) =>
    tx.all<{ id: string; status: EndStatus | null }>(sql`
      select j.id, f.status
        from holdfast.job j
        left join holdfast.finished f on f.id = j.id
       where ${engine.among(sql`j.id`, some)}`),
  );
  const statuses = new Map(rows.map(({ id, status }) => [id, status]));
  const unknown = ids.find((id) => !statuses.has(id));
  if (unknown !== undefined) throw new DependencyNotFoundError({ id: unknown });
  return { marked, statuses };
}

/** Waiting jobs wait for new ones, too. */
async function waitToo(
  engine: Engine,
  tx: Transaction,
  members: readonly Placing[],
): Promise<void> {
  const links = members.flatMap(({ id, member }) =>
    member.before.map((dependency) => ({ ...dependency, job: dependency.id, on: id })),
  );
  if (links.length === 0) return;
  const jobs = sorted(links.map(({ job }) => job));
  const waiting = new Set((await lockWaiting(engine, tx, jobs)).map(({ id }) => id));
  const started = jobs.find((id) => !waiting.has(id));
  if (started !== undefined) throw new StartedError({ id: started });
  const lasts = await inGroups(jobs, (some) =>
    tx.all<{ id: string; last: number }>(sql`
      select job_id as id, max(position) as last
        from holdfast.job_after
       where ${engine.among(sql`job_id`, some)}
       group by job_id`),
  );
  const positions = new Map(lasts.map(({ id, last }) => [id, last]));
  const edges: Row[] = [];
  const waits: Row[] = [];
  for (const { job, on, onFailed, onCancelled } of links) {
    const position = (positions.get(job) ?? 0) + 1;
    positions.set(job, position);
    const policies = { on_failed: onFailed, on_cancelled: onCancelled };
    edges.push({ job_id: job, position, on_id: on, ...policies });
    waits.push({ job_id: job, on_id: on, ...policies, look: 0 });
  }
  await tx.insert("job_after", edges);
  await tx.insert("dep", waits);
  for (const [job, more] of Map.groupBy(links, (link) => link.job)) {
    await tx.run(
      sql`update holdfast.waiting set missing = missing + ${more.length} where id = ${job}`,
    );
  }
}

/**
 * New jobs close a circle if one of the jobs that they come before is, through others, one that they wait for. Two calls could
 * close one together without seeing each other, so they pass one after the other.
 */
async function refuseCircles(
  engine: Engine,
  tx: Transaction,
  { members, holders }: { members: readonly Placing[]; holders: ReadonlyMap<string, string> },
): Promise<void> {
  await tx.run(sql`update holdfast.flow_gate set passed = passed + 1 where id = 1`);
  const news = new Map(members.map((job) => [job.id, job]));
  for (const { id, member } of members) {
    const targets = new Set(member.before.map((dependency) => dependency.id));
    if (targets.size === 0) continue;
    const seen = new Set<string>();
    let layer = member.after.map((dependency) => holders.get(dependency.id) ?? dependency.id);
    while (layer.length > 0) {
      const circle = layer.find((one) => targets.has(one));
      if (circle !== undefined) throw new CircleError({ jobs: [id, circle] });
      const fresh = sorted(layer).filter((one) => !seen.has(one));
      for (const one of fresh) seen.add(one);
      if (seen.size > CIRCLE_WAITS_MAX)
        throw new CircleError({ jobs: [id], waits: CIRCLE_WAITS_MAX });
      const stored = await inGroups(
        fresh.filter((one) => !news.has(one)),
        (some) =>
          tx.all<{ id: string }>(
            sql`select distinct on_id as id from holdfast.dep where ${engine.among(sql`job_id`, some)}`,
          ),
      );
      const added = fresh.flatMap((one) => news.get(one)?.member.after.map((on) => on.id) ?? []);
      layer = [...stored.map((row) => row.id), ...added];
    }
  }
}
