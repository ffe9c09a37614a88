/**
 * Workflows and their items.
 *
 * Every change goes through the same layers: a distributed lock on the whole tree, so that concurrent callers wait without
 * holding a transaction; a transaction; row locks from the root down; the guard; the write and its audit line. The
 * distributed lock only saves work: correctness does not depend on it.
 */
import { type Audited, auditedOptions, checkOperator } from "../audit/entry.ts";
import { invalid } from "../core/errors.ts";
import type { ChildrenIn, ItemEntry, ItemRecord } from "../core/item.ts";
import { checkList, checkText, checkWhole } from "../core/options.ts";
import type { Runtime } from "../core/runtime.ts";
import { ItemNotFoundError } from "./errors.ts";
import { type HistoryEntry, trailOf, type TrailSources } from "./history.ts";
import { type ItemWrite, recordOf, type Seen, type StoredItem } from "./item-record.ts";
import {
  askedOf,
  changeOptions,
  checkBelow,
  type ChildChange,
  childOptions,
  type ChildPatch,
  filterOf,
  type HistoryOptions,
  historyOptions,
  type ImportedItem,
  importedOf,
  type ItemChange,
  type ItemsFilter,
  type NewItem,
  parentAsked,
  startedOf,
  trailOptions,
} from "./options.ts";
import { type Asked, type ItemOperator, ItemPlan, type Started } from "./plan.ts";
import type { ItemsInTransaction, ItemsStore } from "./store.ts";
import { type AnyWorkflow, declarationOf, type LockTimes, type Workflow } from "./workflow.ts";

export const ITEMS_BATCH_MAX = 1_000;

/** The part of the locks that workflows use. */
export interface LockLayer {
  with<T>(
    key: string,
    options: LockTimes & { readonly trace?: string },
    body: (lock: { readonly waitedMs: number }) => Promise<T>,
  ): Promise<T>;
}

interface WorkflowsParts {
  readonly store: { readonly items: ItemsStore } & TrailSources;
  /** Default: those of the store. */
  readonly items?: ItemsInTransaction;
  readonly runtime: Runtime;
  readonly newId: () => string;
  /** Null: no distributed lock. */
  readonly locks: LockLayer | null;
}

interface Beginning<New> {
  readonly audited: Audited;
  readonly once: readonly string[] | undefined;
  readonly started: (workflow: AnyWorkflow, item: New, id: string) => Started;
}

interface Changing {
  readonly asked: readonly Asked[];
  readonly audited: Audited;
  readonly once: string | undefined;
  /** The parent of all items, or the root of the tree. */
  readonly under?: string;
  readonly root?: string;
  readonly above?: readonly string[];
}

/** Starts, moves, lists and imports items: `holdfast.workflows`. */
export class Workflows {
  readonly #parts: WorkflowsParts;
  readonly #items: ItemsInTransaction;
  readonly #declaring = new Map<AnyWorkflow, Promise<void>>();
  readonly #declared = new WeakSet<AnyWorkflow>();

  /** @internal Applications get it from a Holdfast. */
  constructor(parts: WorkflowsParts) {
    this.#parts = parts;
    this.#items = parts.items ?? parts.store.items;
  }

  /**
   * Stores the declaration, so that the database enforces it. This happens automatically before the first item is started or
   * changed; call it to find conflicts early. Throws WorkflowConflictError and ItemsStrandedError.
   */
  async declare(workflow: AnyWorkflow): Promise<void> {
    if (this.#declared.has(workflow)) return;
    checkWorkflow(workflow);
    if (workflow.parent !== null) await this.declare(workflow.parent);
    let declaring = this.#declaring.get(workflow);
    declaring ??= this.#parts.store.items.declare(declarationOf(workflow));
    this.#declaring.set(workflow, declaring);
    try {
      await declaring;
      this.#declared.add(workflow);
    } finally {
      this.#declaring.delete(workflow);
    }
  }

  /** Whether this process has stored the declaration. */
  isDeclared(workflow: AnyWorkflow): boolean {
    return this.#declared.has(workflow);
  }

  /** Starts an item in the initial state of its workflow. */
  async start<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    item: NewItem<NoInfer<Data>, NoInfer<Type>>,
  ): Promise<Item<State, Move, Data, Type>> {
    const how = { audited: item, once: undefined, started: startedOf };
    const [started] = await this.#begin(workflow, [item], how);
    return started as Item<State, Move, Data, Type>;
  }

