/**
 * Copies one database into another, of any engine.
 *
 * The target's row in the table `copy` records how far the copy is. It is written in one transaction with every page of
 * rows, so a killed copy resumes after its last page, and two copies at once cannot both write. While that row has no end,
 * no process can open the target, and no worker can register there. Before the end is written, every table of both sides
 * is read again and compared.
 */
import { type OperatorEntry, sha256, subjects } from "../audit/entry.ts";
import { noteAction } from "../audit/store.ts";
import { type HoldfastError, invalid } from "../core/errors.ts";
import { writeOrLookUp } from "../database/database.ts";
import type { Engine, Row, Transaction } from "../database/engine.ts";
import { applied, checkSchema, migrate } from "../database/migrate.ts";
import { Sql, sql } from "../database/sql.ts";
import {
  columnsOf,
  COPIED_TABLES,
  type CopiedTable,
  countOf,
  FIRST,
  isEmpty,
  names,
  pagesOf,
  type Position,
  sumOf,
  tableOf,
  type TableSum,
} from "./tables.ts";
import {
  CopyMismatchError,
  copyRow,
  type CopyRow,
  CopyRefusedError,
  type TableMismatch,
} from "./store.ts";

interface CopyParts {
  readonly from: Engine;
  readonly to: Engine;
  /** For the line in the target's audit. */
  readonly operator: OperatorEntry;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: CopyProgress) => void;
}

export interface CopyProgress {
  readonly phase: "copy" | "check";
  readonly table: string;
  readonly rows: number;
  readonly rowsAll: number;
}

export interface Copied {
  readonly source: string;
  readonly target: string;
  /** `new`: this run started it; `resumed`: an earlier run started it; `before`: it had already ended. */
  readonly run: "new" | "resumed" | "before";
  readonly rows: number;
  readonly tables: readonly ({ readonly table: string } & TableSum)[];
}

type Totals = Pick<Copied, "rows" | "tables">;

/** How far the copy is. */
type Reached = { readonly table: number } & Position;

export async function copyDatabase(parts: CopyParts): Promise<Copied> {
  const { from, to } = parts;
  await checkSchema(from);
  const fingerprint = await fingerprintOf(from);
  await migrate(to);
  if (fingerprint === (await fingerprintOf(to))) {
    throw invalid("target", "the source and the target are the same database.");
  }
  const found = await copyRow(to);
  if (found !== null && found.ended_at !== null && found.fingerprint === fingerprint) {
    return resultOf(parts, "before", JSON.parse(found.progress) as Totals);
  }
  await refuseInUse(from);
  const begun = found ?? (await begin(from, to, fingerprint));
  if (begun.fingerprint !== fingerprint || begun.ended_at !== null) throw otherCopy(to, begun);
  const copying = new Copying(parts, begun.batches);
  await copying.count();
  await copying.copyFrom(JSON.parse(begun.progress) as Reached);
  const totals = await copying.check();
  await refuseInUse(from);
  await copying.end(totals);
  return resultOf(parts, found === null ? "new" : "resumed", totals);
}

class Copying {
  readonly #parts: CopyParts;
  readonly #columns: Map<string, readonly string[]>;
  /** The number of pages in the target: each page is written after the previous one, or not at all. */
  #batches: number;
  #rows = 0;
  #rowsAll = 0;

  constructor(parts: CopyParts, batches: number) {
    this.#parts = parts;
    this.#columns = columnsOf(parts.from, parts.to);
    this.#batches = batches;
  }

  async count(): Promise<void> {
    for (const { name } of COPIED_TABLES) this.#rowsAll += await countOf(this.#parts.from, name);
  }

  async copyFrom(reached: Reached): Promise<void> {
    for (const [at, table] of COPIED_TABLES.entries()) {
      if (at < reached.table) this.#rows += await countOf(this.#parts.to, table.name);
      else await this.#copyTable(table, at, at === reached.table ? reached : FIRST);
    }
  }

  async #copyTable(table: CopiedTable, index: number, from: Position): Promise<void> {
    const pages = { engine: this.#parts.from, table, columns: this.#columnsOf(table) };
    for await (const { rows, next } of pagesOf(pages, from)) {
      this.#parts.signal?.throwIfAborted();
      const reached = next === null ? { ...FIRST, table: index + 1 } : { ...next, table: index };
      await this.#write(table, rows, reached);
      this.#progress("copy", table.name, rows.length);
    }
  }

