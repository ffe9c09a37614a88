/**
 * What a list shows is what an action on all that match does: random databases, random filters; a list, a count, a dry run and
 * an effect of the same filter have the same jobs, and so has a plain comparison of what each job says about itself.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Store } from "../../src/app/store.ts";
import { type BulkAction, type BulkRequest, statusesOf } from "../../src/bulk/request.ts";
import { kindOf } from "../../src/core/error-kind.ts";
import { decodeError } from "../../src/core/error-record.ts";
import { firstIdAt } from "../../src/core/id.ts";
import { type Status, statuses } from "../../src/core/job.ts";
import { jobFieldNames, textOf, wordsOf } from "../../src/core/job-query.ts";
import { isReserved, versionsOf } from "../../src/core/name.ts";
import { sql } from "../../src/database/sql.ts";
import {
  type CheckedFilter,
  checkFilter,
  type JobFilter,
  readFilter,
} from "../../src/jobs/filter.ts";
import type { NewJob } from "../../src/jobs/store.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import { runBulk } from "../support/bulk.ts";
import {
  cancelled,
  crash,
  done,
  failed,
  idsOf,
  newJob,
  nextId,
  released,
  retry,
  settleOne,
  suspended,
  upTo,
} from "../support/jobs.ts";
import { runSeed, sized } from "../support/scale.ts";
import { Chance } from "../simulation/chance.ts";

const FILTERS_EACH = 25;
const JOBS = 40;

function some<T>(chance: Chance, all: readonly T[], most: number): T[] {
  return Array.from({ length: chance.whole(1, most) }, () => chance.pick(all));
}

function maybe<T>(chance: Chance, all: readonly T[]): T | null {
  return chance.isHit(0.5) ? chance.pick(all) : null;
}

const QUEUES = ["mail", "bulk", "holdfast.own", "elsewhere"];
const TASKS = ["mail.send", "mail.send@2", "mail.sender", "image.resize"];
const KEYS = ["order-1", "order-2", "Order-1", "k%_"];
const TAGS = ["a", "b", "c"];
const LANES = ["acme", "acme-2"];
const WORKERS = ["w-1", "w-2", "w-3"];
const SCHEDULES = ["nightly", "hourly"];
const INPUTS = ['{"to":"Ada"}', '{"to":"Bob","n":[1,2]}', "null", '"a\\\\b"'];
const PARTS = ["ada", "BOB", '"n":[1', "null", "b", "zzz"];
const MESSAGES = ["No route to host 10", "no route to host 7", "Out of stock", "ÄRGER"];
const NAMES = ["Error", "CarrierTimeout"];
const CODES = ["E_ROUTE", undefined];

interface Facts {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly status: Status;
  readonly key: string | null;
  readonly lane: string | null;
  readonly tags: readonly string[];
  readonly payload: string;
  readonly workers: readonly string[];
  readonly kind: string | null;
  readonly error: string | null;
  readonly flow: string | null;
  readonly schedule: string | null;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
}

/** A random database, and what its jobs belong to. */
class World {
  readonly bundle: Bundle;
  readonly chance: Chance;
  readonly flows = [nextId(), nextId()];
  readonly flowOf = new Map<string, string>();
  readonly scheduleOf = new Map<string, string>();
  readonly ids: string[] = [];
  #ticks = 0;

  constructor(bundle: Bundle, chance: Chance) {
    this.bundle = bundle;
    this.chance = chance;
  }

  get store(): Store {
    return this.bundle.store;
  }

  /** Jobs, and attempts at some of them. */
  async fill(count: number): Promise<void> {
    const { store, bundle } = this;
    const jobs = Array.from({ length: count }, () => this.#draw());
    await store.jobs.enqueue(jobs);
    for (const { id } of jobs) await this.#relate(id);
    for (let attempts = 0; attempts < 2 * count; attempts += 1) await this.#attempt();
    bundle.clock.advance(1);
  }

  #draw(): NewJob {
    const { chance, bundle } = this;
    bundle.clock.advance(chance.below(5));
    const id = firstIdAt(bundle.clock.now()).slice(0, 15) + nextId().slice(15);
    const key = maybe(chance, [`${chance.pick(KEYS)}-${this.ids.length}`]);
    this.ids.push(id);
    return newJob({
      id,
      queue: chance.pick(QUEUES),
      task: chance.pick(TASKS),
      payload: chance.pick(INPUTS),
      key,
      tags: [...new Set(some(chance, TAGS, 2))],
      lane: maybe(chance, LANES),
      start: chance.below(8) === 0 ? { delayMs: 3_600_000 } : null,
    });
  }

