/**
 * What a change of items comes to: which of them are written, how, and with which jobs. The store asks while it holds the
 * locks; here are the rules of the workflow, its guards among them.
 */
import { InvalidArgument } from "../core/errors.ts";
import { ITEM_LEVELS_MAX, patched, type ChildrenIn } from "../core/item.ts";
import { decode } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import { InvalidMove, ItemChanged, ItemNotFound, MoveRefused } from "../core/workflow-errors.ts";
import type { AnyWorkflow, MoveRules, StateRules } from "../core/workflow.ts";
import { changeOf, instantOf } from "../store/items.ts";
import { ENQUEUE_BATCH_MAX } from "../store/sql-store.ts";
import type { NewJob } from "../store/store.ts";
import { NO_HASH } from "../store/trail.ts";
import type { ItemWrite, NewLine, Seen, StoredItem } from "../store/workflows.ts";
import { dataText } from "./item-data.ts";
import { jobsOnEntry, tooManyJobs } from "./item-entry.ts";
import { Patience } from "./item-patience.ts";
import { recordOf, recordOrNull } from "./item-record.ts";

/** Of an item without a parent that names none. */
const TENANT = "default";

/** Who moves an item when nobody asks for it. */
export const NOBODY = "holdfast";

export interface Asked {
  readonly workflow: AnyWorkflow;
  readonly id: string;
  readonly move: string | null;
  readonly patch: unknown;
  /** The revision that the caller saw; null: whatever it is. */
  readonly expect: number | null;
  /** Only if it has had its status since then; null: whenever that was. */
  readonly since: number | null;
}

export interface Started {
  readonly workflow: AnyWorkflow;
  readonly id: string;
  readonly type: string;
  /** Null: its parent's. */
  readonly tenant: string | null;
  readonly identifier: string;
  readonly parent: string | null;
  readonly data: unknown;
  /** It comes from elsewhere, in the state that it has there. */
  readonly imported?: Imported;
}

export interface Imported {
  readonly status: string;
  /** Null: now. */
  readonly createdAt: number | null;
  readonly enteredAt: number | null;
  /** What the state does on entry is done: its jobs are enqueued. */
  readonly enter: boolean;
}

export type Signature = Omit<NewLine, "action" | "move">;

export interface PlanParts {
  readonly runtime: Runtime;
  readonly newId: () => string;
  readonly signature: Signature;
  readonly seen: Seen;
}

export class ItemPlan {
  readonly #parts: PlanParts;
  readonly #patience: Patience;
  readonly #writes = new Map<string, ItemWrite>();
  /** The workflows of those that are written. */
  readonly #known = new Map<string, AnyWorkflow>();
  /** Those that are in a state without having entered it here. */
  readonly #silent = new Set<string>();

  constructor(parts: PlanParts) {
    this.#parts = parts;
    this.#patience = new Patience(parts.runtime);
  }

