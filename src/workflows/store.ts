/** Workflows and their items in the database. */
import { isDeepStrictEqual } from "node:util";
import { subjects } from "../audit/entry.ts";
import { noteAction } from "../audit/store.ts";
import { StoreRefusedError } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import type { ItemEntry } from "../core/item.ts";
import type { Database, JoinedTransaction } from "../database/database.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { JobHooks, MoveContext } from "../jobs/hooks.ts";
import { neighbours } from "../jobs/list.ts";
import { type Changed, changeIn, changeItems, orViolation } from "./changes.ts";
import {
  type Declaration,
  type DeclaredMove,
  type DueItem,
  dueItems,
  type ItemJob,
  type ItemsChange,
  type LineRange,
  type StoredItem,
  type StoredWorkflow,
} from "./item-record.ts";
import { ItemsStrandedError, type Strand, WorkflowConflictError } from "./errors.ts";
import {
  type CountFilter,
  countItems,
  ItemReader,
  itemLines,
  itemsAfter,
  itemsOfChange,
  pruneItems,
} from "./list.ts";

/** The public methods of the classes, for other implementations. */
export type ItemsStore = Pick<SqlItems, keyof SqlItems>;
export type ItemsInTransaction = Pick<SqlItemsInTransaction, keyof SqlItemsInTransaction>;

export class SqlItems extends ItemReader {
  readonly #db: Database;
  readonly #engine: Engine;
  readonly #context: MoveContext;

  constructor(db: Database, hooks: readonly JobHooks[]) {
    super(db.engine, db.engine);
    this.#db = db;
    this.#engine = db.engine;
    this.#context = { engine: db.engine, hooks };
  }