  async #relate(id: string): Promise<void> {
    const { byHand, clock } = this.bundle;
    const schedule = maybe(this.chance, SCHEDULES);
    this.#ticks += 1;
    if (schedule !== null) {
      this.scheduleOf.set(id, schedule);
      await byHand(sql`
        insert into holdfast.schedule_run (schedule, tick, is_manual, outcome, job_id, at)
        values (${schedule}, ${this.#ticks}, 0, 'enqueued', ${id}, ${clock.now()})`);
    }
    const flow = maybe(this.chance, this.flows);
    if (flow !== null) {
      this.flowOf.set(id, flow);
      await byHand(sql`insert into holdfast.flow_job (job_id, flow_id) values (${id}, ${flow})`);
    }
  }

  async #attempt(): Promise<void> {
    const { chance, store, bundle } = this;
    bundle.clock.advance(chance.below(4));
    const wanted = { worker: chance.pick(WORKERS), queues: [chance.pick(QUEUES)], limit: 1 };
    const [job] = await store.jobs.claim(upTo(1, wanted));
    if (job === undefined) return;
    bundle.clock.advance(chance.below(4));
    const code = chance.pick(CODES);
    const record = { name: chance.pick(NAMES), message: chance.pick(MESSAGES), stack: "at zzz" };
    const error = JSON.stringify({ ...record, ...(code === undefined ? {} : { code }) });
    const ends = [
      async () => {}, // it runs
      () => settleOne(store, done(job, '"sent"')),
      () => settleOne(store, failed(job, error)),
      () => settleOne(store, cancelled(job, chance.pick([null, error]))),
      () => settleOne(store, suspended(job, 3_600_000)),
      () => settleOne(store, retry(job, { delayMs: 3_600_000, error })),
      () => settleOne(store, released(job)),
      () => crash(bundle, job),
      async () => {
        await settleOne(store, failed(job, error));
        await store.jobs.retry(job.id, 3);
      },
    ];
    await chance.pick(ends)();
  }

  /** What each job says about itself, newest first. */
  async facts(): Promise<Facts[]> {
    const ids = this.ids.toSorted().toReversed();
    return (await Promise.all(ids.map((id) => this.#factsOf(id)))).flatMap((one) => one ?? []);
  }

  async #factsOf(id: string): Promise<Facts | null> {
    const job = await this.store.jobs.find(id);
    if (job === null) return null;
    const attempts = await this.store.jobs.attempts(id);
    const isEnded = job.finishedAt !== null;
    const last = isEnded
      ? attempts.findLast(({ outcome }) => outcome === "failed" && job.status === "failed")
      : attempts.findLast(({ outcome, error }) => error !== null && FAILURES.has(outcome));
    const error = last?.error ?? null;
    return {
      ...job,
      workers: attempts.map(({ worker }) => worker),
      kind: error === null ? null : kindOf(job.task, decodeError(error)).id,
      error: job.lastError,
      flow: this.flowOf.get(id) ?? null,
      schedule: this.scheduleOf.get(id) ?? null,
      startedAt: job.claimedAt,
      endedAt: job.finishedAt,
    };
  }
}

const FAILURES = new Set(["retry", "crashed", "failed"]);

/** The plain comparison, one field at a time. */
function fits(job: Facts, filter: CheckedFilter, builds: ReadonlyMap<string, string>): boolean {
  const { id = [], error, code, build, worker, input, kind, lane } = filter;
  const names = [filter.queue, filter.task, filter.key, kind, filter.id];
  if (names.every((name) => name === undefined) && isReserved(job.queue)) return false;
  const last = job.error === null ? null : decodeError(job.error);
  const ran = new Set(job.workers);
  const within = (at: number | null, since?: number, until?: number): boolean =>
    (since === undefined && until === undefined) ||
    (at !== null && at >= (since ?? 0) && at < (until ?? Number.POSITIVE_INFINITY));
  const versions = versionsOf(filter.task ?? "");
  const [only = ""] = id;
  return (
    (filter.status ?? [job.status]).includes(job.status) &&
    (filter.queue ?? job.queue) === job.queue &&
    (filter.task === undefined ||
      job.task === filter.task ||
      (versions !== null && job.task > versions.after && job.task < versions.before)) &&
    (filter.key ?? job.key) === job.key &&
    (filter.keyPrefix === undefined || (job.key ?? "").startsWith(filter.keyPrefix)) &&
    (filter.tag ?? []).every((tag) => job.tags.includes(tag)) &&
    (lane ?? job.lane) === job.lane &&
    (worker === undefined || ran.has(worker)) &&
    (build === undefined ||
      [...ran].some((one) => builds.get(one) === build && one === (worker ?? one))) &&
    (filter.flow ?? job.flow) === job.flow &&
    (filter.schedule ?? job.schedule) === job.schedule &&
    (kind ?? job.kind) === job.kind &&
    (code === undefined || last?.code === code || last?.name === code) &&
    (error === undefined ||
      (last !== null &&
        `${last.name}: ${last.message}`.toLowerCase().includes(error.toLowerCase()))) &&
    (input === undefined || job.payload.toLowerCase().includes(input.toLowerCase())) &&
    within(enqueuedAt(job.id), filter.enqueuedSince, filter.enqueuedUntil) &&
    within(job.startedAt, filter.startedSince, filter.startedUntil) &&
    within(job.endedAt, filter.endedSince, filter.endedUntil) &&
    (filter.id === undefined || id.includes(job.id) || (id.length === 1 && job.id.startsWith(only)))
  );
}

function enqueuedAt(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

/** One to three fields that some of the jobs may have. */
function drawFilter(chance: Chance, facts: readonly Facts[], flows: readonly string[]): JobFilter {
  const job = chance.pick(facts);
  const times = facts.flatMap(({ id, startedAt, endedAt }) => [
    enqueuedAt(id),
    ...[startedAt, endedAt].filter((at) => at !== null),
  ]);
  const time = (): number => chance.pick(times) + chance.below(3) - 1;
  const values: Record<string, () => unknown> = {
    status: () => some(chance, statuses, 3),
    queue: () => chance.pick(QUEUES),
    task: () => chance.pick([...TASKS, "mail"]),
    key: () => job.key ?? "none",
    keyPrefix: () => chance.pick([...KEYS, "o", "Order"]),
    tag: () => some(chance, TAGS, 2),
    lane: () => chance.pick([...LANES, "acm"]),
    worker: () => chance.pick([...WORKERS, "w-4"]),
    build: () => chance.pick(["b-1", "b-2", "b-3"]),
    flow: () => chance.pick(flows),
    schedule: () => chance.pick(SCHEDULES),
    kind: () => chance.pick(facts.flatMap((one) => one.kind ?? [])) ?? "0".repeat(32),
    code: () => chance.pick(["E_ROUTE", ...NAMES, "POISON"]),
    error: () => chance.pick(["NO ROUTE", "timeout: out", "ärger", "zzz", "e"]),
    input: () => chance.pick(PARTS),
    id: () =>
      chance.below(2) === 0
        ? chance.pick(facts).id.slice(0, 9 + chance.below(27))
        : Array.from({ length: 5 }, () => chance.pick(facts).id),
  };
  const pick = (name: string): unknown => (values[name] ?? time)();
  const names = some(chance, jobFieldNames, 3);
  const drawn = Object.fromEntries(names.map((name) => [name, pick(name)])) as JobFilter;
  // A short range of ends is looked up in another way.
  const [end] = facts.flatMap(({ endedAt }) => endedAt ?? []);
  const isShort = end !== undefined && chance.below(8) === 0;
  const filter = isShort ? { ...drawn, endedSince: end - 1, endedUntil: end + 60_000 } : drawn;
  try {
    return checkFilter(filter);
  } catch {
    return drawFilter(chance, facts, flows); // such as a range that ends before it begins
  }
}

const ACTIONS: readonly BulkAction[] = ["retry", "cancel", "delete", "move", "priority"];

function requestOf(action: BulkAction, filter: JobFilter): BulkRequest {
  if (action === "move") return { action, filter, queue: "elsewhere" };
  return action === "priority" ? { action, filter, priority: 7 } : { action, filter };
}

/** The filter with statuses that the action can change; null: there is none. */
function forAction(action: BulkAction, filter: JobFilter): CheckedFilter | null {
  const { status, ...rest } = filter;
  const wanted = [status ?? statuses].flat().filter((one) => {
    try {
      return statusesOf(action, { status: [one] }).includes(one);
    } catch {
      return false;
    }
  });
  return wanted.length === 0 ? null : checkFilter({ ...rest, status: wanted });
}

export const filtering: Group = (open) => {
  for (let world = 0; world < sized(2, 80); world += 1) {
    test(`a list, a count, a dry run and an effect of ${FILTERS_EACH} filters have the same jobs (${world})`, async () =>
      tryOut(await open(), runSeed + world));
  }
};

async function tryOut(bundle: Bundle, seed: number): Promise<void> {
  const { store, byHand, clock } = bundle;
  const chance = new Chance(seed, "filters");
  const world = new World(bundle, chance);
  const builds = new Map([
    ["w-1", "b-1"],
    ["w-2", "b-1"],
    ["w-3", "b-2"],
  ]);
  await byHand(sql`insert into holdfast.worker_type (name) values ('mailer')`);
  for (const [worker, build] of builds) {
    await byHand(sql`
      insert into holdfast.worker (id, type, slot, instance, status, hostname, pid, version, node_version, platform, arch,
                                   queues, tasks, concurrency, started_at, heartbeat_at)
      values (${worker}, 'mailer', null, 1, 'running', 'h', 1, ${build}, 'v', 'l', 'a', '[]', '[]', 1, ${clock.now()}, ${clock.now()})`);
  }
  await world.fill(JOBS);
  let facts = await world.facts();
  for (let nth = 0; nth < FILTERS_EACH; nth += 1) {
    const filter = drawFilter(chance, facts, world.flows);
    const told = `seed ${seed}, filter ${nth}: ${textOf(filter)}`;
    assert.deepEqual(readFilter(wordsOf(textOf(filter)), 0), checkFilter(filter), told);
    const wanted = (one: CheckedFilter): string[] =>
      idsOf(facts.filter((job) => fits(job, one, builds)));
    await compare(store, checkFilter(filter), wanted(checkFilter(filter)), told);
    await compareEnds(store, filter, facts, { builds, told });
    const action = chance.pick(ACTIONS);
    const narrow = forAction(action, filter);
    if (narrow === null) continue;
    await act(store, requestOf(action, narrow), wanted(narrow), `${told} ${action}`);
    facts = await world.facts();
    if (facts.length >= JOBS / 2) continue;
    await world.fill(JOBS / 2);
    facts = await world.facts();
  }
}

async function compare(
  store: Store,
  filter: CheckedFilter,
  wanted: readonly string[],
  told: string,
): Promise<void> {
  assert.deepEqual(idsOf(await store.jobs.list({ ...filter, limit: 1_000 })), wanted, told);
  const counted = await store.jobs.count(filter, { examine: 10_000 });
  assert.deepEqual([counted.count, counted.next], [wanted.length, null], told);
  const [middle] = wanted.slice(wanted.length / 2);
  if (middle === undefined) return;
  const older = await store.jobs.list({ ...filter, before: middle, limit: 2 });
  const next = wanted.indexOf(middle) + 1;
  assert.deepEqual(idsOf(older), wanted.slice(next, next + 2), told);
}

/** The same jobs in the order of their ends, a few at a time. */
async function compareEnds(
  store: Store,
  filter: JobFilter,
  facts: readonly Facts[],
  { builds, told }: { builds: ReadonlyMap<string, string>; told: string },
): Promise<void> {
  const ended = { ...checkFilter(filter), status: ["failed", "cancelled", "expired"] as const };
  const wanted = facts
    .filter((job) => fits(job, ended, builds))
    .toSorted((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0)); // the newest ids are first already
  const found: string[] = [];
  let before: string | null = null;
  do {
    const page: Awaited<ReturnType<Store["jobs"]["page"]>> = await store.jobs.page(ended, {
      order: "ended",
      before,
      limit: 3,
    });
    found.push(...idsOf(page.jobs));
    before = page.next;
  } while (before !== null && found.length <= facts.length);
  assert.deepEqual(found, idsOf(wanted), `${told}, by end`);
}

async function act(
  store: Store,
  request: BulkRequest,
  wanted: readonly string[],
  told: string,
): Promise<void> {
  const listed = idsOf(await store.jobs.list({ ...request.filter, limit: 1_000 }));
  assert.deepEqual(listed, wanted, told);
  const dry = await runBulk(store, { ...request, dryRun: true });
  assert.deepEqual([dry.matched, dry.sample], [wanted.length, wanted.slice(0, 10)], told);
  const before = await Promise.all(wanted.map((id) => store.jobs.find(id)));
  const { id, matched, sample, changed, refused } = await runBulk(store, request);
  assert.deepEqual([matched, sample], [wanted.length, wanted.slice(0, 10)], told);
  const lines = await store.audit.list({ limit: 1_000 });
  const subjects = lines
    .filter(({ action, detail }) => action !== "bulk.start" && detail?.includes(id) === true)
    .map(({ subject }) => (subject ?? "").replace("job ", ""));
  assert.equal(subjects.length, changed, told);
  for (const subject of subjects) assert.ok(wanted.includes(subject), told);
  // Those that were not changed had nothing to change.
  const left = before.filter((job) => !subjects.includes(job?.id ?? ""));
  const hadNothing = left.filter(
    (job) =>
      (request.action === "move" && job?.queue === "elsewhere") ||
      (request.action === "priority" && job?.priority === 7) ||
      (request.action === "cancel" && job?.status === "processing"),
  );
  assert.ok(hadNothing.length + refused >= left.length, told);
}
