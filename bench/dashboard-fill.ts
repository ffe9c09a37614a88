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

export const QUEUES = 20;
export const TASKS = 30;
const KINDS = 100;
const WORKERS = 14;

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
  const { prefix, rank, from, id } = DIALECTS[engine];
  const { concat } = WORDS[engine];
  const rows = from(first, last);
  const at = `(${Math.floor(start)} + cast(i * ${each.toFixed(6)} as ${engine === "mariadb" ? "signed" : "bigint"}))`;
  const queue = concat("'queue-'", `i % ${QUEUES}`);
  const task = concat("'task-'", `i % ${TASKS}`);
  const key = `case when i % 10 = 0 then ${concat(`'${state}-'`, "i")} end`;
  const payload = concat(
    `'{"order":"A-'`,
    "i",
    `'","cents":'`,
    "i % 5000",
    `',"to":"ada@example.org","note":"twelve boxes, leave them at the door if no one is at home"}'`,
  );
  const error = concat(
    `'{"name":"CarrierTimeout","message":"no answer from carrier '`,
    "i % 40",
    `' within 10 s","stack":"CarrierTimeout: no answer\\n    at label (src/shipping/carrier.ts:88:11)"}'`,
  );
  const status =
    "case when i % 100 = 0 then 'failed' when i % 500 = 1 then 'cancelled' else 'done' end";
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
    `insert into ${prefix}finished (${columns}, status, worker, started_at, finished_at, error)
     select ${id(at)}, ${queue}, ${task}, 0, ${key}, 2, 2, 0, 3, ${status}, ${concat("'worker-'", `i % ${WORKERS}`)}, ${at} + 5, ${at} + 105,
            case when i % 100 = 0 then ${error} end from ${rows}`,
    `insert into ${prefix}attempt (job_id, epoch, attempt, worker, outcome, started_at, ended_at, error)
     select ${id(at)}, 1, 1, ${concat("'worker-'", `i % ${WORKERS}`)}, 'retry', ${at}, ${at} + 50, ${error} from ${rows} where i % 50 = 0`,
  ];
}

const HISTOGRAM = `'{"10":40,"14":300,"20":80,"30":4}'`;

/** What a monitor folded in a week, errors by kind, and workers that are alive. */
function figures(engine: SqlEngine, now: number): string[] {
  const { prefix, from } = DIALECTS[engine];
  const { concat, hash } = WORDS[engine];
  const minute = Math.floor(now / MINUTE_MS) * MINUTE_MS;
  const quarter = Math.floor(now / QUARTER_MS) * QUARTER_MS;
  const hour = Math.floor(now / HOUR_MS) * HOUR_MS;
  const minutes = WEEK_MS / MINUTE_MS;
  const quarters = WEEK_MS / QUARTER_MS;
  const totals = `arrived, done, failed, cancelled, expired, retried, crashed, run_ms_sum, run_ms_max, pickups, pending`;
  const values = `i % 900, i % 800, i % 9, 1, 0, i % 30, 0, 90000, 1200, ${HISTOGRAM}, i % 5000`;
  const div = (a: string, b: number): string =>
    engine === "mariadb" ? `${a} div ${b}` : `${a} / ${b}`;
  const span = (step: number, end: number, count: number, queue: string, rows: string): string =>
    `insert into ${prefix}span_total (step_ms, at, queue, ${totals})
     select ${step}, ${end} - ${div("i", count)} * ${step}, ${queue}, ${values} from ${rows}`;
  return [
    `insert into ${prefix}minute_total (minute, queue, ${totals})
     select ${minute} - ${div("i", QUEUES)} * ${MINUTE_MS}, ${concat("'queue-'", `i % ${QUEUES}`)}, ${values}
       from ${from(QUEUES, minutes * QUEUES)}`,
    span(MINUTE_MS, minute, 1, "''", from(1, 24 * 60)),
    span(QUARTER_MS, quarter, 1, "''", from(1, quarters)),
    span(
      QUARTER_MS,
      quarter,
      QUEUES,
      concat("'queue-'", `i % ${QUEUES}`),
      from(QUEUES, quarters * QUEUES),
    ),
    `insert into ${prefix}error_kind (id, task, name, message, sample, sample_job, first_sample, first_job, state, first_at, last_at, builds, failed, retried)
     select ${hash("i")}, ${concat("'task-'", `i % ${TASKS}`)}, 'CarrierTimeout', 'no answer from carrier … within … s', 'no answer',
            ${DIALECTS[engine].id(`(${now})`)}, 'no answer', ${DIALECTS[engine].id(`(${now})`)}, case when i % 5 = 0 then 'resolved' else 'open' end, ${now} - i * 3600000, ${now} - i, '["9c41d07"]', i, i
       from ${from(1, KINDS)}`,
    `insert into ${prefix}error_hour (kind_id, hour, build, failed, retried)
     select ${hash(`1 + i % ${KINDS}`)}, ${hour} - ${div("i", KINDS)} * ${HOUR_MS}, '9c41d07', 1, 1 from ${from(1, KINDS * 100)}`,
    `insert into ${prefix}error_minute (minute, kind_id, build, failed, retried)
     select ${minute} - ${div("i", KINDS)} * ${MINUTE_MS}, ${hash(`1 + i % ${KINDS}`)}, '9c41d07', 1, 1 from ${from(1, KINDS * 1_000)}`,
    `insert into ${prefix}task_total (hour, task, build, done, failed, cancelled, expired, retried, crashed, runs, waits)
     select ${hour} - ${div("i", 2 * TASKS)} * ${HOUR_MS}, ${concat("'task-'", `(${div("i", 2)}) % ${TASKS}`)},
            case when i % 2 = 0 then '9c41d07' else '8b30c96' end, 1000, 10, 0, 0, 5, 0, '{"20":900,"30":100}', '{"10":1000}'
       from ${from(0, 2 * TASKS * 168 - 1)}`,
    `insert into ${prefix}worker_type (name) values ('worker')`,
    `insert into ${prefix}worker (id, type, slot, instance, status, hostname, pid, version, node_version, platform, arch, queues,
                                  tasks, concurrency, started_at, heartbeat_at)
     select ${concat("'worker-'", `i % ${WORKERS}`)}, 'worker', null, i, 'running', 'node-a', i, '9c41d07', 'v24', 'linux', 'x64',
            '["queue-0","queue-1"]', '["task-0"]', 20, ${now} - 3600000, ${now} + 3600000 from ${from(1, WORKERS)}`,
    `insert into ${prefix}build (version, first_at, last_at) values ('9c41d07', ${now} - 3600000, ${now})`,
  ];
}
