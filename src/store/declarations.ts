/** What workflows declare, as rows that the database itself compares every item with. */
import { isDeepStrictEqual } from "node:util";
import { subjects } from "../core/audit.ts";
import { StoreRefused } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import { ItemsStranded, WorkflowConflict, type Strand } from "../core/workflow-errors.ts";
import { noteAction } from "./audit.ts";
import type { Engine, Transaction } from "./engine.ts";
import { sql, type Sql } from "./sql.ts";
import type { Declaration, DeclaredMove, StoredWorkflow } from "./workflows.ts";

/** How many items an error names for each thing that a declaration lacks. */
const EXAMPLES_MAX = 5;

interface WorkflowRow {
  readonly version: number;
  readonly declaration: string;
  readonly declaredAt: number;
}

export async function findWorkflow(engine: Engine, name: string): Promise<StoredWorkflow | null> {
  const row = await rowFor(engine, name);
  if (row === null) return null;
  return { ...(JSON.parse(row.declaration) as Declaration), declaredAt: row.declaredAt };
}

async function rowFor(from: Pick<Transaction, "all">, name: string): Promise<WorkflowRow | null> {
  const [row] = await from.all<WorkflowRow>(sql`
    select version, declaration, declared_at as "declaredAt" from holdfast.workflow where name = ${name}`);
  return row ?? null;
}

export async function declareWorkflow(engine: Engine, declaration: Declaration): Promise<void> {
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
    if (!(error instanceof StoreRefused) || (await rowFor(engine, name)) === null) throw error;
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
  throw new WorkflowConflict({ workflow: name, version });
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
  if (stranded.length > 0) throw new ItemsStranded({ workflow: name, version, stranded });
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
