/**
 * Everything one can do to a store, as commands with generated arguments.
 *
 * Jobs and leases are picked by number among those that exist when the command runs. Spans come from
 * a short list, so that leases end, retries fall due and instants coincide often.
 */
import { randomUUID } from "node:crypto";
import * as fc from "fast-check";
import type { Fence, Outcome, Settlement, Status } from "../../src/core/job.ts";
import type { ClaimedJob, NewJob, OnConflict, Settled, Wanted } from "../../src/jobs/store.ts";
import { QueueNotFoundError, type RuleChange } from "../../src/queues/store.ts";
import { LIMITED, type Model } from "./model.ts";
import type { World } from "./world.ts";

type Command = fc.AsyncCommand<Model, World>;

const QUEUES = ["mail", "Mail"];
const TASKS = ["send", "Send"];
const KEYS = ["k1", "K1"];
const WORKERS = ["w1", "w2"];
const SPANS_MS = [0, 1, 100, 1_000, 5_000, 60_000];
const STATUSES: Status[] = [
  ...(["scheduled", "pending", "processing", "waiting"] as const),
  ...(["retry", "done", "failed", "cancelled"] as const),
];
const UNKNOWN_ID = "ffffffff-ffff-7fff-8fff-ffffffffffff";

/** Makes a command: what it is called, how its arguments are drawn, what it does with them. */
function command<Args>(
  name: string,
  args: fc.Arbitrary<Args>,
  body: (args: Args, world: World) => Promise<void>,
): fc.Arbitrary<Command> {
  return args.map((drawn) => ({
    check: () => true,
    async run(_model, world) {
      await body(drawn, world);
      await world.sameState();
    },
    toString: () => name,
  }));
}

// ── What is drawn ────────────────────────────────────────────────────────────────────────────────

