/** What an operator does to jobs: one, those that are selected, or all that match. */
import type { JSX } from "preact";
import {
  type BulkAction,
  type BulkFilter,
  type JobSummary,
  operatorActions,
  type StartBulkRequest,
  type Status,
} from "../api.gen.ts";
import { get, post } from "../client.ts";
import * as f from "../format.ts";
import { refresh } from "../live.ts";
import { type Answers, ask, type Field, reasonIn, toast } from "../notices.ts";
import { go, to } from "../router.ts";

export type BulkName = BulkAction["action"];

/** Whether the server lets an operator do this to a job in its state. */
export function may(
  action: keyof typeof operatorActions,
  { status }: { readonly status: Status },
): boolean {
  const states: readonly Status[] = operatorActions[action];
  return states.includes(status);
}

export type BulkTerms = Pick<StartBulkRequest, "queue" | "priority" | "reason">;

const DONE: Readonly<Record<BulkName, string>> = {
  retry: "retried",
  cancel: "cancelled",
  delete: "deleted",
  move: "moved",
  priority: "given another priority",
};

const WAIT_MS = 100;
const WAITS_MAX = 80;

/** Follows a bulk action until it has ended, for as long as a person waits. */
async function followed(id: string): Promise<BulkAction> {
  for (let times = 0; ; times += 1) {
    const action = await get("bulk/{id}", { id });
    if (action.status !== "running" || times >= WAITS_MAX) return action;
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
  }
}

/**
 * What an undo sets, by the jobs that had it before. A job that was moved, or got another priority, goes back unless it runs by
 * then. A retried job may run at once, and a cancelled one was told: nothing takes that back, so these have no undo.
 */
function before(
  action: BulkName,
  jobs: readonly JobSummary[],
): [terms: BulkTerms, jobs: JobSummary[]][] {
  if (action === "move") {
    return [...Map.groupBy(jobs, ({ queue }) => queue)].map(([queue, of]) => [{ queue }, of]);
  }
  if (action !== "priority") return [];
  const had = Map.groupBy(jobs, ({ priority }) => priority);
  return [...had].map(([priority, of]) => [{ priority }, of]);
}

async function putBack(action: BulkName, jobs: readonly JobSummary[]): Promise<void> {
  for (const [terms, some] of before(action, jobs)) {
    await change(action, some, { ...terms, reason: "Undo" });
  }
}

/** Carries an action out for jobs that were chosen one by one, and says what came of it. */
export async function actOn(
  action: BulkName,
  jobs: readonly JobSummary[],
  terms: BulkTerms = {},
): Promise<void> {
  const { changed, last } = await change(action, jobs, terms);
  if (last === null) return;
  const refused = jobs.length - changed;
  const [why] = last.refusals;
  const left =
    refused > 0
      ? `, ${refused} left as they are${why === undefined ? "" : `: ${why.message}`}`
      : ".";
  toast(`${f.plural(changed, "job")} ${DONE[action]}${left}`, {
    ...(refused > 0 || jobs.length > 20 ? { href: to(["bulk", last.id]), link: "Details" } : {}),
    ...(changed > 0 && before(action, jobs).length > 0
      ? { undo: () => putBack(action, jobs) }
      : {}),
  });
}

/** Jobs of one status go together. */
async function change(
  action: BulkName,
  jobs: readonly JobSummary[],
  terms: BulkTerms,
): Promise<{ readonly changed: number; readonly last: BulkAction | null }> {
  const byStatus = action === "retry" || action === "delete";
  const groups = byStatus
    ? [...Map.groupBy(jobs, ({ status }) => status)]
    : [[undefined, jobs] as const];
  let changed = 0;
  let last: BulkAction | null = null;
  for (const [status, group] of groups) {
    const id = group.map((job) => job.id);
    const filter = status === undefined ? { id } : { id, status: [status] };
    const started = await post("bulk", { action, filter, ...terms });
    last = await followed(started.id);
    changed += last.changed;
  }
  refresh();
  return { changed, last };
}

const TO_ONE: Readonly<Record<BulkName, string>> = {
  retry: "It is pending again, with three more attempts. What its steps have saved is kept.",
  cancel:
    "If it runs, its worker is told to stop it; what it has done stays done. A cancelled job can be retried.",
  delete:
    "Its payload, result, steps and log are gone for good. The audit log keeps that it was deleted.",
  move: "It keeps its key, attempts and times.",
  priority: "A higher number goes first.",
};

const TO_MANY: Readonly<Record<BulkName, string>> = {
  retry: "They are pending again, with three more attempts. What their steps have saved is kept.",
  cancel:
    "Those that run are told to stop; what they have done stays done. A cancelled job can be retried.",
  delete:
    "Their payloads, results, steps and logs are gone for good. The audit log keeps that they were deleted.",
  move: "They keep their keys, attempts and times.",
  priority: "A higher number goes first.",
};

