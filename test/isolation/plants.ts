/** Bugs to plant in what the product says: the ways in which earlier versions of these statements broke. */
import assert from "node:assert/strict";
import { jobHooks } from "../../src/app/store.ts";
import type { Status } from "../../src/core/job.ts";
import type { Engine, Taking } from "../../src/database/engine.ts";
import { cancel } from "../../src/jobs/cancel.ts";
import { jobColumns, type JobColumns } from "../../src/jobs/rows.ts";
import { Sql, sql } from "../../src/database/sql.ts";
import type { Verb } from "./verbs.ts";

/** Changes of one text of the product; all of them apply to it, or it is not the text that is meant. */
export class Bug {
  readonly #changes: readonly [RegExp, string][];
  #planted = 0;

  constructor(...changes: [RegExp, string][]) {
    this.#changes = changes;
  }

  /** In how many places it was planted. */
  get planted(): number {
    return this.#planted;
  }

  readonly plant = (text: string): string => {
    if (!this.#changes.every(([found]) => found.test(text))) return text;
    this.#planted += 1;
    return this.#changes.reduce((changed, [found, put]) => changed.replace(found, put), text);
  };
}

/** The lease is deleted whatever its epoch; only then is the epoch looked at. */
export const fenceAfterDelete = (): Bug =>
  new Bug(
    [/\s+and \(\(id, epoch\) in \(.*?\)\) is true/s, ""],
    [
      /on i\.id = o\.id/,
      "$& join unnest($1::uuid[], $3::int[]) as f (id, epoch) on f.id = o.id and f.epoch = o.epoch",
    ],
  );

/** The end of a lease is looked at before its row is locked, and not again. */
export const expiryNotAskedAgain = (): Bug =>
  new Bug([
    /(delete from "holdfast"\.lease\s+where )ctid = any\(array\(select ctid(.*?)for update skip locked\)\)/s,
    "$1id in (select id$2)",
  ]);

/** The row is found where it stood; who changed it meanwhile has put it somewhere else. */
export const settledByPlace = (): Bug =>
  new Bug([
    /(delete from "holdfast"\.lease\s+where)(.*?is true)/s,
    '$1 ctid = any(array(select ctid from "holdfast".lease where$2 for update))',
  ]);

/** Rows are locked one by one while they are changed, and waited for. */
export const extendedWithoutLocks = (): Bug =>
  new Bug([
    /,\s+ours as \(\s+select id\s+from "holdfast"\.lease\s+where(.*?)for no key update skip locked\s*\)(\s+update.*?)where id = any\(array\(select id from ours\)\)/s,
    "$2where$1",
  ]);

/** The waiting job is looked at without a lock: two ends that do not see each other each leave it to the other. */
export const waitingNotLocked = (): Bug =>
  new Bug([/(from "holdfast"\.waiting\b.*?order by id )for update/s, "$1"]);

/** The job that ends is not locked before jobs that wait for it are looked for: one that is added meanwhile is missed. */
export const memberNotLocked = (): Bug =>
  new Bug([/(from "holdfast"\.flow_job\b.*?order by job_id )for update/s, "$1"]);

/** An end is counted by what was to be deleted, not by what was: who comes second counts it again. */
export const countedTwice = (): Pick<Bug, "plant" | "planted"> => {
  const seen = new Bug([
    /^(\s*select .*)from "holdfast"\.dep (where job_id = \$1 and on_id = any\(\$2\))\s*$/s,
    '$1from "holdfast".job_after $2',
  ]);
  const gone = new Bug([
    /^\s*delete from "holdfast"\.dep (where job_id = \$1 and on_id = any\(\$2\))\s*$/,
    'with gone as (delete from "holdfast".dep $1) update "holdfast".job_after set position = position $1',
  ]);
  // Otherwise the second would wait at the row of the end, before it looks who waits for it.
  const open = new Bug([/(from "holdfast"\.finished\b.*?order by id )for update/s, "$1"]);
  return {
    plant: (text) => open.plant(gone.plant(seen.plant(text))),
    get planted() {
      return Math.min(seen.planted, gone.planted, open.planted);
    },
  };
};

/** What runs is counted in the statement that locks the gate: its snapshot is older than the lock. */
export const countedWhileLocking = (): Pick<Bug, "plant" | "planted"> => {
  const lock = new Bug([GATE_LOCKED, "$1"]);
  const count = new Bug([
    /^\s*select l\.task, count\(\*\)(.*?)where/s,
    'with locked as materialized (select 1 from "holdfast".gate where queue = $$1 for update) ' +
      "select l.task, count(*)$1where (select count(*) from locked) > 0 and",
  ]);
  return {
    plant: (text) => count.plant(lock.plant(text)),
    get planted() {
      return Math.min(lock.planted, count.planted);
    },
  };
};

const GATE_LOCKED = /(from "holdfast"\.gate\b.*?order by kind, name\s+)for update/s;

/** A gate that another claim holds is passed over, and its limit with it. */
export const gateSkipped = (): Bug => new Bug([GATE_LOCKED, "$1for update skip locked"]);

/** A lease that has ended is not counted, though its worker may only be late. */
export const expiredNotCounted = (now: number): Bug =>
  new Bug([/(select l\.task, count\(\*\).*?)(\s+group by)/s, `$1 and locked_until > ${now} $2`]);

/** A claim that holds the gate of one lane waits for that of another. */
export const laneGateAwaited = (): Bug =>
  new Bug([/(from "holdfast"\.gate\b.*?order by name )for update skip locked/s, "$1for update"]);

/** A cancel of one statement: what the product does to `ready`, `waiting` and `lease` in turn, all at once. */
export function cancelAtOnce(at: number, id: string): Verb<"cancel"> {
  return {
    kind: "cancel",
    at,
    run: async (engine) => {
      const statement = allAtOnce(await movesOfCancel(at, id), at);
      const [row] = await engine.all<{ status: Status }>(statement);
      return row?.status ?? null;
    },
  };
}

interface Moves {
  readonly takes: Taking[];
  readonly marks: Sql[];
}

/** What the product's own cancel does while it finds the job nowhere. */
async function movesOfCancel(now: number, id: string): Promise<Moves> {
  const moves: Moves = { takes: [], marks: [] };
  const answers = [[{ now }]];
  const tx = {
    all: async () => answers.shift() ?? [],
    run: async (query: Sql) => {
      moves.marks.push(query);
      return 0;
    },
    take: async (from: Taking) => {
      moves.takes.push(from);
      return [];
    },
  };
  const engine = {
    now: () => sql`${now}`,
    transaction: async (body: (tx: unknown) => Promise<unknown>) => body(tx),
  };
  await cancel({ engine: engine as unknown as Engine, hooks: jobHooks }, id);
  assert.deepEqual([moves.takes.map(({ table }) => table), moves.marks.length], [TAKEN, 1]);
  return moves;
}

const TAKEN = ["ready", "waiting"];
const COLUMNS = new Sql([Object.keys(jobColumns({} as JobColumns)).join(", ")], []);

function allAtOnce({ takes: [ready, waiting], marks: [mark] }: Moves, now: number): Sql {
  return sql`
    with pending as (delete from holdfast.ready where ${ready!.where} returning *),
    waited as (delete from holdfast.waiting where ${waiting!.where} returning *),
    marked as (${mark!} returning id),
    taken as (select ${COLUMNS} from pending union all select ${COLUMNS} from waited),
    ended as (
      insert into holdfast.finished (${COLUMNS}, status, finished_at)
      select ${COLUMNS}, 'cancelled', ${now} from taken
    )
    select 'cancelled' as status from taken
    union all
    select 'processing' from marked`;
}
