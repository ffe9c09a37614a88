/**
 * Workflows and their items.
 *
 * Every change goes through the same layers: a distributed lock on the whole tree, so that those who come at once wait
 * their turn without holding anything; a transaction; the rows, from the top; the guard; the write, and a line in the audit.
 * The lock is there to save work. What must hold, holds without it.
 */
import { type Audited, AUDITED_OPTIONS, checkOperator } from "../audit/operator.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import type { ChildrenIn, ItemEntry, ItemRecord } from "../core/item.ts";
import { checkKnown, checkList, checkText, checkWhole } from "../core/options.ts";
import type { Runtime } from "../core/runtime.ts";
import { ItemNotFoundError } from "./errors.ts";
import { type HistoryEntry, trailOf, type TrailSources } from "./history.ts";
import {
  type HistoryFilter,
  type ItemFilter,
  type ItemsChange,
  type ItemWrite,
  recordOf,
  type Seen,
  type StoredItem,
} from "./item-record.ts";
import {
  askedOf,
  auditedOf,
  CHANGE_OPTIONS,
  checkBelow,
  CHILD_OPTIONS,
  type ChildChange,
  type ChildPatch,
  filterOf,
  type HistoryOptions,
  historyPage,
  type ImportedItem,
  importedOf,
  type ItemChange,
  type ItemsFilter,
  type NewItem,
  parentAsked,
  START_OPTIONS,
  startedOf,
  trailPage,
} from "./options.ts";
import { type Asked, type ItemOperator, ItemPlan, type Started } from "./plan.ts";
import type { ItemsStore } from "./store.ts";
import { type AnyWorkflow, declarationOf, type Workflow } from "./workflow.ts";

export const ITEMS_BATCH_MAX = 1_000;

const LIST_MAX = 1_000;

const LIST_DEFAULT = 100;

/** As much of the locks as workflows use. */
export interface LockLayer {
  with<T>(
    key: string,
    options: { readonly trace?: string },
    body: (lock: { readonly waitedMs: number }) => Promise<T>,
  ): Promise<T>;
}

interface WorkflowsParts {
  readonly store: { readonly items: ItemsStore } & TrailSources;
  readonly runtime: Runtime;
  readonly newId: () => string;
  /** Null: the first layer is left out. */
  readonly locks: LockLayer | null;
}

interface Beginning<New> {
  readonly signed: Audited;
  readonly once: readonly string[] | undefined;
  readonly started: (workflow: AnyWorkflow, item: New, id: string) => Started;
}

export class Workflows {
  protected readonly parts: WorkflowsParts;
  readonly #declaring = new Map<AnyWorkflow, Promise<void>>();
  readonly #declared = new WeakSet<AnyWorkflow>();

  constructor(parts: WorkflowsParts) {
    this.parts = parts;
  }

  /**
   * Stores the declaration, so that the database goes by it. It happens by itself before the first item is started or
   * changed; call it to learn early whether it fits. Throws WorkflowConflictError and ItemsStrandedError.
   */
  async declare(workflow: AnyWorkflow): Promise<void> {
    if (this.#declared.has(workflow)) return;
    checkWorkflow(workflow);
    if (workflow.parent !== null) await this.declare(workflow.parent);
    let declaring = this.#declaring.get(workflow);
    declaring ??= this.parts.store.items.declare(declarationOf(workflow));
    this.#declaring.set(workflow, declaring);
    try {
      await declaring;
      this.#declared.add(workflow);
    } finally {
      this.#declaring.delete(workflow);
    }
  }

  isDeclared(workflow: AnyWorkflow): boolean {
    return this.#declared.has(workflow);
  }

  /** Starts an item in the initial state of its workflow. */
  async start<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    item: NewItem<NoInfer<Data>, NoInfer<Type>>,
  ): Promise<Item<State, Move, Data, Type>> {
    checkKnown(item, START_OPTIONS);
    const { actor, reason, trace, ...rest } = item;
    const [started] = await this.startMany(workflow, [rest], auditedOf({ actor, reason, trace }));
    return started as Item<State, Move, Data, Type>;
  }

