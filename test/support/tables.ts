/** The tables of a database that is used again, and how they are emptied. */
import type { Engine } from "../../src/database/engine.ts";
import { sql, Sql } from "../../src/database/sql.ts";
import { NO_HASH } from "../../src/audit/entry.ts";
import { INDEX_TABLES } from "../../src/copy/tables.ts";

export const TABLES = [
  "job",
  "ready",
  "waiting",
  "lease",
  "finished",
  "attempt",
  "job_key",
  "kept_key",
  "step",
  "event",
  "wait",
  "report",
  "worker",
  "worker_type",
  "enqueuer",
  "unregistered_worker",
  "audit",
  "lock",
  "lock_stat",
  "lock_wait",
  "depth",
  "minute_total",
  "alert",
  "token",
  "session",
  "span_total",
  "pickup_stat",
  "task_stat",
  "task_total",
  "lock_span",
  "build",
  "task",
  "error_kind",
  "error_hour",
  "error_minute",
  "request",
  "job_trace",
  "job_tag",
  "flow",
  "flow_job",
  "job_after",
  "dep",
  "bulk_action",
  "job_revision",
  "rerun",
  "rerun_step",
  "pacing",
  "schedule",
  "schedule_run",
  "queue",
  "queue_rule",
  "gate",
];

/** Those of workflows from which the database refuses to delete. */
export const GUARDED_TABLES = ["item_audit", "item"];

/** The others of workflows, which are mostly empty. */
export const WORKFLOW_TABLES = [
  "item_progress",
  "item_due",
  "item_job",
  "item_pruning",
  "workflow_move",
  "workflow_state",
  "workflow_type",
  "workflow",
];

const NO_LINES = `seq = 0, hash = '${NO_HASH}', pruned_seq = 0, pruned_hash = '${NO_HASH}'`;

/** As if no action had ever been taken. The database refuses that, so its triggers are disabled; only if there are lines. */
export const FORGET_ACTIONS = {
  postgres: `
    alter table holdfast.audit disable trigger user;
    alter table holdfast.audit_head disable trigger user;
    delete from holdfast.audit;
    update holdfast.audit_head set ${NO_LINES};
    alter table holdfast.audit_head enable trigger user;
    alter table holdfast.audit enable trigger user`,
  // To truncate asks no trigger there.
  mysql: `
    truncate table holdfast_audit;
    truncate table holdfast_audit_head;
    insert into holdfast_audit_head values (1, 0, '${NO_HASH}', 0, '${NO_HASH}')`,
} as const;

async function forgetActions(engine: Engine): Promise<void> {
  const [line] = await engine.all(sql`select seq from holdfast.audit limit 1`);
  if (line === undefined) return;
  const kind = engine.address?.engine;
  const script =
    kind === "postgres" || kind === "mysql" ? FORGET_ACTIONS[kind] : await unguarded(engine);
  await engine.transaction((tx) => tx.script(script));
}

async function unguarded(engine: Engine): Promise<string> {
  const guards = await engine.all<{ name: string; text: string }>(sql`
    select name, sql as text from sqlite_schema
     where type = 'trigger' and tbl_name in ('holdfast_audit', 'holdfast_audit_head')`);
  return [
    ...guards.map(({ name }) => `drop trigger ${name}`),
    "delete from holdfast_audit",
    `update holdfast_audit_head set ${NO_LINES}`,
    ...guards.map(({ text }) => text),
  ].join(";");
}

/** In the order in which they are emptied. */
const FILLED = new Sql(
  [
    TABLES.map(
      (table, at) =>
        `select '${table}' as name, ${at} as at where exists (select 1 from holdfast.${table})`,
    ).join(" union all ") + " order by at",
  ],
  [],
);

/** As before the first count. */
export const FORGET =
  "update holdfast.counts set begun_at = 0, counted_at = 0, took_ms = 0, folded_until = 0";

/** Deletes every row. To look which tables have one is much cheaper for a server than to delete from all of them. */
export async function emptyTables(engine: Engine): Promise<void> {
  await forgetActions(engine);
  const filled = await engine.all<{ name: string }>(FILLED);
  const prefix = engine.address?.engine === "postgres" ? "holdfast." : "holdfast_";
  const names = filled.map(({ name }) => name);
  if (engine.kind === "mysql") names.push(...INDEX_TABLES);
  const deletions = names.map((name) => `delete from ${prefix}${name}`);
  const script = [FORGET.replaceAll("holdfast.", prefix), ...deletions].join(";");
  await engine.transaction((tx) => tx.script(script));
}