  /** Writes the rows and the progress together. */
  async #write(table: CopiedTable, rows: readonly Row[], reached: Reached): Promise<void> {
    const { to } = this.#parts;
    const write = (): Promise<void> =>
      to.transaction(async (tx) => {
        await this.#advance(tx, sql`progress = ${JSON.stringify(reached)}`);
        if (table.single === undefined) await tx.insert(table.name, rows);
        else for (const row of rows) await tx.run(updateOf(table.name, table.single(row)));
      });
    await writeOrLookUp(to, write, async () => {
      if ((await copyRow(to))?.batches !== this.#batches + 1) await write();
    });
    this.#batches += 1;
  }

  /** Compares both sides, table by table. */
  async check(): Promise<Totals> {
    const { from, to } = this.#parts;
    this.#rows = 0;
    const tables: ({ table: string } & TableSum)[] = [];
    const mismatches: TableMismatch[] = [];
    for (const table of COPIED_TABLES) {
      const columns = this.#columnsOf(table);
      const [source, target] = await Promise.all([
        sumOf({ engine: from, table, columns }, (rows) =>
          this.#progress("check", table.name, rows),
        ),
        sumOf({ engine: to, table, columns }, () => this.#parts.signal?.throwIfAborted()),
      ]);
      tables.push({ table: table.name, ...target });
      if (source.rows === target.rows && source.hash === target.hash) continue;
      mismatches.push({ table: table.name, sourceRows: source.rows, targetRows: target.rows });
    }
    if (mismatches.length > 0) throw new CopyMismatchError({ tables: mismatches });
    return { rows: tables.reduce((sum, { rows }) => sum + rows, 0), tables };
  }

  /** Writes the end, and a line into the audit. */
  async end(totals: Totals): Promise<void> {
    const { from, to, operator } = this.#parts;
    const detail = `${totals.rows} rows of ${from.name}, sha256 ${sha256(JSON.stringify(totals.tables))}`;
    const write = (): Promise<void> =>
      to.transaction(async (tx) => {
        await this.#advance(tx, sql`ended_at = ${to.now()}, progress = ${JSON.stringify(totals)}`);
        const action = { action: "database.copy", subject: subjects.database, detail };
        await noteAction(to, tx, operator, action);
      });
    await writeOrLookUp(to, write, async () => {
      if ((await copyRow(to))?.ended_at === null) await write();
    });
  }

  async #advance(tx: Transaction, set: Sql): Promise<void> {
    const changed = await tx.run(sql`
      update holdfast.copy
         set batches = ${this.#batches + 1}, ${set}
       where id = 1
         and batches = ${this.#batches}
         and ended_at is null`);
    if (changed === 1) return;
    throw new CopyRefusedError({
      reasons: ["Another 'holdfast copy' is writing to the same target."],
      remedy: "Wait until one of them has ended, then run this again to check the result.",
    });
  }

  #columnsOf({ name }: CopiedTable): readonly string[] {
    return this.#columns.get(name) ?? [];
  }

  #progress(phase: CopyProgress["phase"], table: string, rows: number): void {
    this.#parts.signal?.throwIfAborted();
    this.#rows += rows;
    this.#parts.onProgress?.({ phase, table, rows: this.#rows, rowsAll: this.#rowsAll });
  }
}

/** Identifies a database, whatever its URL: the times at which its tables were created, to the millisecond. */
async function fingerprintOf(engine: Engine): Promise<string> {
  const rows = await applied(engine);
  const newest = engine.migrations.at(-1)?.version;
  if (rows.at(-1)?.version !== newest) {
    throw new CopyRefusedError({
      reasons: [`${engine.name} has tables of a newer version of holdfast.`],
      remedy: "Copy with that version.",
    });
  }
  return sha256(JSON.stringify(rows.map(({ version, applied_at }) => [version, applied_at])));
}