  /** Starts items together: all of them or none. They have one parent, or none. */
  async startMany<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    items: readonly Omit<NewItem<NoInfer<Data>, NoInfer<Type>>, keyof Audited>[],
    signed: Audited,
    /** Of the change and of its items, which are started once however often it is asked for with these ids. */
    once?: readonly string[],
  ): Promise<Item<State, Move, Data, Type>[]> {
    return this.#begin(workflow, items, { signed, once, started: startedOf });
  }

  /** Brings items over from another system, in the states they have there. Their history begins with the line `import`. */
  async import<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    items: readonly ImportedItem<NoInfer<State>, NoInfer<Data>, NoInfer<Type>>[],
    signed: Audited,
  ): Promise<Item<State, Move, Data, Type>[]> {
    checkKnown(signed, AUDITED_OPTIONS);
    return this.#begin(workflow, items, { signed, once: undefined, started: importedOf });
  }

  async #begin<State extends string, Move extends string, Data, Type extends string, New>(
    workflow: Workflow<State, Move, Data, Type>,
    items: readonly New[],
    { signed, once, started: startedFrom }: Beginning<New>,
  ): Promise<Item<State, Move, Data, Type>[]> {
    await this.declare(workflow);
    checkWhole("items", checkList("items", items).length, { least: 1, most: ITEMS_BATCH_MAX });
    const [change, ...ids] = once ?? [];
    const started = items.map((item, index) =>
      startedFrom(workflow, item, ids[index] ?? this.parts.newId()),
    );
    const parent = parentOf(started);
    const tree = parent === null ? null : { of: parent };
    const rows = await this.#locked(workflow, tree, signed, (operator) =>
      this.write({
        ...this.#changeId(change),
        items: parent === null ? [] : [parent],
        decide: (seen) =>
          this.#plan(seen, operator, async (plan) => {
            for (const one of started) await plan.start(one);
          }),
      }),
    );
    const found = once === undefined ? rows : await this.#with(rows, started);
    return inOrderOf(started, found).map((row) => this.#item(workflow, row));
  }

  async item<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    id: string,
  ): Promise<Item<State, Move, Data, Type>> {
    checkWorkflow(workflow);
    const row = await this.find(checkText("id", id));
    if (row?.workflow !== workflow.name)
      throw new ItemNotFoundError({ id, workflow: workflow.name });
    return this.#item(workflow, row);
  }

  /** Newest first, a page at a time. */
  async list<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    filter: ItemsFilter<NoInfer<State>> = {},
  ): Promise<Item<State, Move, Data, Type>[]> {
    checkWorkflow(workflow);
    const wanted = filterOf(workflow, filter);
    const limit = checkWhole("limit", filter.limit ?? LIST_DEFAULT, { least: 1, most: LIST_MAX });
    const rows = await this.read({ ...wanted, workflow: workflow.name, limit });
    return rows.map((row) => this.#item(workflow, row));
  }

  /** What was done to an item, by whom, oldest first. */
  async history(id: string, options: HistoryOptions = {}): Promise<ItemEntry[]> {
    return this.readHistory(historyPage(id, options));
  }

  /** The same with the jobs that its lines enqueued, the attempts that made them, and what operators did to these jobs. */
  async trail(id: string, options: HistoryOptions = {}): Promise<HistoryEntry[]> {
    return trailOf(await this.readHistory(trailPage(id, options)), this.parts.store);
  }

  /** How many items directly below this one are in which state. */
  async progress(id: string): Promise<ChildrenIn[]> {
    return this.readProgress(checkText("id", id));
  }

  /** Moves or updates an item and, in the same step, its parent. */
  async updateChild<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    id: string,
    change: ChildChange<NoInfer<Move>, NoInfer<Data>>,
  ): Promise<Item<State, Move, Data, Type>> {
    return this.change(workflow, checkText("id", id), change);
  }

  /** Moves or updates several items of one parent: all of them, or none. */
  async updateChildren<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    parent: string,
    changes: readonly ChildPatch<NoInfer<Move>, NoInfer<Data>>[],
    signed: Audited,
    /** As of `change`. */
    once?: string,
  ): Promise<Item<State, Move, Data, Type>[]> {
    checkKnown(signed, AUDITED_OPTIONS);
    checkWhole("changes", checkList("changes", changes).length, {
      least: 1,
      most: ITEMS_BATCH_MAX,
    });
    for (const change of changes) checkKnown(change, CHILD_OPTIONS);
    const asked = changes.map((change) => askedOf(workflow, change.id, change));
    if (new Set(asked.map(({ id }) => id)).size < asked.length) {
      throw new InvalidArgumentError({ field: "changes", problem: "an item is in it twice." });
    }
    const rows = await this.#change(workflow, {
      asked,
      signed,
      under: checkText("parent", parent),
      ...(once === undefined ? {} : { once }),
    });
    return inOrderOf(asked, rows).map((row) => this.#item(workflow, row));
  }

  /** Moves or updates an item. */
  async change<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    item: string | ItemRecord,
    change: ChildChange<NoInfer<Move>, NoInfer<Data>>,
    /** Of the change, which is made once however often it is asked for with this id. Default: a new one. */
    once?: string,
  ): Promise<Item<State, Move, Data, Type>> {
    checkKnown(change, CHANGE_OPTIONS);
    const found = typeof item === "string" ? await this.item(workflow, item) : item;
    const asked = [askedOf(workflow, found.id, change)];
    if (change.parent !== undefined) asked.unshift(parentAsked(workflow, found, change.parent));
    const tree = { root: found.root, ...aboveOf(found) };
    const wanted = { asked, signed: change, ...tree, ...(once === undefined ? {} : { once }) };
    const rows = await this.#change(workflow, wanted);
    return this.#item(workflow, inOrderOf([found], rows)[0] as StoredItem);
  }

  protected write(change: ItemsChange): Promise<StoredItem[]> {
    return this.parts.store.items.change(change);
  }

  protected find(id: string): Promise<StoredItem | null> {
    return this.parts.store.items.find(id);
  }

  protected read(filter: ItemFilter): Promise<StoredItem[]> {
    return this.parts.store.items.list(filter);
  }

  protected readHistory(filter: HistoryFilter): Promise<ItemEntry[]> {
    return this.parts.store.items.history(filter);
  }

  protected readProgress(item: string): Promise<ChildrenIn[]> {
    return this.parts.store.items.progressOf(item);
  }

  async #change(
    workflow: AnyWorkflow,
    {
      asked,
      signed,
      under,
      root,
      above,
      once,
    }: {
      asked: readonly Asked[];
      signed: Audited;
      under?: string;
      root?: string;
      above?: readonly string[];
      once?: string;
    },
  ): Promise<StoredItem[]> {
    await this.declare(workflow);
    const change = {
      ...this.#changeId(once),
      ...(above === undefined ? {} : { above }),
    };
    const items = asked.map(({ id }) => id);
    const decide = (seen: Seen, operator: ItemOperator) =>
      this.#plan(seen, operator, async (plan) => {
        for (const one of asked) {
          if (under !== undefined) checkBelow(seen, one.id, under);
          await plan.change(one);
        }
        await plan.closeParents();
      });
    const tree = root === undefined ? { of: under ?? "" } : { root };
    return this.#locked(workflow, tree, signed, (operator) =>
      this.write({ ...change, items, decide: (seen) => decide(seen, operator) }),
    );
  }

  #changeId(once: string | undefined): { id: string; once?: true } {
    return once === undefined ? { id: this.parts.newId() } : { id: once, once: true };
  }

  /** A change that was made before does not tell which rows it started. */
  async #with(rows: readonly StoredItem[], started: readonly Started[]): Promise<StoredItem[]> {
    const known = new Set(rows.map(({ id }) => id));
    const missing = started.filter(({ id }) => !known.has(id));
    const found = await Promise.all(missing.map(({ id }) => this.find(id)));
    return [...rows, ...found.filter((row) => row !== null)];
  }

  async #plan(
    seen: Seen,
    operator: ItemOperator,
    body: (plan: ItemPlan) => Promise<void>,
  ): Promise<ItemWrite[]> {
    const { runtime, newId } = this.parts;
    const plan = new ItemPlan({ runtime, newId, operator, seen });
    await body(plan);
    return plan.finish();
  }

  /** The lock is that of the whole tree; of one that is yet to be started there is none. */
  async #locked<T>(
    workflow: AnyWorkflow,
    tree: { readonly root: string } | { readonly of: string } | null,
    signed: Audited,
    body: (operator: ItemOperator) => Promise<T>,
  ): Promise<T> {
    const operator = { ...checkOperator(signed), lockWaitMs: null };
    const { locks } = this.parts;
    if (locks === null || tree === null) return body(operator);
    const root = "root" in tree ? tree.root : ((await this.find(tree.of))?.root ?? tree.of);
    const trace = operator.traceId === null ? {} : { trace: operator.traceId };
    return locks.with(`${topOf(workflow).name}:${root}`, trace, ({ waitedMs }) =>
      body({ ...operator, lockWaitMs: waitedMs }),
    );
  }

  #item<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    row: StoredItem,
  ): Item<State, Move, Data, Type> {
    const record = recordOf(row) as ItemRecord<State, Data, Type>;
    return new Item(record, { workflow, workflows: this });
  }
}

