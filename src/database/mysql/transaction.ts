/** A transaction for the shared SQL, statement by statement. */
import { type Row, TABLES, type Taking, type Transaction } from "../engine.ts";
import { type Compiler, nothing, sql, type Sql } from "../sql.ts";
import {
  type Answer,
  changesOf,
  fill,
  filled,
  inGroups,
  insertRows,
  jsonList,
  RawSql,
  rowsOf,
  tuple,
} from "./session.ts";

/** Sends statements together and returns their answers. */
export type Send = (statements: readonly string[]) => Promise<Answer[]>;

/** How often a transaction looks again for rows while others hold locks on some of them. */
const LOOKS_MAX = 8;

export class SharedTransaction implements Transaction {
  readonly #send: Send;
  readonly #compiler: Compiler;

  constructor(send: Send, compiler: Compiler) {
    this.#send = send;
    this.#compiler = compiler;
  }

  async all<T = Row>(query: Sql): Promise<T[]> {
    return rowsOf<T>((await this.#send([this.#text(query)])).at(-1));
  }

  async run(query: Sql): Promise<number> {
    return changesOf((await this.#send([this.#text(query)])).at(-1));
  }

  async allOf<T = Row>(queries: readonly Sql[]): Promise<T[][]> {
    return (await this.#sendAll(queries)).map((answer) => rowsOf<T>(answer));
  }

  async runAll(queries: readonly Sql[]): Promise<number[]> {
    return (await this.#sendAll(queries)).map(changesOf);
  }

  async script(text: string): Promise<void> {
    await this.#send([text.trim().replace(/;$/, "")]);
  }

  async insert(table: string, rows: readonly Row[]): Promise<void> {
    if (rows.length > 0) await this.#send(insertRows(table, rows));
  }

  /**
   * Looks first, without a lock; then locks what it saw by its primary key and checks again. A search that locks also
   * locks the rows it passes over, and a search by another index locks in an order that deadlocks with other statements.
   */
  async take<T = Row>(from: Taking): Promise<T[]> {
    const { table, limit = Number.POSITIVE_INFINITY, skipLocked } = from;
    const taken: (T & { id: string })[] = [];
    const passed: string[] = [];
    for (let round = 0; round < LOOKS_MAX; round += 1) {
      const wanted = limit - taken.length;
      const seen = from.ids?.map((id) => ({ id })) ?? (await this.#look(from, { passed, wanted }));
      taken.push(...(await this.#lock<T & { id: string }>(from, seen)));
      passed.push(...seen.map(({ id }) => id));
      // Rows that others have locked are left to them; there may be more behind these.
      if (skipLocked !== true || from.ids !== undefined) break;
      if (seen.length < wanted || taken.length === limit) break;
    }
    for (const group of inGroups(taken)) await this.#send([deletion(table, idsOf(group))]);
    const leases = table === "lease" ? (taken as unknown as Entry[]) : [];
    for (const group of inGroups(leases.filter(({ lane }) => lane !== null))) {
      await this.#send([deletionOfEntries(group)]);
    }
    return taken;
  }

  #look(
    { table, where, orderBy }: Taking,
    { passed, wanted }: { passed: readonly string[]; wanted: number },
  ): Promise<EntryKey[]> {
    return this.all<EntryKey>(sql`
      select ${table === "ready" ? sql`id, queue, lane, place` : sql`id`}
        from ${TABLES[table]}
       where ${where}
             ${passed.length === 0 ? nothing : sql`and id not in (${passed})`}
       order by ${orderBy ?? sql`id`}
       ${Number.isFinite(wanted) ? sql`limit ${wanted}` : nothing}`);
  }

  async #lock<T>(from: Taking, keys: readonly EntryKey[]): Promise<T[]> {
    const rows: T[] = [];
    for (const group of inGroups(keys.toSorted((a, b) => (a.id < b.id ? -1 : 1)))) {
      rows.push(...(await this.all<T>(lock(from, group))));
    }
    return rows;
  }

  /** The statements that open the transaction may be sent before these. */
  async #sendAll(queries: readonly Sql[]): Promise<Answer[]> {
    if (queries.length === 0) return [];
    return (await this.#send(queries.map((query) => this.#text(query)))).slice(-queries.length);
  }

  #text(query: Sql): string {
    return filled(this.#compiler.compile(query));
  }
}

/** The primary key. */
interface EntryKey {
  readonly id: string;
  readonly queue?: string;
  readonly lane?: string;
  readonly place?: number;
}

function lock({ table, where, skipLocked }: Taking, keys: readonly EntryKey[]): Sql {
  return sql`
    select *
      from ${TABLES[table]} force index (${isById(table, keys) ? sql`by_id` : sql`primary`})
     where (${atKeys(table, keys)})
       and (${where})
     order by id
       for update ${skipLocked === true ? sql`skip locked` : nothing}`;
}

/** Pending jobs whose ids alone are known. */
function isById(table: Taking["table"], keys: readonly EntryKey[]): boolean {
  return table === "ready" && keys.some(({ queue }) => queue === undefined);
}

function atKeys(table: Taking["table"], keys: readonly EntryKey[]): Sql {
  if (table !== "ready" || isById(table, keys)) return sql`id in (${keys.map(({ id }) => id)})`;
  return keys
    .map(
      ({ id, queue = "", lane = "", place = 0 }) =>
        sql`queue = ${queue} and lane = ${lane} and place = ${place} and id = ${id}`,
    )
    .reduce((either, key) => sql`${either} or ${key}`);
}

/** The primary key of an entry among the leases by lane. */
interface Entry {
  readonly queue: string;
  readonly lane: string | null;
  readonly id: string;
  readonly epoch: number;
}

function deletionOfEntries(entries: readonly Entry[]): string {
  const keys = entries.map(({ queue, lane, id, epoch }) => tuple([queue, lane, id, epoch]));
  const text = "delete from holdfast_lane_lease where (queue, lane, id, epoch) in (?)";
  return fill(text, new RawSql(keys.join(",")));
}

function idsOf(rows: readonly { readonly id: string }[]): string[] {
  return rows.map(({ id }) => id);
}

/** A DELETE of one table takes no index hint; joined to the list of ids, it looks up one id after the other. */
export function deletion(table: Taking["table"], ids: readonly string[]): string {
  const index = table === "ready" ? "by_id" : "primary";
  const listed = "json_table(?, '$[*]' columns (id char(36) character set ascii path '$')) i";
  const text = `
    delete t
      from ${listed}
      straight_join holdfast_${table} t force index (${index}) on t.id = i.id`;
  return fill(text, jsonList(ids));
}
