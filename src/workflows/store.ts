/** The verbs about workflows. */
import { isDeepStrictEqual } from "node:util";
import { subjects } from "../audit/entry.ts";
import { noteAction } from "../audit/store.ts";
import { StoreRefusedError } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import type { ChildrenIn, ItemEntry } from "../core/item.ts";
import type { Database, JoinedTransaction } from "../database/database.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { JobHooks, MoveContext } from "../jobs/hooks.ts";
import { neighbours } from "../jobs/list.ts";
import { type Changed, changeIn, changeItems, orViolation, progressOf } from "./changes.ts";
import { dueItems, itemJobs, postponeItem } from "./due.ts";
import { ItemsStrandedError, type Strand, WorkflowConflictError } from "./errors.ts";
import type {
  Declaration,
  DeclaredMove,
  DueItem,
  HistoryFilter,
  ItemFilter,
  ItemJob,
  ItemsChange,
  LineRange,
  StoredItem,
  StoredWorkflow,
} from "./item-record.ts";
import * as lists from "./list.ts";
import { pruneItems, workflowNames } from "./list.ts";

/** The verbs that also run in a transaction of the user's. */
export interface ItemsInTransaction {
  /**
   * Locks items and all above them, from the top; lets `decide` say what is to be written; writes it, touches those above,
   * and adds a line to the audit of each that changed. All or nothing, in one transaction. `decide` may be asked again.
   */
  change(change: ItemsChange): Promise<StoredItem[]>;
  find(id: string): Promise<StoredItem | null>;
  /** Newest first, a page at a time: pass the last id of one page as `before` of the next. */
  list(filter: ItemFilter): Promise<StoredItem[]>;
  /** How many items directly below this one are in which state. */
  progressOf(item: string): Promise<ChildrenIn[]>;
  /** What was done to an item, oldest first; `after` is the last number of the page before. */
  history(filter: HistoryFilter): Promise<ItemEntry[]>;
}

export interface ItemsStore extends ItemsInTransaction {
  /**
   * Stores a declaration. One of an older version than is stored changes nothing. Throws WorkflowConflictError when the same
   * version says something else, and ItemsStrandedError when living items do not fit.
   */
  declare(declaration: Declaration): Promise<void>;
  findWorkflow(name: string): Promise<StoredWorkflow | null>;
  /** The names of the workflows that were declared, in order. */
  workflowNames(filter: { readonly limit: number }): Promise<string[]>;

  /** Items in the order of their ids, for whoever looks through all of them. */
  after(id: string | null, limit: number): Promise<StoredItem[]>;

  /** Items that have to make a move by themselves, those that are overdue longest first. */
  due(filter: { readonly workflows: readonly string[]; readonly limit: number }): Promise<{
    readonly due: readonly DueItem[];
    /** Milliseconds until the next one after these; null: there is none. */
    readonly nextInMs: number | null;
  }>;
  /** The jobs that an item's state enqueued, and what became of those that have ended. */
  jobsOf(item: string): Promise<ItemJob[]>;
  /** Tries again later: the move could not be made now. Unless it became due anew meanwhile. */
  postpone(item: DueItem, ms: number): Promise<void>;

  /** The audit lines of items, in the order of their ids, for a walk through all of them. */
  lines(range: LineRange): Promise<ItemEntry[]>;
  /** The ids directly before and after each of these: no others decide how short they can be written. */
  neighbours(ids: readonly string[]): Promise<string[]>;

  /** Deletes items whose workflow keeps them no longer, with all below them. Returns how many trees. */
  prune(limit: number): Promise<number>;

  in(joined: JoinedTransaction): ItemsInTransaction;
}

export class SqlItems implements ItemsStore {
  readonly #db: Database;
  readonly #engine: Engine;
  readonly #context: MoveContext;

  constructor(db: Database, hooks: readonly JobHooks[]) {
    this.#db = db;
    this.#engine = db.engine;
    this.#context = { engine: db.engine, hooks };
  }