/** How an action is asked about, before it is done to one job or to this many. */
function wording(
  action: BulkName,
  many: string,
  isOne = false,
): { readonly title: string; readonly body: JSX.Element; readonly confirm: string } {
  const verbs: Readonly<Record<BulkName, string>> = {
    retry: "Retry",
    cancel: "Cancel",
    delete: "Delete",
    move: "Move",
    priority: "Change the priority of",
  };
  return {
    title: `${verbs[action]} ${many}?`,
    body: <p>{(isOne ? TO_ONE : TO_MANY)[action]}</p>,
    confirm: action === "priority" ? `Change ${many}` : `${verbs[action]} ${many}`,
  };
}

const FIELDS = {
  move: [{ name: "queue", label: "To queue", required: true }],
  priority: [
    { name: "priority", label: "Priority", kind: "number" as const, value: "0", required: true },
  ],
};

function termsIn(action: BulkName, answers: Answers): BulkTerms {
  return {
    ...reasonIn(answers),
    ...(action === "move" ? { queue: String(answers["queue"]) } : {}),
    ...(action === "priority" ? { priority: Number(answers["priority"]) } : {}),
  };
}

/** Asks first, because it cannot be taken back. */
export function askAct(
  action: BulkName,
  jobs: readonly JobSummary[],
  after: () => void = () => {},
): void {
  const [only] = jobs;
  const many =
    jobs.length === 1 && only !== undefined
      ? `${only.task} ${only.key ?? ""}`.trim()
      : f.plural(jobs.length, "job");
  ask({
    ...wording(action, many, jobs.length === 1),
    danger: action === "cancel" || action === "delete",
    fields: action === "move" || action === "priority" ? FIELDS[action] : [],
    reason: true,
    run: async (answers) => {
      await actOn(action, jobs, termsIn(action, answers));
      after();
    },
  });
}

/** The count of a dry run: "8 jobs"; null: there is none. */
async function countedAs(action: BulkName, filter: BulkFilter): Promise<string | null> {
  const { id } = await post("bulk", {
    action,
    filter,
    ...(action === "move" ? { queue: "default" } : {}),
    ...(action === "priority" ? { priority: 0 } : {}),
    dryRun: true,
  });
  const { matched, status } = await followed(id);
  if (matched === 0) return null;
  return `${status === "running" ? "more than " : ""}${f.plural(matched, "job")}`;
}

type Bound = "endedSince" | "endedUntil" | "enqueuedSince" | "enqueuedUntil";

/** By when jobs can be chosen: by their end, if they must have ended. */
const BOUNDS: Readonly<Record<"ended" | "open", readonly [Bound, Bound]>> = {
  ended: ["endedSince", "endedUntil"],
  open: ["enqueuedSince", "enqueuedUntil"],
};

function boundsOf(action: BulkName): readonly [Bound, Bound] {
  return BOUNDS[action === "retry" || action === "delete" ? "ended" : "open"];
}

function clockFields(action: BulkName, filter: BulkFilter): Field[] {
  const [since, until] = boundsOf(action);
  const word = since === "endedSince" ? "Ended" : "Enqueued";
  const clock = (name: Bound, label: string): Field => ({
    name,
    label,
    kind: "instant",
    value: f.clockOf(filter[name] ?? null),
  });
  return [clock(since, `${word} at or after`), clock(until, `${word} before`)];
}

/** The filter with the times of the answers. A time that was not touched keeps its milliseconds. */
function within(action: BulkName, filter: BulkFilter, answers: Answers): BulkFilter {
  const bounds: readonly string[] = boundsOf(action);
  const others = Object.entries(filter).filter(([name]) => !bounds.includes(name));
  const times = boundsOf(action).map((name) => {
    const clock = String(answers[name] ?? "");
    const isSame = clock === f.clockOf(filter[name] ?? null);
    return [name, isSame ? filter[name] : f.instantIn(clock)] as const;
  });
  const given = times.filter(([, at]) => at !== null && at !== undefined);
  return Object.fromEntries([...others, ...given]);
}

/** By filter: a dry run counts, then the action has a page of its own, with stop. */
export async function askAll(action: BulkName, filter: BulkFilter): Promise<void> {
  const many = await countedAs(action, filter);
  if (many === null) {
    toast("No job matches that can be changed this way.");
    return;
  }
  const clocks = clockFields(action, filter);
  const { title } = wording(action, "all that match");
  ask({
    ...wording(action, many),
    title,
    danger: action === "cancel" || action === "delete",
    fields: [...clocks, ...(action === "move" || action === "priority" ? FIELDS[action] : [])],
    reason: true,
    recount: {
      fields: clocks.map(({ name }) => name),
      confirm: async (answers) => {
        const now = await countedAs(action, within(action, filter, answers));
        return now === null ? null : wording(action, now).confirm;
      },
    },
    run: async (answers) => {
      const started = await post("bulk", {
        action,
        filter: within(action, filter, answers),
        ...termsIn(action, answers),
      });
      go(to(["bulk", started.id]));
    },
  });
}
