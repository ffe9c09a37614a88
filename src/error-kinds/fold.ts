/**
 * Errors by kind: counted when a minute is folded, in the same transaction, so each error counts once.
 *
 * A minute with more errors than are read is counted in proportion: the figures of a storm are estimates.
 */
import { kindOf, type KindFacts } from "../core/error-kind.ts";
import { decodeError } from "../core/error-record.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import { nothing, sql } from "../database/sql.ts";
import { buildsOf } from "../stats/builds.ts";
import {
  type ErrorExample,
  type ErrorKindState,
  HOUR_MS,
  MINUTE_MS,
  MINUTES_KEEP_MS,
} from "./store.ts";

/** Errors of one minute that are read; the others count in proportion. */
const READ_MAX = 1_000;

/** Kinds of one minute that are written, the most frequent first. */
const KINDS_MAX = 200;

/** Builds that a kind names, newest last. */
const BUILDS_MAX = 10;

/** Kinds are deleted this long after they were last seen, and their hours after a week. */
const KEEP_MS = 90 * 24 * HOUR_MS;
const HOURS_KEEP_MS = 8 * 24 * HOUR_MS;

interface Read {
  readonly id: string;
  readonly task: string;
  readonly worker: string | null;
  readonly at: number;
  readonly error: string;
}

interface Counts {
  failed: number;
  retried: number;
}

/** Errors of a kind in one minute and one build; build '': it is not known. */
interface Slice extends Counts {
  readonly minute: number;
  readonly build: string;
}

interface Tally extends KindFacts, Counts {
  readonly first: ErrorExample;
  readonly sample: ErrorExample;
  readonly firstAt: number;
  readonly lastAt: number;
  readonly slices: Map<string, Slice>;
}

/** Part of every fold of minutes. */
export const errorFold = {
  async read(
    engine: Engine,
    from: number,
    until: number,
  ): Promise<(tx: Transaction) => Promise<void>> {
    const kinds = new Map<string, Tally>();
    for (let minute = from; minute < until; minute += MINUTE_MS) {
      await addMinute(engine, kinds, minute);
    }
    const most = [...kinds.values()]
      .toSorted((a, b) => b.failed + b.retried - (a.failed + a.retried))
      .slice(0, KINDS_MAX);
    return async (tx) => {
      for (const tally of most) await keep(tx, tally);
      if (Math.floor(until / HOUR_MS) > Math.floor(from / HOUR_MS)) await prune(tx, until);
    };
  },
};

async function addMinute(engine: Engine, kinds: Map<string, Tally>, minute: number): Promise<void> {
  for (const as of ["failed", "retried"] as const) {
    const { rows, weight } = await errorsIn(engine, as, minute);
    const builds = await buildsOf(
      engine,
      rows.map(({ worker }) => worker),
    );
    for (const row of rows) add(kinds, row, { as, weight, build: builds.get(row.worker ?? "") });
  }
}

/** The errors of a minute, at most so many, and how many each of them stands for. */
async function errorsIn(
  engine: Engine,
  as: "failed" | "retried",
  minute: number,
): Promise<{ rows: Read[]; weight: number }> {
  const end = minute + MINUTE_MS;
  const from =
    as === "failed"
      ? sql`
          from holdfast.finished f
         where f.status = 'failed'
           and f.finished_at >= ${minute}
           and f.finished_at < ${end}
           and f.error is not null`
      : sql`
          from holdfast.attempt f
         where f.outcome in ('retry', 'crashed')
           and f.ended_at >= ${minute}
           and f.ended_at < ${end}
           and f.error is not null`;
  const columns =
    as === "failed"
      ? sql`f.id, f.task, f.worker, f.finished_at as at, f.error`
      : sql`f.job_id as id, '' as task, f.worker, f.ended_at as at, f.error`;
  const rows = await engine.all<Read>(sql`select ${columns} ${from} limit ${READ_MAX}`);
  const tasks = as === "failed" ? null : await tasksOf(engine, rows);
  const named = rows.map((row) => ({ ...row, task: tasks?.get(row.id) ?? row.task }));
  if (rows.length < READ_MAX) return { rows: named, weight: 1 };
  const [all] = await engine.all<{ n: number }>(sql`select count(*) as n ${from}`);
  return { rows: named, weight: Math.max(1, (all?.n ?? 0) / READ_MAX) };
}

async function tasksOf(engine: Engine, rows: readonly Read[]): Promise<Map<string, string>> {
  if (rows.length === 0) return new Map();
  const ids = [...new Set(rows.map(({ id }) => id))];
  const jobs = await engine.all<{ id: string; task: string }>(
    sql`select id, task from holdfast.job where ${engine.among(sql`id`, ids)}`,
  );
  return new Map(jobs.map(({ id, task }) => [id, task]));
}

function add(
  kinds: Map<string, Tally>,
  { id, task, at, error }: Read,
  { as, weight, build }: { as: "failed" | "retried"; weight: number; build: string | undefined },
): void {
  const record = decodeError(error);
  const kind = kindOf(task, record);
  const example = { job: id, message: record.message };
  const none = { failed: 0, retried: 0, slices: new Map<string, Slice>() };
  const before = kinds.get(kind.id) ?? {
    ...kind,
    ...none,
    first: example,
    sample: example,
    firstAt: at,
    lastAt: at,
  };
  before[as] += weight;
  addSlice(before.slices, { at, build, as, weight });
  kinds.set(kind.id, {
    ...before,
    ...(at < before.firstAt ? { firstAt: at, first: example } : {}),
    ...(at >= before.lastAt ? { lastAt: at, sample: example } : {}),
  });
}