  async start(started: Started): Promise<void> {
    const { workflow, data, imported, ...facts } = started;
    const since = timesOf(imported, this.#parts.seen.now);
    const parent = this.#parent(facts.parent);
    const item: StoredItem = {
      ...facts,
      tenant: facts.tenant ?? parent?.tenant ?? TENANT,
      workflow: workflow.name,
      root: parent?.root ?? facts.id,
      depth: parent === null ? 0 : parent.depth + 1,
      status: imported?.status ?? workflow.initial,
      data: await dataText(workflow, data, this.#patience),
      revision: 0,
      ...since,
      updatedAt: 0,
      auditSeq: 0,
      auditHash: NO_HASH,
    };
    if (item.depth >= ITEM_LEVELS_MAX) {
      const problem = `items stand at most ${ITEM_LEVELS_MAX} above one another.`;
      throw new InvalidArgument({ field: "parent", problem });
    }
    const action = imported === undefined ? "start" : "import";
    const enters = imported?.enter ?? true;
    this.#write(workflow, item, { action, status: item.status, data: item.data, enters });
  }

  async change(asked: Asked): Promise<void> {
    const { workflow, id, move, patch, expect, since } = asked;
    const item = this.#parts.seen.items.get(id);
    if (item?.workflow !== workflow.name) throw new ItemNotFound({ id, workflow: workflow.name });
    if (expect !== null && expect !== item.revision) {
      throw new ItemChanged({ item: id, expected: expect, found: item.revision });
    }
    if (since !== null && since !== item.enteredAt) {
      throw new ItemChanged({ item: id, expected: null, found: item.revision });
    }
    const data =
      patch === undefined
        ? item.data
        : await dataText(workflow, patched(decode(item.data), patch), this.#patience);
    if (move === null) {
      this.#write(workflow, item, { action: "update", status: item.status, data });
      return;
    }
    const rules = moveOf(workflow, item, move);
    const reason = await this.#refusal(rules, { item, patch });
    if (reason !== undefined) throw new MoveRefused({ item: id, move, reason });
    this.#write(workflow, item, { action: "move", move, status: rules.to, data });
  }

  /** Items whose last living child has ended in this change make the move that their workflow declares for it. */
  async closeParents(): Promise<void> {
    // From below: one that closes may be the last of its own parent's.
    for (let depth = ITEM_LEVELS_MAX - 1; depth > 0; depth -= 1) {
      for (const [id, workflow] of this.#parentsOfEnded(depth)) await this.#close(workflow, id);
    }
  }

  /** All that is to be written, with the jobs that the entered states ask for. */
  async finish(): Promise<ItemWrite[]> {
    const planned = [...this.#writes.values()];
    const at = instantOf(planned, this.#parts.seen);
    const finished: ItemWrite[] = [];
    let count = 0;
    for (const write of planned) {
      const jobs = await this.#jobsOf(write, at);
      count += jobs.length;
      if (count > ENQUEUE_BATCH_MAX) throw tooManyJobs(ENQUEUE_BATCH_MAX);
      finished.push({ ...write, jobs });
    }
    return finished;
  }

  async #jobsOf(write: ItemWrite, at: number): Promise<NewJob[]> {
    const { item, line, status } = write;
    const rules = this.#known.get(item.workflow)?.states.get(status);
    if (line.action === "update" || this.#silent.has(item.id)) return [];
    if ((rules?.enter ?? null) === null) return [];
    const above = item.parent === null ? undefined : this.#writes.get(item.parent);
    const parent = above === undefined ? this.#parent(item.parent) : changeOf(above, at);
    const facts = { item: recordOf(changeOf(write, at)), parent: recordOrNull(parent) };
    return jobsOnEntry(rules as StateRules, facts, this.#parts.newId, this.#patience);
  }

  #parentsOfEnded(depth: number): Map<string, AnyWorkflow> {
    const parents = new Map<string, AnyWorkflow>();
    for (const { item, status, line } of this.#writes.values()) {
      const workflow = this.#known.get(item.workflow);
      const above = workflow?.nests === true ? workflow : workflow?.parent;
      if (item.depth !== depth || item.parent === null) continue;
      const hasEnded = line.action === "move" && this.#isFinal(item.workflow, status);
      if (hasEnded && above !== null && above !== undefined) parents.set(item.parent, above);
    }
    return parents;
  }

  async #close(workflow: AnyWorkflow, id: string): Promise<void> {
    const { seen } = this.#parts;
    const parent = seen.items.get(id);
    const asked = this.#writes.get(id);
    // One whose state is asked for in this same change does as it was asked.
    if (workflow.whenChildrenEnd === null || parent === undefined) return;
    if (asked?.line.action === "move") return;
    const progress = this.#progress(id, await seen.progress(id));
    if (progress.some(({ isFinal }) => !isFinal)) return;
    const move = workflow.whenChildrenEnd(progress);
    if (move === null) return;
    const rules = workflow.moves.get(move);
    if (rules === undefined) throw noSuchMove(workflow, move);
    if (!rules.from.includes(parent.status)) return;
    const data = asked?.data ?? parent.data;
    const because = "all below it have ended";
    // What the caller changed in it is in the same line of its audit, and that is signed by the caller.
    const by =
      asked === undefined
        ? { actor: NOBODY, reason: because }
        : { actor: asked.line.actor, reason: asked.line.reason ?? because };
    const facts = { item: { ...parent, data }, patch: undefined, actor: by.actor };
    if ((await this.#refusal(rules, facts)) !== undefined) return;
    this.#write(workflow, parent, { action: "move", move, status: rules.to, data, by });
  }

  /** How it will be when this change is written. */
  #progress(parent: string, before: readonly ChildrenIn[]): ChildrenIn[] {
    const after = before.map((one) => ({ ...one }));
    const count = (workflow: string, status: string, by: number): void => {
      const known = after.find((one) => one.workflow === workflow && one.status === status);
      if (known !== undefined) known.children += by;
      else after.push({ workflow, status, isFinal: this.#isFinal(workflow, status), children: by });
    };
    for (const { item, status, line } of this.#writes.values()) {
      if (item.parent !== parent || line.action !== "move") continue;
      count(item.workflow, item.status, -1);
      count(item.workflow, status, 1);
    }
    return after.filter(({ children }) => children > 0);
  }

  #isFinal(workflow: string, status: string): boolean {
    return this.#known.get(workflow)?.states.get(status)?.isFinal === true;
  }

  #parent(id: string | null): StoredItem | null {
    if (id === null) return null;
    const parent = this.#parts.seen.items.get(id);
    if (parent === undefined) throw new ItemNotFound({ id });
    return parent;
  }

  /** Why a guard does not let it; null: it gives no reason; undefined: it lets it. */
  async #refusal(
    { guard }: MoveRules,
    { item, patch = {}, actor }: { item: StoredItem; patch: unknown; actor?: string },
  ): Promise<string | null | undefined> {
    if (guard === null) return undefined;
    const { signature, seen } = this.#parts;
    const facts = {
      item: recordOf(item),
      parent: recordOrNull(this.#parent(item.parent)),
      actor: actor ?? signature.actor,
      reason: signature.reason,
      patch,
      now: seen.now,
    };
    const verdict: unknown = await this.#patience.with("guard", () => guard(facts as never));
    if (verdict === undefined || verdict === true) return undefined;
    if (verdict === false) return null;
    if (typeof verdict === "string") return verdict;
    const problem = "a guard says true, false, or in a text why the item may not.";
    throw new InvalidArgument({ field: "guard", problem });
  }

  #write(
    workflow: AnyWorkflow,
    item: StoredItem,
    to: {
      action: NewLine["action"];
      move?: string;
      status: string;
      data: string;
      enters?: boolean;
      by?: Pick<Signature, "actor" | "reason">;
    },
  ): void {
    this.#known.set(workflow.name, workflow);
    const { action, move = null, status, data, by, enters = true } = to;
    if (!enters) this.#silent.add(item.id);
    const line = { ...this.#parts.signature, ...by, action, move };
    const rules = action === "update" ? undefined : workflow.states.get(status);
    this.#writes.set(item.id, {
      item,
      line,
      status,
      data,
      jobs: [],
      awaitsJobs: enters && (rules?.whenJobsEnd ?? null) !== null,
      limitMs: rules?.limit?.ms ?? null,
    });
  }
}

/** Null and 0: when it is written. */
function timesOf(
  imported: Imported | undefined,
  now: number,
): Pick<StoredItem, "createdAt" | "enteredAt"> {
  const enteredAt = imported?.enteredAt ?? 0;
  const createdAt = imported?.createdAt ?? enteredAt;
  for (const [field, at] of Object.entries({ enteredAt, createdAt })) {
    if (at <= now) continue;
    throw new InvalidArgument({ field, problem: "is in the future, by the database's clock." });
  }
  if (createdAt <= (enteredAt || now)) return { createdAt, enteredAt };
  throw new InvalidArgument({ field: "createdAt", problem: "is later than enteredAt." });
}

function moveOf(workflow: AnyWorkflow, item: StoredItem, move: string): MoveRules {
  const rules = workflow.moves.get(move);
  if (rules?.from.includes(item.status) === true) return rules;
  const allowed = [...workflow.moves]
    .filter(([, { from }]) => from.includes(item.status))
    .map(([name]) => name);
  throw new InvalidMove({
    item: item.id,
    workflow: workflow.name,
    move,
    from: item.status,
    allowed,
  });
}

function noSuchMove({ name, moves }: AnyWorkflow, move: unknown): InvalidArgument {
  const problem = `workflow '${name}' has no move '${String(move)}'. There are: ${[...moves.keys()].join(", ")}.`;
  return new InvalidArgument({ field: "whenChildrenEnd", problem });
}