async function begin(from: Engine, to: Engine, fingerprint: string): Promise<CopyRow> {
  const filled: string[] = [];
  for (const { name, single } of COPIED_TABLES)
    if (single === undefined && !(await isEmpty(to, name))) filled.push(name);
  if (filled.length > 0) {
    throw new CopyRefusedError({
      reasons: [`The target ${to.name} is not empty: it has rows in ${filled.join(", ")}.`],
      remedy: "Copy into an empty database.",
    });
  }
  const progress = JSON.stringify({ ...FIRST, table: 0 } satisfies Reached);
  const row = { source: from.name, fingerprint, ended_at: null, batches: 0, progress };
  await to.transaction(async (tx) => {
    const [now] = await tx.all<{ now: number }>(sql`select ${to.now()} as now`);
    await tx.insert("copy", [{ id: 1, ...row, begun_at: now?.now ?? 0 }]);
  });
  return row;
}

function otherCopy(to: Engine, { source, ended_at }: CopyRow): HoldfastError {
  const what =
    ended_at === null ? "an incomplete copy of another source" : "the copy of another source";
  return new CopyRefusedError({
    reasons: [`The target ${to.name} is ${what}: ${source}.`],
    remedy: "Copy into an empty database.",
  });
}

function updateOf(table: string, row: Row): Sql {
  const { id, ...values } = row;
  const columns = Object.keys(values);
  const [first = "", ...rest] = columns.map((column) => `"${column}" = `);
  const strings = [first, ...rest.map((name) => `, ${name}`), ""];
  const set = new Sql(strings, Object.values(values));
  return sql`update ${tableOf(table)} set ${set} where ${names(["id"])} = ${id ?? 1}`;
}

function resultOf({ from, to }: CopyParts, run: Copied["run"], totals: Totals): Copied {
  return { source: from.name, target: to.name, run, ...totals };
}

// The source must not be in use: by live workers, active leases or held locks.

/** A worker without a heartbeat for this long is dead. */
const SILENT_MS = 60_000;

/** More would not fit into a sentence. */
const NAMED_MAX = 5;

/** Throws CopyRefusedError when a process uses the database. */
async function refuseInUse(engine: Engine): Promise<void> {
  const found = [
    ...(await liveWorkers(engine)),
    ...(await leases(engine)),
    ...(await locks(engine)),
  ];
  if (found.length === 0) return;
  const shown = found.slice(0, NAMED_MAX);
  const more = found.length - shown.length;
  throw new CopyRefusedError({
    reasons: ["The source is in use.", ...shown, ...(more > 0 ? [`And ${more} more.`] : [])],
    remedy: "Stop every worker and every program that uses the source, then run this again.",
  });
}

async function liveWorkers(engine: Engine): Promise<string[]> {
  const rows = await engine.all<{ id: string; hostname: string; pid: number; silentMs: number }>(
    sql`select id, hostname, pid, ${engine.now()} - heartbeat_at as "silentMs"
          from holdfast.worker
         where status <> 'stopped'
           and heartbeat_at > ${engine.now()} - ${SILENT_MS}
         order by heartbeat_at desc
         limit ${NAMED_MAX + 1}`,
  );
  return rows.map(
    ({ id, hostname, pid, silentMs }) =>
      `Worker ${id} (process ${pid} on ${hostname}) sent a heartbeat ${seconds(silentMs)} ago; ` +
      `it counts as dead in ${seconds(SILENT_MS - silentMs)}.`,
  );
}

async function leases(engine: Engine): Promise<string[]> {
  const rows = await engine.all<{ id: string; owner: string; leftMs: number }>(
    sql`select id, locked_by as owner, locked_until - ${engine.now()} as "leftMs"
          from holdfast.lease
         where locked_until > ${engine.now()}
         order by locked_until desc
         limit ${NAMED_MAX + 1}`,
  );
  return rows.map(
    ({ id, owner, leftMs }) => `${owner} has a lease on job ${id} for another ${seconds(leftMs)}.`,
  );
}

async function locks(engine: Engine): Promise<string[]> {
  const rows = await engine.all<{ name: string; owner: string; leftMs: number }>(
    sql`select name, owner, expires_at - ${engine.now()} as "leftMs"
          from holdfast.lock
         where holder is not null
           and expires_at > ${engine.now()}
         order by expires_at desc
         limit ${NAMED_MAX + 1}`,
  );
  return rows.map(
    ({ name, owner, leftMs }) => `${owner} holds the lock ${name} for another ${seconds(leftMs)}.`,
  );
}

function seconds(ms: number): string {
  return `${Math.max(0, Math.ceil(ms / 1_000))} s`;
}
