/**
 * A shop of a week, made by the database itself: ended jobs of many queues and tasks with inputs, keys, tags and errors, a
 * backlog, and the figures that a monitor would have folded.
 */
import { connect, DIALECTS, type SqlEngine, TIDY } from "./fill.ts";
import type { Place } from "./places.ts";

const CHUNK = 100_000;
const MINUTE_MS = 60_000;
const QUARTER_MS = 15 * MINUTE_MS;
const HOUR_MS = 60 * MINUTE_MS;
const WEEK_MS = 7 * 24 * HOUR_MS;

export const QUEUES = 300;
export const TASKS = 60;
export const WORKERS = 14;
const KINDS = 100;

/** One of a hundred jobs fails, with these kinds of errors in turn. */
const FAILED_EVERY = 100;

const NAME_LENGTH = 40;

/** A name of 40 letters, as people make them: all but its number. */
function nameFor(what: string): string {
  return `${what}-of-the-northern-warehouse-and-its-`.slice(0, NAME_LENGTH - 4);
}

/** The name with this number, as the database makes it. */
export function nameOf(what: "queue" | "task", number: number): string {
  return `${nameFor(what)}${number}`;
}

/** The fingerprint of a kind of error. */
export function kindOf(number: number): string {
  return number.toString(16).padStart(32, "0");
}

/** What errors say: with values and without, short and long, with a code and without. */
const SHAPES: readonly (readonly [name: string, code: string | null, message: string])[] = [
  ["CarrierTimeout", null, "no answer from carrier @ within 10 s"],
  ["PaymentDeclined", "card_declined", "card ending in @ was declined"],
  ["TypeError", null, "Cannot read properties of undefined (reading 'line@')"],
  ["Error", "ECONNREFUSED", "connect ECONNREFUSED 10.0.0.@:5432"],
  [
    "ValidationError",
    null,
    "the address has no postal code; the customer was asked @ times, and did not answer",
  ],
  ["Error", null, "disk full"],
  ["QueryFailedError", "23505", "duplicate key value violates unique constraint on order @"],
];

/** What else an engine spells its own way. `i` is the number of a row. */
interface Words {
  readonly concat: (...parts: string[]) => string;
  readonly hash: (text: string) => string;
}

const WORDS: Readonly<Record<SqlEngine, Words>> = {
  sqlite: {
    concat: (...parts) => parts.map((part) => `(${part})`).join(" || "),
    hash: (text) => `printf('%032x', ${text})`,
  },
  postgres: {
    concat: (...parts) => `concat(${parts.join(", ")})`,
    hash: (text) => `lpad(to_hex(${text}), 32, '0')`,
  },
  mariadb: {
    concat: (...parts) => `concat(${parts.join(", ")})`,
    hash: (text) => `lower(lpad(hex(${text}), 32, '0'))`,
  },
};

export interface Size {
  readonly finished: number;
  readonly pending: number;
}

export async function fillShop(
  engine: SqlEngine,
  place: Place,
  { finished, pending }: Size,
): Promise<void> {
  await using line = await connect(engine, place);
  const now = Date.now();
  const spread = { finished: (WEEK_MS - HOUR_MS) / finished, pending: HOUR_MS / pending };
  for (const [state, count] of Object.entries({ finished, pending })) {
    const start = state === "finished" ? now - WEEK_MS : now - HOUR_MS;
    const each = spread[state as keyof typeof spread];
    for (let first = 1; first <= count; first += CHUNK) {
      const last = Math.min(count, first + CHUNK - 1);
      const rows = { state: state as keyof Size, first, last, start, each };
      await line.run(["begin", ...jobs(engine, rows), "commit"]);
    }
  }
  await line.run(["begin", ...figures(engine, now), "commit"]);
  await line.run(TIDY[engine]);
}

interface Rows {
  readonly state: keyof Size;
  readonly first: number;
  readonly last: number;
  readonly start: number;
  readonly each: number;
}