  /** Starts all items or none. They have the same parent, or none. */
  async startMany<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    items: readonly Omit<NewItem<NoInfer<Data>, NoInfer<Type>>, keyof Audited>[],
    audited: Audited,
    /** Ids of the change and of its items: a repeated call with the same ids starts nothing twice. */
    once?: readonly string[],
  ): Promise<Item<State, Move, Data, Type>[]> {
    return this.#begin(workflow, items, { audited, once, started: startedOf });
  }

  /** Imports items from another system, in the states they have there. Their history begins with the line `import`. */
  async import<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    items: readonly ImportedItem<NoInfer<State>, NoInfer<Data>, NoInfer<Type>>[],
    audited: Audited,
  ): Promise<Item<State, Move, Data, Type>[]> {
    auditedOptions.read(audited);
    return this.#begin(workflow, items, { audited, once: undefined, started: importedOf });
  }

  async #begin<State extends string, Move extends string, Data, Type extends string, New>(
    workflow: Workflow<State, Move, Data, Type>,
    items: readonly New[],
    { audited, once, started: startedFrom }: Beginning<New>,
  ): Promise<Item<State, Move, Data, Type>[]> {
    await this.declare(workflow);
    checkWhole("items", checkList("items", items).length, { least: 1, most: ITEMS_BATCH_MAX });
    const [change, ...ids] = once ?? [];
    const started = items.map((item, index) =>
      startedFrom(workflow, item, ids[index] ?? this.#parts.newId()),
    );
    const parent = parentOf(started);
    const tree = parent === null ? null : { of: parent };
    const rows = await this.#locked(workflow, tree, audited, (operator) =>
      this.#items.change({
        ...this.#changeId(change),
        items: parent === null ? [] : [parent],
        decide: (seen) =>
          this.#plan(seen, operator, async (plan) => {
            for (const one of started) await plan.start(one);
          }),
      }),
    );
    const found = once === undefined ? rows : await this.#withMissing(rows, started);
    return inOrderOf(started, found).map((row) => this.#item(workflow, row));
  }

  /** Loads an item by its id. */
  async item<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    id: string,
  ): Promise<Item<State, Move, Data, Type>> {
    checkWorkflow(workflow);
    const row = await this.#items.find(checkText("id", id));
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
    const rows = await this.#items.list({ ...wanted, workflow: workflow.name });
    return rows.map((row) => this.#item(workflow, row));
  }

  /** The changes of an item and their actors, oldest first. */
  async history(id: string, options: HistoryOptions = {}): Promise<ItemEntry[]> {
    return this.#items.history({ item: checkText("id", id), ...historyOptions.read(options) });
  }

  /** The same with the jobs that the changes enqueued, their attempts, and the actions of operators on these jobs. */
  async trail(id: string, options: HistoryOptions = {}): Promise<HistoryEntry[]> {
    const page = { item: checkText("id", id), ...trailOptions.read(options) };
    return trailOf(await this.#items.history(page), this.#parts.store);
  }

  /** How many children of this item are in which state. */
  async progress(id: string): Promise<ChildrenIn[]> {
    return this.#items.progressOf(checkText("id", id));
  }

  /** Moves or updates an item and, in the same transaction, its parent. */
  async updateChild<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    id: string,
    change: ChildChange<NoInfer<Move>, NoInfer<Data>>,
  ): Promise<Item<State, Move, Data, Type>> {
    return this.change(workflow, checkText("id", id), change);
  }

  /** Moves or updates several children of one item: all of them, or none. */
  async updateChildren<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    parent: string,
    changes: readonly ChildPatch<NoInfer<Move>, NoInfer<Data>>[],
    audited: Audited,
    /** As in `change`. */
    once?: string,
  ): Promise<Item<State, Move, Data, Type>[]> {
    auditedOptions.read(audited);
    checkWhole("changes", checkList("changes", changes).length, {
      least: 1,
      most: ITEMS_BATCH_MAX,
    });
    const checked = changes.map((change) => childOptions.read(change));
    const asked = checked.map((change) => askedOf(workflow, change.id, change));
    if (new Set(asked.map(({ id }) => id)).size < asked.length) {
      throw invalid("changes", "an item appears twice.");
    }
    const under = checkText("parent", parent);
    const rows = await this.#change(workflow, { asked, audited, under, once });
    return inOrderOf(asked, rows).map((row) => this.#item(workflow, row));
  }

  /** Moves or updates an item. */
  async change<State extends string, Move extends string, Data, Type extends string>(
    workflow: Workflow<State, Move, Data, Type>,
    item: string | ItemRecord,
    change: ChildChange<NoInfer<Move>, NoInfer<Data>>,
    /** The id of the change: a repeated call with the same id changes nothing. Default: a new one. */
    once?: string,
  ): Promise<Item<State, Move, Data, Type>> {
    const { parent, ...checked } = changeOptions.read(change);
    const found = typeof item === "string" ? await this.item(workflow, item) : item;
    const asked = [askedOf(workflow, found.id, checked)];
    if (parent !== undefined) asked.unshift(parentAsked(workflow, found, parent));
    const tree = { root: found.root, ...aboveOf(found) };
    const rows = await this.#change(workflow, { asked, audited: change, once, ...tree });
    return this.#item(workflow, inOrderOf([found], rows)[0] as StoredItem);
  }

  async #change(
    workflow: AnyWorkflow,
    { asked, audited, under, root, above, once }: Changing,
  ): Promise<StoredItem[]> {
    await this.declare(workflow);
    const change = { ...this.#changeId(once), ...(above === undefined ? {} : { above }) };
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
    return this.#locked(workflow, tree, audited, (operator) =>
      this.#items.change({ ...change, items, decide: (seen) => decide(seen, operator) }),
    );
  }

  #changeId(once: string | undefined): { id: string; once?: true } {
    return once === undefined ? { id: this.#parts.newId() } : { id: once, once: true };
  }

  /** A repeated change does not return the rows that it started. */
  async #withMissing(
    rows: readonly StoredItem[],
    started: readonly Started[],
  ): Promise<StoredItem[]> {
    const known = new Set(rows.map(({ id }) => id));
    const missing = started.filter(({ id }) => !known.has(id));
    const found = await Promise.all(missing.map(({ id }) => this.#items.find(id)));
    return [...rows, ...found.filter((row) => row !== null)];
  }

  async #plan(
    seen: Seen,
    operator: ItemOperator,
    body: (plan: ItemPlan) => Promise<void>,
  ): Promise<ItemWrite[]> {
    const { runtime, newId } = this.#parts;
    const plan = new ItemPlan({ runtime, newId, operator, seen });
    await body(plan);
    return plan.finish();
  }

  /** Locks the whole tree. A tree that does not exist yet needs no lock. */
  async #locked<T>(
    workflow: AnyWorkflow,
    tree: { readonly root: string } | { readonly of: string } | null,
    audited: Audited,
    body: (operator: ItemOperator) => Promise<T>,
  ): Promise<T> {
    const operator = { ...checkOperator(audited), lockWaitMs: null };
    const { locks } = this.#parts;
    if (locks === null || tree === null) return body(operator);
    const root = "root" in tree ? tree.root : ((await this.#items.find(tree.of))?.root ?? tree.of);
    const trace = operator.traceId === null ? {} : { trace: operator.traceId };
    const options = { ...workflow.lock, ...trace };
    return locks.with(`${topOf(workflow).name}:${root}`, options, ({ waitedMs }) =>
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
  throw invalid("workflow", "pass a workflow made with defineWorkflow().");
}

function parentOf(started: readonly Started[]): string | null {
  const [first = null, ...others] = new Set(started.map(({ parent }) => parent));
  if (others.length === 0) return first;
  throw invalid("parent", "items that are started together must have the same parent, or none.");
}

/** The ancestors of an item, if its record names them all; for a deeper item, the store finds them. */
function aboveOf({ root, parent }: ItemRecord): { above?: readonly string[] } {
  if (parent === null) return { above: [] };
  return parent === root ? { above: [root] } : {};
}

function topOf(workflow: AnyWorkflow): AnyWorkflow {
  return workflow.parent === null ? workflow : topOf(workflow.parent);
}

/** The rows in the order of the request. */
function inOrderOf(
  asked: readonly { readonly id: string }[],
  rows: readonly StoredItem[],
): StoredItem[] {
  const byId = new Map(rows.map((row) => [row.id, row]));
  return asked.flatMap(({ id }) => byId.get(id) ?? []);
}

/** An item as it was when it was read, with methods to change it. */
export class Item<
  State extends string,
  Move extends string,
  Data,
  Type extends string,
> implements ItemRecord<State, Data, Type> {
  /** Its UUID. */
  declare readonly id: string;
  /** The name of its workflow. */
  declare readonly workflow: string;
  /** One of the types of the workflow. */
  declare readonly type: Type;
  /** The customer that it belongs to; `default` if none was given. */
  declare readonly tenant: string;
  /** The application's own name for it. */
  declare readonly identifier: string;
  /** The id of the item that it belongs to; null: none. */
  declare readonly parent: string | null;
  /** The id of the topmost item; its own if it has no parent. */
  declare readonly root: string;
  /** The state that it was in when it was read. */
  declare readonly status: State;
  /** The application's own data. */
  declare readonly data: Data;
  /** 1 at the start; every change of the item or of an item below it adds one. */
  declare readonly revision: number;
  /** When it was started (ms since 1970). */
  declare readonly createdAt: number;
  /** When it, or an item below it, last changed (ms since 1970). */
  declare readonly updatedAt: number;
  /** Since when it has had this status (ms since 1970). */
  declare readonly enteredAt: number;
  readonly #of: Workflow<State, Move, Data, Type>;
  readonly #workflows: Workflows;

  /** @internal Applications get it from a Holdfast. */
  constructor(
    record: ItemRecord<State, Data, Type>,
    parts: { workflow: Workflow<State, Move, Data, Type>; workflows: Workflows },
  ) {
    Object.assign(this, record);
    this.#of = parts.workflow;
    this.#workflows = parts.workflows;
  }

  /** Moves the item from its current state, which may have changed since. Returns the changed item. */
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

  /** Reads it again. */
  refresh(): Promise<Item<State, Move, Data, Type>> {
    return this.#workflows.item(this.#of, this.id);
  }

  /** How many of its children are in which state now. */
  progress(): Promise<ChildrenIn[]> {
    return this.#workflows.progress(this.id);
  }

  /** Its fields as a plain object. */
  toJSON(): ItemRecord<State, Data, Type> {
    return Object.assign({}, this);
  }

  /** Its audit lines, oldest first. */
  history(options?: HistoryOptions): Promise<ItemEntry[]> {
    return this.#workflows.history(this.id, options);
  }
}

/** Replaces an item, or each item of a list, by its record. Other values stay unchanged. */
export function recordsOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((each: unknown) => recordOfItem(each));
  return recordOfItem(value);
}

function recordOfItem(value: unknown): unknown {
  return value instanceof Item ? value.toJSON() : value;
}
