/**
 * The witness: triggers of the test's own that write down every change of the tables, in the transaction that makes it.
 *
 * The checker believes this and not what the product says about itself. What is rolled back is not in it.
 */

/** One change, as the checker reads it. What a table does not have is null. */
export interface Change {
  readonly seq: number;
  /** The transaction; they are numbered in the order in which they were made. */
  readonly tx: number;
  /** By the database's clock. */
  readonly at: number;
  readonly tbl:
    | "job"
    | "ready"
    | "waiting"
    | "lease"
    | "finished"
    | "attempt"
    | "step"
    | "shipment"
    | "event";
  readonly op: "insert" | "update" | "delete";
  /** Of the job; of an event, its key. */
  readonly id: string;
  readonly epoch: number | null;
  readonly attempts: number | null;
  readonly crashes: number | null;
  readonly attempts_max: number | null;
  readonly job_key: string | null;
  readonly status: string | null;
  /** The worker of a lease, of a finished job, of a shipment. */
  readonly worker: string | null;
  /** When a job is due, a lease ends, or an event was said. */
  readonly until_at: number | null;
  readonly cancel_at: number | null;
  /** Of a step, or an event. */
  readonly name: string | null;
  readonly kind: string | null;
  readonly result: string | null;
  /** The epoch and the worker of the lease that the job is under at this moment. */
  readonly lease_epoch: number | null;
  readonly lease_by: string | null;
  readonly queue: string | null;
  readonly lane: string | null;
  /** Of a lease. */
  readonly claimed_at: number | null;
}

const COLUMNS: readonly (keyof Change)[] = [
  ...(["tbl", "op", "id", "epoch", "attempts", "crashes", "attempts_max", "job_key"] as const),
  ...(["status", "worker", "until_at", "cancel_at", "name", "kind", "result"] as const),
  ...(["lease_epoch", "lease_by", "queue", "lane", "claimed_at"] as const),
];

type Values = Partial<Record<keyof Change, string>>;

const traveller: Values = {
  id: "row.id",
  epoch: "row.epoch",
  attempts: "row.attempts",
  crashes: "row.crashes",
  attempts_max: "row.max_attempts",
  job_key: "row.job_key",
  queue: "row.queue",
  lane: "row.lane",
};

function underLease(job: string): Values {
  return {
    lease_epoch: `(select epoch from holdfast_lease where id = ${job})`,
    lease_by: `(select locked_by from holdfast_lease where id = ${job})`,
  };
}

/** What is written down of each table's rows. */
const TABLES: Readonly<Record<Change["tbl"], Values>> = {
  job: { id: "row.id", attempts_max: "row.max_attempts", job_key: "row.job_key", kind: "row.task" },
  ready: { ...traveller, status: "'pending'", until_at: "row.ready_at" },
  waiting: { ...traveller, status: "row.status", until_at: "row.due_at" },
  lease: {
    ...traveller,
    status: "'processing'",
    worker: "row.locked_by",
    until_at: "row.locked_until",
    cancel_at: "row.cancel_requested_at",
    claimed_at: "row.claimed_at",
  },
  finished: { ...traveller, status: "row.status", worker: "row.worker", result: "row.result" },
  attempt: {
    id: "row.job_id",
    epoch: "row.epoch",
    attempts: "row.attempt",
    status: "row.outcome",
    worker: "row.worker",
  },
  step: {
    id: "row.job_id",
    epoch: "row.epoch",
    status: "row.status",
    name: "row.name",
    kind: "row.kind",
    result: "row.result",
    ...underLease("row.job_id"),
  },
  shipment: {
    id: "row.job_id",
    epoch: "row.epoch",
    worker: "row.worker",
    ...underLease("row.job_id"),
  },
  event: {
    id: "row.event_key",
    name: "row.name",
    until_at: "row.emitted_at",
    result: "row.payload",
  },
};

function trigger(table: Change["tbl"], op: Change["op"]): string {
  const row = op === "delete" ? "old." : "new.";
  const values: Values = { ...TABLES[table], tbl: `'${table}'`, op: `'${op}'` };
  const texts = COLUMNS.map((column) => (values[column] ?? "null").replaceAll("row.", row));
  const on = table === "shipment" ? "sim_shipment" : `holdfast_${table}`;
  return `
    create trigger sim_${table}_${op} after ${op} on ${on}
    begin
      insert into sim_witness (tx, at, ${COLUMNS.join(", ")})
      select tx, at, ${texts.join(", ")} from sim_moment;
    end;`;
}

/** The user's own table, the journal and its triggers. */
export const WITNESS_TABLES = `
  create table sim_shipment (job_id text not null, epoch integer not null, worker text not null);
  create table sim_moment (tx integer not null, at integer not null);
  insert into sim_moment values (0, 0);
  create table sim_witness (
    seq integer primary key, tx integer not null, at integer not null, ${COLUMNS.join(", ")});
  ${Object.keys(TABLES)
    .flatMap((table) =>
      (["insert", "update", "delete"] as const).map((op) => trigger(table as Change["tbl"], op)),
    )
    .join("\n")}`;