function jobs(engine: SqlEngine, { state, first, last, start, each }: Rows): string[] {
  const { prefix, rank, from, id, div } = DIALECTS[engine];
  const { concat, hash } = WORDS[engine];
  const rows = from(first, last);
  const at = `(${Math.floor(start)} + cast(i * ${each.toFixed(6)} as ${engine === "mariadb" ? "signed" : "bigint"}))`;
  const queue = concat(`'${nameFor("queue")}'`, `i % ${QUEUES}`);
  const task = concat(`'${nameFor("task")}'`, `i % ${TASKS}`);
  const key = `case when i % 10 = 0 then ${concat(`'${state}-'`, "i")} end`;
  const kind = `(${div("i", FAILED_EVERY)}) % ${KINDS}`;
  const payload = concat(
    `'{"order":"A-'`,
    "i",
    `'","cents":'`,
    "i % 5000",
    `',"to":"ada@example.org","note":"twelve boxes, leave them at the door if no one is at home"}'`,
  );
  const shapes = SHAPES.map(([name, code, message], number) => {
    const record = {
      name,
      ...(code === null ? {} : { code }),
      message,
      stack: `${name}\n    at label (src/shipping/carrier.ts:88:11)`,
    };
    const [head = "", tail = ""] = JSON.stringify(record).replaceAll("'", "''").split("@");
    return `when ${number} then ${concat(`'${head}'`, "i % 40", `'${tail}'`)}`;
  });
  const error = `case (${kind}) % ${SHAPES.length} ${shapes.join(" ")} end`;
  const status = `case when i % ${FAILED_EVERY} = 0 then 'failed' when i % 500 = 1 then 'cancelled' else 'done' end`;
  const columns = `id, queue, task, ${rank}, job_key, epoch, attempts, crashes, max_attempts`;
  const job = `insert into ${prefix}job (id, queue, task, payload, ${rank}, max_attempts, job_key, enqueued_at)
    select ${id(at)}, ${queue}, ${task}, ${payload}, 0, 3, ${key}, ${at} from ${rows}`;
  const tags = `insert into ${prefix}job_tag (tag, job_id)
    select ${concat("'tenant-'", "i % 50")}, ${id(at)} from ${rows} where i % 20 = 0`;
  if (state === "pending") {
    return [
      job,
      tags,
      `insert into ${prefix}ready (${columns}, lane, place, ready_at)
       select ${id(at)}, ${queue}, ${task}, 0, ${key}, 0, 0, 0, 3, '', ${at}, ${at} from ${rows}`,
    ];
  }
  return [
    job,
    tags,
    `insert into ${prefix}finished (${columns}, status, worker, started_at, finished_at, error, error_kind)
     select ${id(at)}, ${queue}, ${task}, 0, ${key}, 2, 2, 0, 3, ${status}, ${concat("'worker-'", `i % ${WORKERS}`)}, ${at} + 5, ${at} + 105,
            case when i % ${FAILED_EVERY} = 0 then ${error} end, case when i % ${FAILED_EVERY} = 0 then ${hash(kind)} end
       from ${rows}`,
    `insert into ${prefix}attempt (job_id, epoch, attempt, worker, outcome, started_at, ended_at, error, error_kind)
     select ${id(at)}, 1, 1, ${concat("'worker-'", `i % ${WORKERS}`)}, 'retry', ${at}, ${at} + 50, ${error}, ${hash(kind)}
       from ${rows} where i % 50 = 0`,
  ];
}

const HISTOGRAM = `'{"10":40,"14":300,"20":80,"30":4}'`;

/** A part of the shape of each row's error. */
function shape(of: (one: (typeof SHAPES)[number]) => string | null): string {
  const texts = SHAPES.map((one, number) => {
    const text = of(one);
    return `when ${number} then ${text === null ? "null" : `'${text.replaceAll("'", "''")}'`}`;
  });
  return `case i % ${SHAPES.length} ${texts.join(" ")} end`;
}

function countOf(status: string): string {
  return `sum(case when status = '${status}' then 1 else 0 end)`;
}