const number = fc.nat({ max: 1_000 });
const span = fc.constantFrom(...SPANS_MS);
const limit = fc.constantFrom(0, 1, 2, 3, 5, 100);
const queue = fc.constantFrom(...QUEUES);
const task = fc.constantFrom(...TASKS);
const worker = fc.constantFrom(...WORKERS);
const maybe = <T>(arb: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(arb, { freq: 2 });

/** Ids do not come in the order of their making: other processes make them too. */
const newJob = fc.record({
  idPrefix: fc.constantFrom("0", "7", "e"),
  queue,
  task,
  priority: fc.constantFrom(-1, 0, 0, 5),
  maxAttempts: fc.constantFrom(1, 2, 3),
  key: fc.constantFrom(null, ...KEYS),
  keyForMs: fc.constantFrom(null, null, null, 1_000, 60_000),
  onConflict: fc.constantFrom<OnConflict[]>("return", "return", "return", "replace", "reject"),
  start: maybe(
    fc.oneof(
      span.map((delayMs) => ({ delayMs })),
      fc.constantFrom(-1_000, 0, 1, 1_000).map((fromNowMs) => ({ fromNowMs })),
    ),
  ),
});

const wanted = fc.record({
  worker,
  queues: fc.constantFrom(QUEUES, QUEUES, ["mail"], ["Mail", "Mail"], []),
  tasks: maybe(fc.subarray(TASKS, { minLength: 1 })),
  limit,
  leaseMs: fc.constantFrom(1, 100, 1_000, 30_000),
});

const error = fc.constantFrom("it broke", "no route");
const outcome: fc.Arbitrary<Outcome> = fc.oneof(
  fc.record({ kind: fc.constant("done" as const), result: fc.constantFrom(null, '{"n":1}') }),
  fc.record({ kind: fc.constant("retry" as const), delayMs: span, error }),
  fc.record({ kind: fc.constant("failed" as const), error }),
  fc.record({ kind: fc.constant("suspended" as const), delayMs: fc.option(span) }),
  fc.record({ kind: fc.constant("released" as const) }),
  fc.record({ kind: fc.constant("cancelled" as const), error: fc.option(error) }),
);

/** Mostly a lease that is held; sometimes one of long ago, or one that was never given. */
const fence = fc.record({
  number,
  kind: fc.constantFrom("held", "held", "held", "old", "other worker", "other epoch"),
});
const settlements = fc.array(fc.record({ fence, outcome }), { minLength: 1, maxLength: 3 });
const fences = fc.array(fence, { minLength: 1, maxLength: 3 });

// ── How it is picked ─────────────────────────────────────────────────────────────────────────────

function pickFrom<T>(things: readonly T[], at: number): T | undefined {
  return things[at % Math.max(1, things.length)];
}

function pickFence(world: World, drawn: { number: number; kind: string }): Fence[] {
  const choice = drawn.kind === "old" ? world.fences : world.fences.filter(isHeld(world));
  const picked = pickFrom(choice, drawn.number);
  if (picked === undefined) return [];
  if (drawn.kind === "other worker") return [{ ...picked, worker: "w3" }];
  if (drawn.kind === "other epoch") return [{ ...picked, epoch: picked.epoch + 1 }];
  return [picked];
}

function isHeld({ model }: World): (fence: Fence) => boolean {
  return ({ id, worker: by, epoch }) => {
    const job = model.jobs.get(id);
    return job?.lockedBy === by && job.epoch === epoch;
  };
}

function pickSettlements(
  world: World,
  drawn: readonly { fence: { number: number; kind: string }; outcome: Outcome }[],
): Settlement[] {
  return drawn.flatMap((one) =>
    pickFence(world, one.fence).map((picked) => ({ ...picked, outcome: one.outcome })),
  );
}

function pickId(world: World, at: number, among: readonly Status[] = STATUSES): string {
  const jobs = [...world.model.jobs.values()];
  const fitting = jobs.filter(({ status }) => among.includes(status)).map(({ id }) => id);
  if (fitting.length > 0 && among !== STATUSES) return pickFrom(fitting, at) ?? UNKNOWN_ID;
  return pickFrom([...jobs.map(({ id }) => id), UNKNOWN_ID], at) ?? UNKNOWN_ID;
}

const byId = (a: { id: string }, b: { id: string }): number => (a.id < b.id ? -1 : 1);

// ── The commands ─────────────────────────────────────────────────────────────────────────────────

const enqueue = command(
  "enqueue",
  fc.array(newJob, { minLength: 1, maxLength: 3 }),
  async (drawn, world) => {
    const news = drawn.map(({ idPrefix, start, ...rest }): NewJob => {
      const at = world.asked.length.toString().padStart(12, "0");
      const id = `${idPrefix}0000000-0000-7000-8000-${at}`;
      const begin =
        start !== null && "fromNowMs" in start ? { at: world.model.now + start.fromNowMs } : start;
      const asked = {
        id,
        payload: `{"at":${at}}`.replace(/:0+(?=\d)/, ":"),
        ...rest,
        start: begin,
      };
      world.asked.push(asked);
      return asked;
    });
    await enqueueBoth(world, news);
  },
);

const LANES = [null, "a", "b", "c"];

const enqueueLimited = command(
  "enqueueLimited",
  fc.array(fc.record({ job: newJob, lane: fc.constantFrom(...LANES) }), {
    minLength: 1,
    maxLength: 3,
  }),
  async (drawn, world) => {
    const news = drawn.map(({ job: { idPrefix, start: _start, ...rest }, lane }): NewJob => {
      const at = world.asked.length.toString().padStart(12, "0");
      const id = `${idPrefix}0000000-0000-7000-8000-${at}`;
      const asked = { ...rest, id, queue: LIMITED, payload: "{}", start: null };
      const whole = lane === null ? asked : { ...asked, lane };
      world.asked.push(whole);
      return whole;
    });
    await enqueueBoth(world, news);
  },
);

const rules = fc.record({
  concurrency: fc.constantFrom(null, null, 0, 1, 2, 3),
  laneConcurrency: fc.constantFrom(null, 0, 1, 2),
  rate: maybe(
    fc.record({
      count: fc.constantFrom(1, 3, 10),
      periodMs: fc.constantFrom(100, 1_000),
      burst: fc.constantFrom(1, 2, 5),
    }),
  ),
});

const setRules = command("setRules", rules, async (drawn, world) => {
  const { concurrency, laneConcurrency, rate } = drawn;
  world.calls.push(`setRules(${JSON.stringify(drawn)})`);
  const of: RuleChange = { kind: "queue", name: "", concurrency, rate, weight: null };
  const ofLanes: RuleChange = { ...of, kind: "lanes", concurrency: laneConcurrency, rate: null };
  await world.store.queues.change({ queue: LIMITED, rules: [of, ofLanes] }, operator());
  world.model.setRules(drawn);
});

const pauseOrResume = command("pauseOrResume", fc.boolean(), async (paused, world) => {
  world.calls.push(paused ? "pause()" : "resume()");
  const { queues } = world.store;
  const changed = await (paused
    ? queues.pause(LIMITED, operator())
    : // A queue that has neither jobs nor settings is not paused, so there is nothing to resume.
      queues.resume(LIMITED, operator()).catch(falseIfUnknown));
  world.same("pause or resume", changed, world.model.setPaused(paused));
});

function falseIfUnknown(refusal: unknown): false {
  if (refusal instanceof QueueNotFoundError) return false;
  throw refusal;
}

/** A new line of the audit. */
function operator(): { id: string; actor: string } {
  return { id: randomUUID(), actor: "ada" };
}

const claimLimited = command("claimLimited", wanted, async (drawn, world) => {
  const asked = { ...drawn, queues: [LIMITED] };
  const claimed = (await claimInTurns(world, asked)).toSorted(byId);
  const ids = claimed.map(({ id }) => id);
  const pending = world.model.list({ queue: LIMITED, status: "pending", limit: 1_000 }).length;
  world.same("claim", claimed, world.model.claimLimited(asked, ids).toSorted(byId));
  world.saw("a job claimed under rules", claimed.length);
  if (world.model.paused && pending > 0) world.saw("a claim from a paused queue");
  else if (claimed.length < Math.min(pending, drawn.limit)) world.saw("a claim under a full limit");
  remember(world, claimed);
});

/** A turn that had to leave a lane says that the next may follow at once. */
async function claimInTurns(world: World, asked: Wanted): Promise<ClaimedJob[]> {
  const all: ClaimedJob[] = [];
  for (let turn = 0; turn < TURNS_MAX; turn += 1) {
    const limitLeft = asked.limit - all.length;
    const turned = { ...asked, limit: limitLeft };
    const { claimed, lookInMs } = await world.call("settleAndClaim", [], turned);
    all.push(...claimed);
    if (lookInMs !== 0 || all.length === asked.limit) return all;
    world.saw("a turn that another follows");
  }
  throw new Error(`More than ${TURNS_MAX} turns.`);
}

/** More than there are lanes. */
const TURNS_MAX = 10;

const enqueueAgain = command(
  "enqueueAgain",
  fc.record({ number, changed: maybe(fc.constantFrom(...KEYS)) }),
  async (drawn, world) => {
    const before = pickFrom(world.asked, drawn.number);
    if (before === undefined) return;
    const changed = drawn.changed === null ? {} : { payload: "[]", key: drawn.changed };
    if (world.model.jobs.has(before.id)) world.saw("an id that exists enqueued again");
    await enqueueBoth(world, [{ ...before, ...changed }]);
  },
);

async function enqueueBoth(world: World, news: readonly NewJob[]): Promise<void> {
  const held = news.map(({ task: of, key }) => world.model.holder(of, key));
  const answer = await world.call("enqueue", news).catch(codeOf);
  world.same("enqueue", answer, world.model.enqueue(news));
  if (typeof answer === "string") {
    world.saw(`an enqueue: ${answer}`);
    return;
  }
  for (const [at, { id, added }] of answer.entries()) {
    const holder = held[at];
    const what = holder?.finishedAt === null ? "held by a live job" : "kept by a job that ended";
    if (holder?.id === id && id !== news[at]?.id) world.saw(`a key ${what}`);
    if (added && holder?.error === "REPLACED") world.saw("a job replaced");
  }
}

const claim = command("claim", wanted, async (drawn, world) => {
  const claimed = await world.call("claim", drawn);
  world.same("claim", claimed, world.model.claim(drawn));
  remember(world, claimed);
});

const settle = command("settle", settlements, async (drawn, world) => {
  const picked = pickSettlements(world, drawn);
  const settled = await world.call("settle", picked);
  sawOutcomes(world, picked, settled);
  world.same("settle", settled.toSorted(byId), world.model.settle(picked).toSorted(byId));
});

const settleAndClaim = command(
  "settleAndClaim",
  fc.record({ settlements, wanted }),
  async (drawn, world) => {
    const picked = pickSettlements(world, drawn.settlements);
    const { settled, claimed } = await world.call("settleAndClaim", picked, drawn.wanted);
    sawOutcomes(world, picked, settled);
    world.same("settle", settled.toSorted(byId), world.model.settle(picked).toSorted(byId));
    world.same("claim", claimed, world.model.claim(drawn.wanted));
    remember(world, claimed);
  },
);

const release = command("release", fences, async (drawn, world) => {
  const picked = drawn.flatMap((one) => pickFence(world, one));
  const asSettlements = picked.map((one) => ({ ...one, outcome: { kind: "released" as const } }));
  const settled = await world.call("release", picked);
  sawOutcomes(world, asSettlements, settled);
  world.same("release", settled.toSorted(byId), world.model.settle(asSettlements).toSorted(byId));
});

const outage = command("settleOutages", fences, async (drawn, world) => {
  const isCrash = ({ id, epoch }: Fence): boolean =>
    world.model.jobs
      .get(id)
      ?.history.some((one) => one.epoch === epoch && one.outcome === "crashed") === true;
  const reportable = world.fences.filter((one) => isHeld(world)(one) || isCrash(one));
  const picked = drawn.flatMap(({ number: at }) => pickFrom(reportable, at) ?? []);
  const lost = JSON.stringify({ name: "LeaseLostError", code: "LEASE_LOST", message: "" });
  // An id may have had two lives, and a report that is sent twice is answered twice.
  const unique = new Map(picked.map((one) => [`${one.id} ${one.worker} ${one.epoch}`, one]));
  const reports = [...unique.values()].map((one) => {
    return { ...one, outcome: { kind: "failed" as const, error: lost }, gaveUp: true };
  });
  const crashes = reports.filter(isCrash).length;
  const told = await world.call("settleOutages", reports);
  world.saw("an outage reported too late", reports.length - told.length);
  world.saw("a crash reported as an outage", crashes);
  world.same("settleOutages", told.toSorted(byId), world.model.outages(reports).toSorted(byId));
});

const extend = command("extend", fc.record({ fences, leaseMs: span }), async (drawn, world) => {
  const picked = drawn.fences.flatMap((one) => pickFence(world, one));
  const { model } = world;
  const extended = await world.call("extend", picked, drawn.leaseMs);
  world.saw("an extension refused", picked.length - extended.length);
  const over = extended.filter(({ id }) => (model.jobs.get(id)?.lockedUntil ?? 0) < model.now);
  world.saw("a lease extended after its end", over.length);
  const expected = model.extend(picked, drawn.leaseMs);
  world.same("extend", extended.toSorted(byId), expected.toSorted(byId));
});

const reclaim = command(
  "reclaimExpired",
  fc.record({ graceMs: fc.constantFrom(0, 0, 2_000), maxCrashes: fc.constantFrom(1, 2, 3), limit }),
  async (chore, world) => {
    const taken = (await world.call("reclaimExpired", chore)).toSorted(byId);
    const ids = taken.map(({ id }) => id);
    world.same("reclaimExpired", taken, world.model.reclaim(chore, ids).toSorted(byId));
    for (const { id, status } of taken) {
      const poison = world.model.jobs.get(id)?.error === "POISON";
      world.saw(`a lease taken back: ${poison ? "poison" : status}`);
    }
  },
);

const promote = command("promoteDue", limit, async (most, world) => {
  const promoted = await world.call("promoteDue", { limit: most });
  world.saw("a job promoted", promoted);
  world.same("promoteDue", promoted, world.model.promote(most));
  const { dueInMs } = await world.call("upcoming");
  world.same("upcoming", dueInMs, world.model.dueInMs());
});

const cancelled = fc.record({
  number,
  among: fc.constantFrom(STATUSES, ["processing" as const], ["waiting" as const, "retry" as const]),
});

const cancel = command("cancel", cancelled, async (drawn, world) => {
  const id = pickId(world, drawn.number, drawn.among);
  const met = world.model.jobs.get(id)?.status ?? "no such job";
  const status = await world.call("cancel", id);
  world.saw(`a cancel that met: ${met}`);
  world.same("cancel", status, world.model.cancel(id));
});

const retry = command(
  "retry",
  fc.record({
    number,
    among: fc.constantFrom(STATUSES, ["failed" as const, "cancelled" as const]),
    attempts: fc.constantFrom(1, 2),
  }),
  async (drawn, world) => {
    const id = pickId(world, drawn.number, drawn.among);
    const code = await world.call("retry", id, drawn.attempts).then(() => null, codeOf);
    world.saw(`a reopening: ${code ?? "accepted"}`);
    world.same("retry", code, world.model.reopen(id, drawn.attempts));
  },
);

function codeOf(thrown: unknown): string {
  if (thrown instanceof Error && "code" in thrown) return String(thrown.code);
  throw thrown;
}

const prune = command(
  "prune",
  fc.record({
    retention: fc.record({ done: span, failed: span, cancelled: span, expired: span }),
    limit,
  }),
  async (chore, world) => {
    const pruned = await world.call("prune", chore);
    const left = new Set((await world.store.jobs.list({ limit: 10_000 })).map(({ id }) => id));
    const gone = [...world.model.jobs.keys()].filter((id) => !left.has(id));
    world.same("prune", pruned, world.model.prune(chore, gone));
    for (const id of gone) world.same("attempts", await world.store.jobs.attempts(id), []);
    world.saw("a job pruned", pruned);
  },
);

const advance = command("advance", fc.constantFrom(...SPANS_MS.slice(1)), async (ms, world) => {
  world.model.now += ms;
  world.calls.push(`advance(${ms})`);
});

const look = command(
  "look",
  fc.record({
    number,
    status: maybe(fc.constantFrom(...STATUSES)),
    queue: maybe(queue),
    task: maybe(task),
    worker: maybe(worker),
    state: fc.constantFrom("active" as const, "expired" as const),
    limit,
  }),
  async (drawn, world) => {
    const { store, model } = world;
    const id = pickId(world, drawn.number);
    const ids = [id, pickId(world, drawn.number + 1), UNKNOWN_ID];
    const page = given({ status: drawn.status, queue: drawn.queue, task: drawn.task });
    for (const before of [{}, { before: id }]) {
      const filter = { ...page, ...before, limit: drawn.limit };
      world.same("list", await world.call("list", filter), model.list(filter));
    }
    for (const after of [{}, { after: id }]) {
      const some = given({ worker: drawn.worker });
      const filter = { ...some, ...after, state: drawn.state, limit: drawn.limit };
      world.same("leases", await world.call("leases", filter), model.leases(filter));
    }
    world.same("find", await store.jobs.find(UNKNOWN_ID), null);
    const finished = (await store.jobs.findFinished(ids)).toSorted(byId);
    world.same("findFinished", finished, model.findFinished(ids).toSorted(byId));
    for (const name of QUEUES) {
      const pending = model.list({ queue: name, status: "pending", limit: 1 }).length > 0;
      world.same("hasPending", await store.jobs.hasPending(name), pending);
    }
  },
);

/** Only the fields that were drawn. */
function given<T extends object>(fields: T): { [field in keyof T]?: NonNullable<T[field]> } {
  const drawn = Object.entries(fields).filter(([, value]) => value !== null);
  return Object.fromEntries(drawn) as { [field in keyof T]?: NonNullable<T[field]> };
}

function remember(world: World, claimed: readonly Fence[]): void {
  world.fences.push(...claimed.map(({ id, worker: by, epoch }) => ({ id, worker: by, epoch })));
  world.saw("a job claimed", claimed.length);
}

function sawOutcomes(
  world: World,
  picked: readonly Settlement[],
  settled: readonly Settled[],
): void {
  world.saw("a settlement refused", picked.length - settled.length);
  for (const { id, worker: by, epoch, status } of settled) {
    const asked = picked.find((one) => one.id === id && one.worker === by && one.epoch === epoch);
    const kind = asked?.outcome.kind ?? "nothing";
    if (status === "cancelled" && kind !== status) world.saw("an outcome overruled by a cancel");
    else world.saw(`a settlement: ${kind} became ${status}`);
  }
}

/** How often each is drawn. */
const WEIGHTS: [number, fc.Arbitrary<Command>][] = [
  [3, enqueue],
  [1, enqueueAgain],
  [5, claim],
  [4, settle],
  [2, settleAndClaim],
  [1, release],
  [1, extend],
  [1, outage],
  [4, reclaim],
  [2, promote],
  [3, cancel],
  [2, retry],
  [1, prune],
  [3, advance],
  [1, look],
  [3, enqueueLimited],
  [2, setRules],
  [1, pauseOrResume],
  [4, claimLimited],
];

export const commands: fc.Arbitrary<Command>[] = WEIGHTS.flatMap(([weight, drawn]) =>
  Array.from({ length: weight }, () => drawn),
);