function addSlice(
  slices: Map<string, Slice>,
  {
    at,
    build = "",
    as,
    weight,
  }: { at: number; build: string | undefined; as: keyof Counts; weight: number },
): void {
  const minute = Math.floor(at / MINUTE_MS) * MINUTE_MS;
  const key = `${minute} ${build}`;
  const slice = slices.get(key) ?? { minute, build, failed: 0, retried: 0 };
  slice[as] += weight;
  slices.set(key, slice);
}

function buildsIn({ slices }: Tally): string[] {
  return [...new Set([...slices.values()].map(({ build }) => build))].filter((one) => one !== "");
}

interface Row {
  readonly state: ErrorKindState;
  readonly lastAt: number;
  readonly builds: string;
  readonly changedAt: number | null;
  readonly resolvedIn: string | null;
}

async function keep(tx: Transaction, tally: Tally): Promise<void> {
  const [known] = await tx.all<Row>(sql`
    select state, last_at as "lastAt", builds, changed_at as "changedAt", resolved_in as "resolvedIn"
      from holdfast.error_kind
     where id = ${tally.id}`);
  const { failed, retried } = {
    failed: Math.round(tally.failed),
    retried: Math.round(tally.retried),
  };
  const builds = [
    ...new Set([
      ...(known === undefined ? [] : (JSON.parse(known.builds) as string[])),
      ...buildsIn(tally),
    ]),
  ].slice(-BUILDS_MAX);
  const { sample, first } = tally;
  if (known === undefined) {
    const { id, task, name, code, message, firstAt, lastAt } = tally;
    await tx.insert("error_kind", [
      {
        id,
        task,
        name,
        code,
        message,
        sample: sample.message,
        sample_job: sample.job,
        first_sample: first.message,
        first_job: first.job,
        state: "open",
        first_at: firstAt,
        last_at: lastAt,
        first_build: builds[0] ?? null,
        builds: JSON.stringify(builds),
        failed,
        retried,
        changed_at: null,
        changed_by: null,
        resolved_in: null,
        came_back_at: null,
      },
    ]);
  } else {
    const isBack = cameBack(known, tally);
    await tx.run(sql`
      update holdfast.error_kind
         set last_at = ${Math.max(known.lastAt, tally.lastAt)}, sample = ${sample.message}, sample_job = ${sample.job},
             builds = ${JSON.stringify(builds)}, failed = failed + ${failed}, retried = retried + ${retried}
             ${isBack ? sql`, state = 'open', came_back_at = ${tally.lastAt}` : nothing}
       where id = ${tally.id}`);
  }
  await keepSlices(tx, tally.id, [...tally.slices.values()]);
}

/** Resolved in the next build: only a build that was not known before brings it back. */
function cameBack({ state, changedAt, builds, resolvedIn }: Row, tally: Tally): boolean {
  if (state !== "resolved" || tally.lastAt <= (changedAt ?? 0)) return false;
  if (resolvedIn === null) return true;
  const known = JSON.parse(builds) as string[];
  return buildsIn(tally).some((build) => build === resolvedIn || !known.includes(build));
}

/** Each minute is folded once, so its rows are new; those of its hour may be there. */
async function keepSlices(tx: Transaction, id: string, slices: readonly Slice[]): Promise<void> {
  const rounded = slices.map((slice) => ({
    ...slice,
    failed: Math.round(slice.failed),
    retried: Math.round(slice.retried),
  }));
  await tx.insert(
    "error_minute",
    rounded.map((slice) => ({ ...slice, kind_id: id })),
  );
  const hourOf = ({ minute }: Slice): number => Math.floor(minute / HOUR_MS) * HOUR_MS;
  const hours = Map.groupBy(rounded, (slice) => `${hourOf(slice)} ${slice.build}`);
  for (const some of hours.values()) {
    const [{ build } = { build: "" }] = some;
    const hour = hourOf(some[0] as Slice);
    const failed = some.reduce((sum, one) => sum + one.failed, 0);
    const retried = some.reduce((sum, one) => sum + one.retried, 0);
    const changed = await tx.run(sql`
      update holdfast.error_hour
         set failed = failed + ${failed}, retried = retried + ${retried}
       where kind_id = ${id}
         and hour = ${hour}
         and build = ${build}`);
    if (changed === 0)
      await tx.insert("error_hour", [{ kind_id: id, hour, build, failed, retried }]);
  }
}

async function prune(tx: Transaction, until: number): Promise<void> {
  await tx.run(sql`delete from holdfast.error_minute where minute < ${until - MINUTES_KEEP_MS}`);
  await tx.run(sql`delete from holdfast.error_hour where hour < ${until - HOURS_KEEP_MS}`);
  await tx.run(sql`delete from holdfast.error_kind where last_at < ${until - KEEP_MS}`);
}
