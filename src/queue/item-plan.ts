/**
 * What a change of items comes to: which of them are written, how, and with which jobs. The store asks while it holds the
 * locks; here are the rules of the workflow, its guards among them.
 */
import { InvalidArgument } from "../core/errors.ts";
import { calledId } from "../core/id.ts";
import { ITEM_LEVELS_MAX, patched, type ChildrenIn, type ItemRecord } from "../core/item.ts";
import { decode, DEFAULT_PAYLOAD_BYTES_MAX, encode } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Task } from "../core/task.ts";
import { InvalidMove, ItemChanged, ItemNotFound, MoveRefused } from "../core/workflow-errors.ts";
import type {
  AnyWorkflow,
  EnqueueOnEntry,
  MoveRules,
  StateRules,
  Verdict,
} from "../core/workflow.ts";
import type { NewJob } from "../store/store.ts";
import { NO_HASH } from "../store/trail.ts";
import type { ItemWrite, NewLine, Seen, StoredItem } from "../store/workflows.ts";
import { checkInputs, defaultsOf, newJob } from "./new-job.ts";
import { checkOptions } from "./options.ts";

const DATA = { what: "data of an item", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX };
/** A guard holds the locks of its item. */
const GUARD_MS_MAX = 5_000;
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
  readonly tenant: string;
  readonly identifier: string;
  readonly parent: string | null;
  readonly data: unknown;
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
  readonly #writes = new Map<string, ItemWrite>();
  /** The workflows of those that are written. */
  readonly #known = new Map<string, AnyWorkflow>();

  constructor(parts: PlanParts) {
    this.#parts = parts;
  }

  get writes(): ItemWrite[] {
    return [...this.#writes.values()];
  }

  async start(started: Started): Promise<void> {
    const { workflow, data, ...facts } = started;
    const parent = this.#parent(facts.parent);
    const status = workflow.initial;
    const item: StoredItem = {
      ...facts,
      workflow: workflow.name,
      root: parent?.root ?? facts.id,
      depth: parent === null ? 0 : parent.depth + 1,
      status,
      data: await dataText(workflow, data),
      revision: 0,
      createdAt: 0,
      updatedAt: 0,
      enteredAt: 0,
      auditSeq: 0,
      auditHash: NO_HASH,
    };
    if (item.depth >= ITEM_LEVELS_MAX) {
      const problem = `items stand at most ${ITEM_LEVELS_MAX} above one another.`;
      throw new InvalidArgument({ field: "parent", problem });
    }
    await this.#write(workflow, item, { action: "start", status, data: item.data });
  }

  /** Then those above follow, if it was the last of theirs that lived. */
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
    const data = await dataText(workflow, patched(decode(item.data), patch));
    if (move === null) {
      return this.#write(workflow, item, { action: "update", status: item.status, data });
    }
    const rules = moveOf(workflow, item, move);
    const reason = await this.#refusal(rules, { item, patch });
    if (reason !== undefined) throw new MoveRefused({ item: id, move, reason });
    await this.#write(workflow, item, { action: "move", move, status: rules.to, data });
  }

  /** Items whose last living child has ended in this change make the move that their workflow declares for it. */
  async closeParents(): Promise<void> {
    for (let level = 1; level < ITEM_LEVELS_MAX; level += 1) {
      for (const [id, workflow] of this.#parentsOfEnded()) await this.#closeParent(workflow, id);
    }
  }

  #parentsOfEnded(): Map<string, AnyWorkflow> {
    const parents = new Map<string, AnyWorkflow>();
    for (const { item, status, line } of this.#writes.values()) {
      const workflow = this.#known.get(item.workflow);
      const above = workflow?.nests === true ? workflow : workflow?.parent;
      if (item.parent === null || above === null || above === undefined) continue;
      const hasEnded = line.action === "move" && this.#isFinal(item.workflow, status);
      if (hasEnded) parents.set(item.parent, above);
    }
    return parents;
  }

  async #closeParent(workflow: AnyWorkflow, id: string): Promise<void> {
    const parent = this.#parts.seen.items.get(id);
    const { whenChildrenEnd } = workflow;
    // One whose state is asked for in this same change does as it was asked.
    if (whenChildrenEnd === null || parent === undefined) return;
    const before = this.#writes.get(id);
    if (before?.line.action === "move") return;
    const progress = this.#progress(id, await this.#parts.seen.progress(id));
    if (progress.some(({ isFinal, children }) => !isFinal && children > 0)) return;
    const move = whenChildrenEnd(progress);
    const rules = move === null ? undefined : workflow.moves.get(move);
    if (move === null || rules === undefined || !rules.from.includes(parent.status)) return;
    const facts = { item: parent, patch: {}, actor: NOBODY };
    if ((await this.#refusal(rules, facts)) !== undefined) return;
    const data = before?.data ?? parent.data;
    const by = { actor: NOBODY, reason: "all below it have ended" };
    await this.#write(workflow, parent, { action: "move", move, status: rules.to, data, by });
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
    const parent = this.#parts.seen.items.get(id) ?? this.#writes.get(id)?.item;
    if (parent === undefined) throw new ItemNotFound({ id });
    return parent;
  }

  /** Why a guard does not let it; undefined: it does. */
  async #refusal(
    { guard }: MoveRules,
    { item, patch, actor }: { item: StoredItem; patch: unknown; actor?: string },
  ): Promise<string | null | undefined> {
    if (guard === null) return undefined;
    const { runtime, signature, seen } = this.#parts;
    const facts = {
      item: recordOf(item),
      parent: recordOrNull(this.#parent(item.parent)),
      actor: actor ?? signature.actor,
      reason: signature.reason,
      patch: patch ?? {},
      now: seen.now,
    };
    const verdict = await inTime(runtime, async () => guard(facts as never));
    if (verdict === false) return null;
    return typeof verdict === "string" ? verdict : undefined;
  }

  async #write(
    workflow: AnyWorkflow,
    item: StoredItem,
    to: {
      action: NewLine["action"];
      move?: string;
      status: string;
      data: string;
      by?: Pick<Signature, "actor" | "reason">;
    },
  ): Promise<void> {
    this.#known.set(workflow.name, workflow);
    const { action, move = null, status, data, by } = to;
    const { signature } = this.#parts;
    const rules = action === "update" ? undefined : workflow.states.get(status);
    const after = { ...item, status, data };
    const jobs = rules === undefined ? [] : await this.#enter(rules, after);
    this.#writes.set(item.id, {
      item,
      line: { ...signature, ...by, action, move },
      status,
      data,
      jobs,
      awaitsJobs: rules?.whenJobsEnd !== null && rules?.whenJobsEnd !== undefined,
      limitMs: rules?.limit?.ms ?? null,
    });
  }

  /** The jobs that a state asks for. */
  async #enter(rules: StateRules, item: StoredItem): Promise<NewJob[]> {
    if (rules.enter === null) return [];
    const { newId } = this.#parts;
    const wanted: { task: Task; input: unknown; options: object }[] = [];
    const enqueue: EnqueueOnEntry = (task, input, options = {}) =>
      void wanted.push({ task, input, options });
    const parent = recordOrNull(this.#parent(item.parent));
    rules.enter({ item: recordOf(item), parent, enqueue } as never);
    const jobs: NewJob[] = [];
    for (const { task, input, options } of wanted) {
      const defaults = defaultsOf(task);
      await checkInputs(task, [input]);
      // Whoever ends a job that somebody waits for sees it in its id.
      const id = rules.whenJobsEnd === null ? newId() : calledId(newId());
      jobs.push(newJob(id, defaults.name, input, checkOptions(options, defaults)));
    }
    return jobs;
  }
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