function checkWorkflow(workflow: AnyWorkflow): void {
  if (workflow?.states instanceof Map) return;
  const problem = "give a workflow made with defineWorkflow().";
  throw new InvalidArgumentError({ field: "workflow", problem });
}

function parentOf(started: readonly Started[]): string | null {
  const [first = null, ...others] = new Set(started.map(({ parent }) => parent));
  if (others.length === 0) return first;
  const problem = "items that are started together have one parent, or none.";
  throw new InvalidArgumentError({ field: "parent", problem });
}

/** Those above an item, where it knows them all: of one that stands deeper, the store has to look for the others. */
function aboveOf({ root, parent }: ItemRecord): { above?: readonly string[] } {
  if (parent === null) return { above: [] };
  return parent === root ? { above: [root] } : {};
}

function topOf(workflow: AnyWorkflow): AnyWorkflow {
  return workflow.parent === null ? workflow : topOf(workflow.parent);
}

/** The rows in the order in which they were asked for. */
function inOrderOf(
  asked: readonly { readonly id: string }[],
  rows: readonly StoredItem[],
): StoredItem[] {
  const byId = new Map(rows.map((row) => [row.id, row]));
  return asked.flatMap(({ id }) => byId.get(id) ?? []);
}

// An item as an application holds it: as it was when it was read, and what can be done with it.