/** What a monitor folded in a week, errors by kind, and workers that are alive. */
function figures(engine: SqlEngine, now: number): string[] {
  const { prefix, from, div } = DIALECTS[engine];
  const { concat, hash } = WORDS[engine];
  const minute = Math.floor(now / MINUTE_MS) * MINUTE_MS;
  const quarter = Math.floor(now / QUARTER_MS) * QUARTER_MS;
  const hour = Math.floor(now / HOUR_MS) * HOUR_MS;
  const sums = `sum(arrived), sum(done), sum(failed), sum(cancelled), 0, sum(retried), 0, sum(run_ms_sum), max(run_ms_max), ${HISTOGRAM}, max(pending)`;
  const totals = `arrived, done, failed, cancelled, expired, retried, crashed, run_ms_sum, run_ms_max, pickups, pending`;
  const begin = (at: string, step: number): string => `${div(`(${at})`, step)} * ${step}`;
  const span = (step: number, queue: string, where: string): string =>
    `insert into ${prefix}span_total (step_ms, at, queue, ${totals})
     select ${step}, ${begin("minute", step)}, ${queue}, ${sums} from ${prefix}minute_total where ${where}
      group by ${begin("minute", step)}${queue === "queue" ? ", queue" : ""}`;
  const task = (n: string): string => concat(`'${nameFor("task")}'`, `${n} % ${TASKS}`);
  const message = shape(([, , text]) => text.replace("@", "…"));
  const job = DIALECTS[engine].id(`(${now})`);
  return [
    // What a monitor would have counted of these very jobs.
    `insert into ${prefix}minute_total (minute, queue, ${totals})
     select ${begin("finished_at", MINUTE_MS)}, queue, count(*), ${countOf("done")}, ${countOf("failed")}, ${countOf("cancelled")}, 0,
            sum(attempts - 1), 0, 100 * count(*), 100, ${HISTOGRAM}, 0
       from ${prefix}finished
      where finished_at < ${minute}
      group by ${begin("finished_at", MINUTE_MS)}, queue`,
    `update ${prefix}counts set folded_until = ${minute} where id = 1`,
    span(MINUTE_MS, "''", `minute >= ${minute - 24 * HOUR_MS}`),
    span(QUARTER_MS, "''", `minute < ${quarter}`),
    span(QUARTER_MS, "queue", `minute < ${quarter}`),
    `insert into ${prefix}error_kind (id, task, name, code, message, sample, sample_job, first_sample, first_job, state, first_at,
                                      last_at, builds, failed, retried)
     select ${hash("i")}, ${task("i")}, ${shape(([name]) => name)}, ${shape(([, code]) => code)}, ${message}, ${message},
            ${job}, ${message}, ${job}, case when i % 5 = 4 then 'resolved' else 'open' end, ${now} - i * 3600000, ${now} - i,
            '["9c41d07"]', i, i
       from ${from(0, KINDS - 1)}`,
    `insert into ${prefix}error_hour (kind_id, hour, build, failed, retried)
     select ${hash(`i % ${KINDS}`)}, ${hour} - ${div("i", KINDS)} * ${HOUR_MS}, '9c41d07', 1, 1 from ${from(1, KINDS * 100)}`,
    `insert into ${prefix}error_minute (minute, kind_id, build, failed, retried)
     select ${minute} - ${div("i", KINDS)} * ${MINUTE_MS}, ${hash(`i % ${KINDS}`)}, '9c41d07', 1, 1 from ${from(1, KINDS * 1_000)}`,
    `insert into ${prefix}task_total (hour, task, build, done, failed, cancelled, expired, retried, crashed, runs, waits)
     select ${hour} - ${div("i", 2 * TASKS)} * ${HOUR_MS}, ${task(`(${div("i", 2)})`)},
            case when i % 2 = 0 then '9c41d07' else '8b30c96' end, 1000, 10, 0, 0, 5, 0, '{"20":900,"30":100}', '{"10":1000}'
       from ${from(0, 2 * TASKS * 168 - 1)}`,
    `insert into ${prefix}worker_type (name) values ('worker')`,
    `insert into ${prefix}worker (id, type, slot, instance, status, hostname, pid, version, node_version, platform, arch, queues,
                                  tasks, concurrency, started_at, heartbeat_at)
     select ${concat("'worker-'", `i % ${WORKERS}`)}, 'worker', null, i, 'running', 'node-a', i, '9c41d07', 'v24', 'linux', 'x64',
            '["${nameOf("queue", 0)}","${nameOf("queue", 1)}"]', '["${nameOf("task", 0)}"]', 20, ${now} - 3600000, ${now} + 3600000 from ${from(1, WORKERS)}`,
    `insert into ${prefix}build (version, first_at, last_at) values ('9c41d07', ${now} - 3600000, ${now})`,
  ];
}