  /**
   * Stores a declaration. An older version than the stored one changes nothing. Throws WorkflowConflictError when the same
   * version was declared differently, and ItemsStrandedError when living items do not fit.
   */
  declare(declaration: Declaration): Promise<void> {
    const declare = (): Promise<void> => declareWorkflow(this.#engine, declaration);
    return this.#db.write(declare, declare); // idempotent
  }

  async findWorkflow(name: string): Promise<StoredWorkflow | null> {
    const row = await rowFor(this.#engine, name);
    if (row === null) return null;
    return { ...(JSON.parse(row.declaration) as Declaration), declaredAt: row.declaredAt };
  }

  /** How many items of a workflow are in each of these states. */
  counts(filter: CountFilter): Promise<{ readonly status: string; readonly items: number }[]> {
    return countItems(this.#engine, filter);
  }

  /** The names of the declared workflows, in order. */
  async workflowNames({ limit }: { readonly limit: number }): Promise<string[]> {
    const rows = await this.#engine.all<{ name: string }>(
      sql`select name from holdfast.workflow order by name limit ${limit}`,
    );
    return rows.map(({ name }) => name);
  }

  /**
   * Locks items and all their ancestors, from the root; asks `decide` for the writes; writes them, touches the ancestors, and
   * adds an audit line for each changed item. All in one transaction. It may call `decide` again.
   */
  async change(change: ItemsChange): Promise<StoredItem[]> {
    const write = (): Promise<Changed> => changeItems(this.#context, change);
    const { items, hints } = await this.#db.write<Changed>(write, async () => {
      const written = await itemsOfChange(this.#engine, change.id);
      // The jobs that it enqueued are pending, and the notification may have been lost.
      return written.length === 0 ? write() : { items: written, hints: [{ kind: "unknown" }] };
    });
    for (const hint of hints) this.#db.announce(hint);
    return items;
  }

  /** Items in the order of their ids, for a walk through all of them. */
  after(id: string | null, limit: number): Promise<StoredItem[]> {
    return itemsAfter(this.#engine, id, limit);
  }

  /** Items whose automatic move is due, longest overdue first, and milliseconds until the next one; null: there is none. */
  due(filter: { readonly workflows: readonly string[]; readonly limit: number }) {
    return dueItems(this.#engine, filter);
  }

  /** The jobs that an item's state enqueued, and the status of the ended ones. */
  jobsOf(item: string): Promise<ItemJob[]> {
    return this.#engine.all<ItemJob>(sql`
      select job_id as job, status from holdfast.item_job where item_id = ${item} order by job_id`);
  }

  /** Tries a move again later, unless the item became due anew meanwhile. */
  async postpone({ item, reason, dueAt }: DueItem, ms: number): Promise<void> {
    await this.#engine.run(sql`
      update holdfast.item_due
         set due_at = ${this.#engine.now()} + ${ms}
       where item_id = ${item}
         and reason = ${reason}
         and due_at = ${dueAt}`);
  }

  /** Deletes trees of items whose retention is over. Returns how many trees. */
  prune(limit: number): Promise<number> {
    return pruneItems(this.#engine, limit);
  }

  /** The audit lines of items, in the order of their ids, for a walk through all of them. */
  lines(range: LineRange): Promise<ItemEntry[]> {
    return itemLines(this.#engine, range);
  }

  /** The ids directly before and after each of these: they determine how short an id can be displayed. */
  neighbours(ids: readonly string[]): Promise<string[]> {
    return neighbours(this.#engine, "item", ids);
  }

  in(joined: JoinedTransaction): ItemsInTransaction {
    return new SqlItemsInTransaction(this.#context, joined);
  }
}

class SqlItemsInTransaction extends ItemReader {
  readonly #context: MoveContext;
  readonly #joined: JoinedTransaction;

  constructor(context: MoveContext, joined: JoinedTransaction) {
    super(context.engine, joined.tx);
    this.#context = context;
    this.#joined = joined;
  }

  async change(change: ItemsChange): Promise<StoredItem[]> {
    const changing = (): Promise<Changed> => changeIn(this.#context, this.#joined.tx, change);
    const { items, hints } = await orViolation(changing);
    for (const hint of hints) await this.#joined.notify(hint);
    return items;
  }
}

// Declarations, as rows that the database compares every item with.

/** How many items an error names for each missing part of a declaration. */
const EXAMPLES_MAX = 5;

interface WorkflowRow {
  readonly version: number;
  readonly declaration: string;
  readonly declaredAt: number;
}

async function rowFor(from: Pick<Transaction, "all">, name: string): Promise<WorkflowRow | null> {
  const [row] = await from.all<WorkflowRow>(sql`
    select version, declaration, declared_at as "declaredAt" from holdfast.workflow where name = ${name}`);
  return row ?? null;
}

async function declareWorkflow(engine: Engine, declaration: Declaration): Promise<void> {
  const { name } = declaration;
  const stored = await rowFor(engine, name);
  if (stored !== null) {
    if (needsNothing(declaration, stored)) return;
    return engine.transaction((tx) => changeDeclaration(engine, tx, declaration));
  }
  try {
    await engine.transaction((tx) => addDeclaration(engine, tx, declaration));
  } catch (error) {
    // Another process may have inserted it first, perhaps with another version.
    if (!(error instanceof StoreRefusedError) || (await rowFor(engine, name)) === null) throw error;
    await engine.transaction((tx) => changeDeclaration(engine, tx, declaration));
  }
}

/** An older process keeps running next to newer ones; the database refuses moves that are no longer declared. */
function needsNothing(declaration: Declaration, stored: WorkflowRow): boolean {
  const { name, version } = declaration;
  if (version < stored.version) return true;
  if (version > stored.version) return false;
  const known = JSON.parse(stored.declaration) as Declaration;
  if (isDeepStrictEqual(inOrder(known), inOrder(declaration))) return true;
  throw new WorkflowConflictError({ workflow: name, version });
}

/** The order of states and moves has no meaning. The order of types has: the first is the default. */
function inOrder({ states, moves, ...rest }: Declaration): Declaration {
  return {
    ...rest,
    states: states.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    moves: moves.toSorted((a, b) => (moveKey(a) < moveKey(b) ? -1 : 1)),
  };
}

function moveKey({ name, from, to }: DeclaredMove): string {
  return JSON.stringify([name, from, to]);
}

async function addDeclaration(
  engine: Engine,
  tx: Transaction,
  declaration: Declaration,
): Promise<void> {
  const { name, version, parent, keepMs } = declaration;
  await tx.run(sql`
    insert into holdfast.workflow (name, version, parent, keep_ms, declared_at, declaration)
    values (${name}, ${version}, ${parent}, ${keepMs}, ${engine.now()}, ${JSON.stringify(declaration)})`);
  await insertRules(engine, tx, declaration, { moves: [] });
}

/** The rows of the states serialize this with transactions that start or move items. */
async function changeDeclaration(
  engine: Engine,
  tx: Transaction,
  declaration: Declaration,
): Promise<void> {
  const { name, version, parent, keepMs } = declaration;
  await tx.run(sql`update holdfast.workflow set version = version where name = ${name}`);
  const stored = await rowFor(tx, name); // locked by the update
  if (stored === null || needsNothing(declaration, stored)) return;
  const locked = sql`name ${engine.lockRows()}`;
  await tx.all(sql`
    select name from holdfast.workflow_state where workflow = ${name} order by ${locked}`);
  const before = JSON.parse(stored.declaration) as Declaration;
  await refuseStranding(engine, tx, declaration, before);
  await tx.run(sql`
    update holdfast.workflow
       set version = ${version}, parent = ${parent}, declared_at = ${engine.now()},
           declaration = ${JSON.stringify(declaration)}
     where name = ${name}`);
  await dropRules(tx, declaration, before);
  await insertRules(engine, tx, declaration, before);
  if (keepMs !== before.keepMs) await changeKeep(engine, tx, declaration, before);
}

/** It deletes items, so the database requires an audit line with it. */
async function changeKeep(
  engine: Engine,
  tx: Transaction,
  { name, version, keepMs }: Declaration,
  before: Declaration,
): Promise<void> {
  const reason = `version ${version} was declared`;
  const operator = { id: makeIds(engine.runtime)(), actor: "api", reason };
  const detail = `${before.keepMs ?? "forever"} to ${keepMs ?? "forever"}`;
  const subject = subjects.workflow(name);
  await noteAction(engine, tx, operator, { action: "workflow.keep", subject, detail });
  await tx.run(sql`update holdfast.workflow set keep_ms = ${keepMs} where name = ${name}`);
}

async function refuseStranding(
  engine: Engine,
  tx: Transaction,
  declaration: Declaration,
  before: Declaration,
): Promise<void> {
  const { name, version } = declaration;
  const stranded: Strand[] = [];
  const find = async (lacks: string, condition: Sql): Promise<void> => {
    const strand = await strandOf(tx, name, { lacks, condition });
    if (strand !== null) stranded.push(strand);
  };
  for (const state of before.states) {
    if (state.isFinal || declaration.states.some((one) => one.name === state.name)) continue;
    await find(`state '${state.name}'`, sql`status = ${state.name}`);
  }
  const living = before.states.filter(({ isFinal }) => !isFinal).map((state) => state.name);
  const isLiving = engine.among(sql`status`, living);
  for (const type of before.types) {
    if (declaration.types.includes(type)) continue;
    await find(`type '${type}'`, sql`type = ${type} and ${isLiving}`);
  }
  if (declaration.parent !== before.parent) {
    const parent = before.parent === null ? "none" : `'${before.parent}'`;
    await find(`parent workflow ${parent}`, isLiving);
  }
  if (stranded.length > 0) throw new ItemsStrandedError({ workflow: name, version, stranded });
}

async function strandOf(
  tx: Transaction,
  workflow: string,
  { lacks, condition }: { lacks: string; condition: Sql },
): Promise<Strand | null> {
  const [count] = await tx.all<{ items: number | string }>(sql`
    select count(*) as items from holdfast.item where workflow = ${workflow} and ${condition}`);
  const items = Number(count?.items ?? 0);
  if (items === 0) return null;
  const rows = await tx.all<{ id: string }>(sql`
    select id from holdfast.item where workflow = ${workflow} and ${condition} order by id limit ${EXAMPLES_MAX}`);
  return { lacks, items, examples: rows.map(({ id }) => id) };
}

/** States and types of ended items stay, but no item enters such a state or starts with such a type again. */
async function dropRules(
  tx: Transaction,
  { name, types, states, moves }: Declaration,
  before: Declaration,
): Promise<void> {
  for (const gone of before.moves.filter((move) => !isAmong(moves, move))) {
    await tx.run(sql`
      delete from holdfast.workflow_move
       where workflow = ${name} and from_state = ${gone.from} and to_state = ${gone.to} and name = ${gone.name}`);
  }
  await tx.run(sql`update holdfast.workflow_state set is_initial = 0 where workflow = ${name}`);
  await tx.run(sql`update holdfast.workflow_type set is_declared = 0 where workflow = ${name}`);
  for (const type of before.types) {
    if (types.includes(type) || (await isUsed(tx, name, sql`type = ${type}`))) continue;
    await tx.run(sql`
      delete from holdfast.workflow_type where workflow = ${name} and name = ${type}`);
  }
  for (const { name: state } of before.states) {
    if (states.some((one) => one.name === state)) continue;
    if (await isUsed(tx, name, sql`status = ${state}`)) continue;
    await tx.run(sql`
      delete from holdfast.workflow_state where workflow = ${name} and name = ${state}`);
  }
}

async function isUsed(tx: Transaction, workflow: string, condition: Sql): Promise<boolean> {
  const rows = await tx.all(sql`
    select id from holdfast.item where workflow = ${workflow} and ${condition} limit 1`);
  return rows.length > 0;
}

async function insertRules(
  engine: Engine,
  tx: Transaction,
  { name: workflow, types, states, moves }: Declaration,
  before: Pick<Declaration, "moves">,
): Promise<void> {
  const newTypes = await missing(tx, sql`holdfast.workflow_type`, { workflow, names: types });
  const typeRows = newTypes.map((name) => ({ workflow, name, is_declared: 1 }));
  await tx.insert("workflow_type", typeRows);
  await tx.run(sql`
    update holdfast.workflow_type set is_declared = 1
     where workflow = ${workflow} and ${engine.among(sql`name`, types)}`);
  const names = states.map(({ name }) => name);
  const newStates = await missing(tx, sql`holdfast.workflow_state`, { workflow, names });
  const stateRows = newStates.map((name) => ({ workflow, name, is_initial: 0, is_final: 0 }));
  await tx.insert("workflow_state", stateRows);
  for (const { name, isInitial, isFinal } of states) {
    await tx.run(sql`
      update holdfast.workflow_state
         set is_initial = ${isInitial ? 1 : 0}, is_final = ${isFinal ? 1 : 0}
       where workflow = ${workflow} and name = ${name}`);
  }
  const newMoves = moves.filter((move) => !isAmong(before.moves, move));
  await tx.insert(
    "workflow_move",
    newMoves.map(({ name, from, to }) => ({ workflow, from_state: from, to_state: to, name })),
  );
}

function isAmong(moves: readonly DeclaredMove[], { name, from, to }: DeclaredMove): boolean {
  return moves.some((one) => one.name === name && one.from === from && one.to === to);
}

/** The names that are not in the table yet. */
async function missing(
  tx: Transaction,
  table: Sql,
  { workflow, names }: { workflow: string; names: readonly string[] },
): Promise<string[]> {
  const rows = await tx.all<{ name: string }>(
    sql`select name from ${table} where workflow = ${workflow}`,
  );
  const known = new Set(rows.map(({ name }) => name));
  return names.filter((name) => !known.has(name));
}