/** What is stored is the data as it was given; the schema only has to agree with it. */
async function dataText({ data: schema }: AnyWorkflow, data: unknown): Promise<string> {
  const checked = await schema?.["~standard"].validate(data);
  if (checked?.issues !== undefined) {
    const [issue] = checked.issues;
    const path = (issue?.path ?? []).map((part) => (typeof part === "object" ? part.key : part));
    const field = ["data", ...path].join(".");
    throw new InvalidArgument({ field, problem: issue?.message ?? "it is not valid." });
  }
  return encode(data, DATA);
}

export function recordOf(item: StoredItem): ItemRecord {
  const { id, workflow, type, tenant, identifier, parent, root, status } = item;
  const { revision, createdAt, updatedAt, enteredAt } = item;
  const place = { id, workflow, type, tenant, identifier, parent, root, status };
  return { ...place, data: decode(item.data), revision, createdAt, updatedAt, enteredAt };
}

function recordOrNull(item: StoredItem | null): ItemRecord | null {
  return item === null ? null : recordOf(item);
}

/** Its item is locked meanwhile. */
async function inTime(runtime: Runtime, guard: () => Promise<Verdict>): Promise<Verdict> {
  const late = Promise.withResolvers<never>();
  const timer = runtime.timer(GUARD_MS_MAX, () => late.reject(tooLong()));
  try {
    return await Promise.race([guard(), late.promise]);
  } finally {
    timer.cancel();
  }
}

function tooLong(): InvalidArgument {
  const problem =
    `it took longer than ${GUARD_MS_MAX} ms while its item was locked. ` +
    `A guard must not wait for others, nor call Holdfast.`;
  return new InvalidArgument({ field: "guard", problem });
}