export class Item<
  State extends string,
  Move extends string,
  Data,
  Type extends string,
> implements ItemRecord<State, Data, Type> {
  readonly id: string;
  readonly workflow: string;
  readonly type: Type;
  readonly tenant: string;
  readonly identifier: string;
  readonly parent: string | null;
  readonly root: string;
  readonly status: State;
  readonly data: Data;
  readonly revision: number;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly enteredAt: number;
  readonly #of: Workflow<State, Move, Data, Type>;
  readonly #workflows: Workflows;

  constructor(
    record: ItemRecord<State, Data, Type>,
    parts: { workflow: Workflow<State, Move, Data, Type>; workflows: Workflows },
  ) {
    this.id = record.id;
    this.workflow = record.workflow;
    this.type = record.type;
    this.tenant = record.tenant;
    this.identifier = record.identifier;
    this.parent = record.parent;
    this.root = record.root;
    this.status = record.status;
    this.data = record.data;
    this.revision = record.revision;
    this.createdAt = record.createdAt;
    this.updatedAt = record.updatedAt;
    this.enteredAt = record.enteredAt;
    this.#of = parts.workflow;
    this.#workflows = parts.workflows;
  }

  /** Makes the move, wherever the item is by now. Gives back the item as it is then. */
  move(name: Move, change: ItemChange<Data>): Promise<Item<State, Move, Data, Type>> {
    return this.#workflows.change(this.#of, this, { ...change, move: name });
  }

  /** Replaces fields of its data. */
  update(
    patch: Partial<Data>,
    change: Omit<ItemChange<Data>, "patch">,
  ): Promise<Item<State, Move, Data, Type>> {
    return this.#workflows.change(this.#of, this, { ...change, patch });
  }

  /** As it is now. */
  refresh(): Promise<Item<State, Move, Data, Type>> {
    return this.#workflows.item(this.#of, this.id);
  }

  /** How many items directly below it are in which state, now. */
  progress(): Promise<ChildrenIn[]> {
    return this.#workflows.progress(this.id);
  }

  /** What it holds, as a plain object. */
  toJSON(): ItemRecord<State, Data, Type> {
    return Object.assign({}, this);
  }

  history(options?: HistoryOptions): Promise<ItemEntry[]> {
    return this.#workflows.history(this.id, options);
  }
}

/** An item's record in place of the item, and those of a list of items. Anything else is as it was. */
export function recordsOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((each: unknown) => recordOfItem(each));
  return recordOfItem(value);
}

function recordOfItem(value: unknown): unknown {
  return value instanceof Item ? value.toJSON() : value;
}