  declare(declaration: Declaration): Promise<void> {
    const declare = (): Promise<void> => declareWorkflow(this.#engine, declaration);
    return this.#db.write(declare, declare); // twice is once
  }

  findWorkflow(name: string): Promise<StoredWorkflow | null> {
    return findWorkflow(this.#engine, name);
  }

  workflowNames({ limit }: { limit: number }): Promise<string[]> {
    return workflowNames(this.#engine, limit);
  }

  async change(change: ItemsChange): Promise<StoredItem[]> {
    const write = (): Promise<Changed> => changeItems(this.#context, change);
    const { items, hints } = await this.#db.write<Changed>(write, async () => {
      const written = await lists.itemsOfChange(this.#engine, change.id);
      // What it enqueued is pending, and the notification may have been lost.
      return written.length === 0 ? write() : { items: written, hints: [{ kind: "unknown" }] };
    });
    for (const hint of hints) this.#db.announce(hint);
    return items;
  }

  async find(id: string): Promise<StoredItem | null> {
    const [item] = await lists.findItems(this.#engine, this.#engine, [id]);
    return item ?? null;
  }

  list(filter: ItemFilter): Promise<StoredItem[]> {
    return lists.listItems(this.#engine, this.#engine, filter);
  }

  progressOf(item: string): Promise<ChildrenIn[]> {
    return progressOf(this.#engine, this.#engine, item);
  }

  history(filter: HistoryFilter): Promise<ItemEntry[]> {
    return lists.itemHistory(this.#engine, this.#engine, filter);
  }

  after(id: string | null, limit: number): Promise<StoredItem[]> {
    return lists.itemsAfter(this.#engine, id, limit);
  }

  due(filter: { readonly workflows: readonly string[]; readonly limit: number }) {
    return dueItems(this.#engine, filter);
  }

  jobsOf(item: string): Promise<ItemJob[]> {
    return itemJobs(this.#engine, item);
  }

  postpone(item: DueItem, ms: number): Promise<void> {
    return postponeItem(this.#engine, item, ms);
  }

  prune(limit: number): Promise<number> {
    return pruneItems(this.#engine, limit);
  }

  lines(range: LineRange): Promise<ItemEntry[]> {
    return lists.itemLines(this.#engine, range);
  }

  neighbours(ids: readonly string[]): Promise<string[]> {
    return neighbours(this.#engine, "item", ids);
  }

  in(joined: JoinedTransaction): ItemsInTransaction {
    return new SqlItemsInTransaction(this.#context, joined);
  }
}

class SqlItemsInTransaction implements ItemsInTransaction {
  readonly #context: MoveContext;
  readonly #engine: Engine;
  readonly #joined: JoinedTransaction;

  constructor(context: MoveContext, joined: JoinedTransaction) {
    this.#context = context;
    this.#engine = context.engine;
    this.#joined = joined;
  }

  async change(change: ItemsChange): Promise<StoredItem[]> {
    const changing = (): Promise<Changed> => changeIn(this.#context, this.#joined.tx, change);
    const { items, hints } = await orViolation(changing);
    for (const hint of hints) await this.#joined.notify(hint);
    return items;
  }

  async find(id: string): Promise<StoredItem | null> {
    const [item] = await lists.findItems(this.#engine, this.#joined.tx, [id]);
    return item ?? null;
  }

  list(filter: ItemFilter): Promise<StoredItem[]> {
    return lists.listItems(this.#engine, this.#joined.tx, filter);
  }

  progressOf(item: string): Promise<ChildrenIn[]> {
    return progressOf(this.#engine, this.#joined.tx, item);
  }

  history(filter: HistoryFilter): Promise<ItemEntry[]> {
    return lists.itemHistory(this.#engine, this.#joined.tx, filter);
  }
}

// What workflows declare, as rows that the database itself compares every item with.

/** How many items an error names for each thing that a declaration lacks. */
const EXAMPLES_MAX = 5;

interface WorkflowRow {
  readonly version: number;
  readonly declaration: string;
  readonly declaredAt: number;
}

async function findWorkflow(engine: Engine, name: string): Promise<StoredWorkflow | null> {
  const row = await rowFor(engine, name);
  if (row === null) return null;
  return { ...(JSON.parse(row.declaration) as Declaration), declaredAt: row.declaredAt };
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
    // Unless somebody else was faster, perhaps with another version.
    if (!(error instanceof StoreRefusedError) || (await rowFor(engine, name)) === null) throw error;
    await engine.transaction((tx) => changeDeclaration(engine, tx, declaration));
  }
}

/** An older process goes on beside newer ones: what it may not do any more, the database refuses. */
function needsNothing(declaration: Declaration, stored: WorkflowRow): boolean {
  const { name, version } = declaration;
  if (version < stored.version) return true;
  if (version > stored.version) return false;
  const known = JSON.parse(stored.declaration) as Declaration;
  if (isDeepStrictEqual(inOrder(known), inOrder(declaration))) return true;
  throw new WorkflowConflictError({ workflow: name, version });
}

/** In which order somebody wrote down states and moves means nothing; the first type is the default. */
function inOrder({ states, moves, ...rest }: Declaration): Declaration {
  return {
    ...rest,
    states: states.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    moves: moves.toSorted((a, b) => (wordsOf(a) < wordsOf(b) ? -1 : 1)),
  };
}

function wordsOf({ name, from, to }: DeclaredMove): string {
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

/** Whoever starts or moves an item meanwhile waits for us at the rows of its state, or we for them. */
async function changeDeclaration(
  engine: Engine,
  tx: Transaction,
  declaration: Declaration,
): Promise<void> {
  const { name, version, parent, keepMs } = declaration;
  await tx.run(sql`update holdfast.workflow set version = version where name = ${name}`);
  const stored = await rowFor(tx, name); // nobody else changes it now
  if (stored === null || needsNothing(declaration, stored)) return;
  await lockStates(engine, tx, name);
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

/** Items vanish by it, so the database takes it only together with a line among those of operators. */
async function changeKeep(
  engine: Engine,
  tx: Transaction,
  { name, version, keepMs }: Declaration,
  before: Declaration,
): Promise<void> {
  const reason = `version ${version} was declared`;
  const signature = { id: makeIds(engine.runtime)(), actor: "api", reason };
  const detail = `${before.keepMs ?? "forever"} to ${keepMs ?? "forever"}`;
  const subject = subjects.workflow(name);
  await noteAction(engine, tx, signature, { action: "workflow.keep", subject, detail });
  await tx.run(sql`update holdfast.workflow set keep_ms = ${keepMs} where name = ${name}`);
}

async function lockStates(engine: Engine, tx: Transaction, name: string): Promise<void> {
  const locked = sql`name ${engine.lockRows()}`;
  await tx.all(sql`
    select name from holdfast.workflow_state where workflow = ${name} order by ${locked}`);
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
    await find(`parent workflow ${quoted(before.parent)}`, isLiving);
  }
  if (stranded.length > 0) throw new ItemsStrandedError({ workflow: name, version, stranded });
}

function quoted(name: string | null): string {
  return name === null ? "none" : `'${name}'`;
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

/** What ended items have stays, but nobody enters such a state or is started with such a type any more. */
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
  await tx.insert(
    "workflow_type",
    newTypes.map((name) => ({ workflow, name, is_declared: 1 })),
  );
  await tx.run(sql`
    update holdfast.workflow_type set is_declared = 1
     where workflow = ${workflow} and ${engine.among(sql`name`, types)}`);
  const names = states.map(({ name }) => name);
  const newStates = await missing(tx, sql`holdfast.workflow_state`, { workflow, names });
  await tx.insert(
    "workflow_state",
    newStates.map((name) => ({ workflow, name, is_initial: 0, is_final: 0 })),
  );
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

/** The names that the table does not have yet. */
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
