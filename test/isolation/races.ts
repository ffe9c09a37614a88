/**
 * The races: what happened before, who runs, and everything that may come of it.
 *
 * In how many pieces an actor runs follows from its gates. A hot statement has three: up to the gate inside it, then with
 * its rows locked up to the commit, then the commit. (A claim holds its rows when it comes to what it settles, and a gate
 * is there.) A cold move has two for every statement, and its commit.
 */
import {
  done,
  failed,
  GRACE_MS,
  HOUR_MS,
  LEASE_MS,
  member,
  newJob,
  released,
  retry,
  upTo,
} from "../support/jobs.ts";
import { START_AT } from "../support/runtime.ts";
import type { Actor, Stops } from "./script.ts";
import { cancelAtOnce } from "./plants.ts";
import type { Race } from "./theatre.ts";
import {
  cancel,
  claim,
  claimRuled,
  enqueue,
  extend,
  enqueueMembers,
  pause,
  promote,
  reclaim,
  setRules,
  settle,
  settleAwaited,
  sweepEnds,
  turn,
  type Verb,
} from "./verbs.ts";

const HOT = 3;
/** Looks for a lease; the same in a transaction of its own, with a gate inside; commits. */
const RECLAIM = 4;
/** Takes what is due, with a gate inside; commits. */
const PROMOTE = 3;
/** Looks into `ready`, `waiting` and `lease`, and into `finished` or for its commit. */
const CANCEL = 7;

const CLAIMED_AT = START_AT + 10;
/** A lease that was claimed at CLAIMED_AT has just ended, by everybody's clock. */
export const EXPIRED_AT = CLAIMED_AT + LEASE_MS + GRACE_MS + 1;
/** Until then it lasts if it is extended all the same. */
export const EXTENDED_UNTIL = EXPIRED_AT + LEASE_MS;
/** By then a job that crashed a worker is due again. */
const AGAIN_AT = EXPIRED_AT + 10_000;

const job = newJob();
const fence = { id: job.id, worker: "w1", epoch: 1 };
const pending = [enqueue(START_AT, job)];
const running = [...pending, claim(CLAIMED_AT, "w1")];

/** The second of two jobs that run. */
const other = newJob();
const bothRun = [enqueue(START_AT, job, other), claim(CLAIMED_AT, "w1", { limit: 2 })];
const fences = [fence, { ...fence, id: other.id }];

/** A cold move or a hot statement, stopped wherever another process could come between. */
function stopped(pieces: number, ...verbs: Verb[]): Actor {
  return { pieces, stops: "in statements", verbs };
}

function moving(pieces: number, stops: Stops, ...verbs: Verb[]): Actor {
  return { pieces, stops, verbs };
}

export const claimClaim: Race = {
  before: pending,
  actors: {
    one: stopped(HOT, claim(CLAIMED_AT, "w1")),
    two: stopped(HOT, claim(CLAIMED_AT, "w2")),
  },
  outcomes: ["one claimed at 1; two nothing: with w1", "one nothing; two claimed at 1: with w2"],
};

export const claimsOfSeveralQueues: Race = {
  before: [enqueue(START_AT, job, newJob({ queue: "mail" }))],
  actors: {
    one: stopped(HOT, claim(CLAIMED_AT, "w1", { queues: ["default", "mail"], limit: 2 })),
    two: stopped(HOT, claim(CLAIMED_AT, "w2", { queues: ["mail", "default"], limit: 2 })),
  },
  outcomes: [
    "one claimed at 1 claimed at 1; two nothing: with w1 and with w1",
    "one nothing; two claimed at 1 claimed at 1: with w2 and with w2",
  ],
};

export const threeClaims: Race = {
  before: [enqueue(START_AT, job, other)],
  actors: {
    one: stopped(2, claim(CLAIMED_AT, "w1")),
    two: stopped(2, claim(CLAIMED_AT, "w2")),
    three: stopped(2, claim(CLAIMED_AT, "w3")),
  },
  outcomes: [
    "one claimed at 1; two claimed at 1; three nothing: with w1 and with w2",
    "one claimed at 1; two claimed at 1; three nothing: with w2 and with w1",
    "one claimed at 1; two nothing; three claimed at 1: with w1 and with w3",
    "one claimed at 1; two nothing; three claimed at 1: with w3 and with w1",
    "one nothing; two claimed at 1; three claimed at 1: with w2 and with w3",
    "one nothing; two claimed at 1; three claimed at 1: with w3 and with w2",
  ],
};

const claimAgainst = (cancelling: Actor): Race => ({
  before: pending,
  actors: { claim: stopped(HOT, claim(CLAIMED_AT, "w1")), cancel: cancelling },
  outcomes: [
    "claim nothing; cancel cancelled: cancelled",
    "claim claimed at 1; cancel processing: to be cancelled by w1",
  ],
});

export const claimCancel = claimAgainst(stopped(CANCEL, cancel(CLAIMED_AT, job.id)));

/** Not the product's: a cancel that looks into all tables at once. */
export const claimCancelAtOnce = claimAgainst(stopped(4, cancelAtOnce(CLAIMED_AT, job.id)));

export const settleReclaim: Race = {
  before: running,
  actors: {
    settle: stopped(HOT, settle(EXPIRED_AT, done(fence))),
    reclaim: stopped(RECLAIM, reclaim(EXPIRED_AT)),
  },
  outcomes: ["settle done; reclaim nothing: done", "settle nothing; reclaim retry: retry"],
};

/** An outcome that needs a decision is settled in several statements. */
export const retryReclaim: Race = {
  before: running,
  actors: {
    settle: stopped(HOT, settle(EXPIRED_AT, retry(fence))),
    reclaim: stopped(RECLAIM, reclaim(EXPIRED_AT)),
  },
  outcomes: ["settle retry; reclaim nothing: retry", "settle nothing; reclaim retry: retry"],
};

/** One statement that ends an attempt whose lease has run out, and claims the next job. */
export const turnReclaim: Race = {
  before: [...running, enqueue(CLAIMED_AT, other)],
  actors: {
    turn: stopped(HOT + 1, turn(EXPIRED_AT, [done(fence)], upTo(1, { worker: "w1" }))),
    reclaim: stopped(RECLAIM, reclaim(EXPIRED_AT)),
  },
  outcomes: [
    "turn done claimed at 1; reclaim nothing: done and with w1",
    "turn claimed at 1; reclaim retry: retry and with w1",
  ],
};

export const extendReclaim: Race = {
  before: running,
  actors: {
    extend: stopped(HOT, extend(EXPIRED_AT, fence)),
    reclaim: stopped(RECLAIM, reclaim(EXPIRED_AT)),
  },
  outcomes: ["extend extended; reclaim nothing: with w1", "extend nothing; reclaim retry: retry"],
};

export const extendSettle: Race = {
  before: running,
  actors: {
    extend: stopped(HOT, extend(EXPIRED_AT, fence)),
    settle: stopped(HOT, settle(EXPIRED_AT, done(fence))),
  },
  outcomes: ["extend extended; settle done: done", "extend nothing; settle done: done"],
};

/** Locks the second lease first: outcomes that need a decision go before the others. */
export const extendSettleMany: Race = {
  before: bothRun,
  actors: {
    extend: stopped(HOT, extend(EXPIRED_AT, ...fences)),
    settle: stopped(HOT + 2, settle(EXPIRED_AT, done(fences[0]!), retry(fences[1]!))),
  },
  outcomes: [
    "extend extended extended; settle retry done: done and retry",
    "extend extended; settle retry done: done and retry",
    "extend nothing; settle retry done: done and retry",
  ],
};

export const extendCancel: Race = {
  before: running,
  actors: {
    extend: stopped(HOT, extend(EXPIRED_AT, fence)),
    cancel: stopped(CANCEL, cancel(EXPIRED_AT, job.id)),
  },
  outcomes: [
    "extend extended; cancel processing: to be cancelled by w1",
    "extend told to stop; cancel processing: to be cancelled by w1",
  ],
};

export const settleCancel: Race = {
  before: running,
  actors: {
    settle: stopped(HOT, settle(EXPIRED_AT, done(fence))),
    cancel: stopped(CANCEL, cancel(EXPIRED_AT, job.id)),
  },
  outcomes: ["settle done; cancel done: done", "settle cancelled; cancel processing: cancelled"],
};

export const promoteCancel: Race = {
  before: [enqueue(START_AT, { ...job, start: { delayMs: HOUR_MS } })],
  actors: {
    promote: stopped(PROMOTE, promote(START_AT + HOUR_MS)),
    cancel: stopped(CANCEL, cancel(START_AT + HOUR_MS, job.id)),
  },
  outcomes: [
    "promote moved 1; cancel cancelled: cancelled",
    "promote moved 0; cancel cancelled: cancelled",
  ],
};

/** The job comes back to a table that the cancel has already looked into. */
export const cancelBehindItsBack: Race = {
  before: pending,
  actors: {
    worker: moving(
      2,
      "between verbs",
      claim(CLAIMED_AT, "w1"),
      settle(CLAIMED_AT, released(fence)),
    ),
    cancel: stopped(CANCEL + 3, cancel(CLAIMED_AT, job.id)), // it looks once more
  },
  outcomes: [
    "worker nothing, nothing; cancel cancelled: cancelled",
    "worker claimed at 1, cancelled; cancel processing: cancelled",
    "worker claimed at 1, pending; cancel cancelled: cancelled",
  ],
};

/** The lease is taken back, and the job given to a worker, which extends its lease in turn. */
const takenOver = (worker: string): Actor =>
  moving(
    8,
    "at commits",
    reclaim(EXPIRED_AT),
    promote(AGAIN_AT),
    claim(AGAIN_AT, worker),
    extend(AGAIN_AT, { id: job.id, worker, epoch: 2 }),
  );

/** A worker was away for so long that its job was given to another worker, or to itself again. */
export const zombieSettles = (worker: string): Race => ({
  before: running,
  actors: {
    zombie: stopped(HOT, settle(AGAIN_AT, done(fence))),
    upkeep: takenOver(worker),
  },
  outcomes: [
    "zombie done; upkeep nothing, moved 0, nothing, nothing: done",
    `zombie nothing; upkeep retry, moved 1, claimed at 2, extended: with ${worker}`,
  ],
});

export const zombieExtends = (worker: string): Race => ({
  before: running,
  actors: {
    zombie: stopped(HOT, extend(AGAIN_AT, fence)),
    upkeep: takenOver(worker),
  },
  outcomes: [
    "zombie extended; upkeep nothing, moved 0, nothing, nothing: with w1",
    `zombie nothing; upkeep retry, moved 1, claimed at 2, extended: with ${worker}`,
  ],
});

const keyed = (): Verb => enqueue(CLAIMED_AT, newJob({ key: "invoice-7" }));

/** Looks for its id and asks for the key; reads who has it; adds the job; commits. */
const ENQUEUE = 4;

export const enqueueEnqueue: Race = {
  before: [],
  actors: { one: stopped(ENQUEUE, keyed()), two: stopped(ENQUEUE, keyed()) },
  outcomes: ["one added; two found: pending", "one found; two added: pending"],
};

export const enqueueSettle: Race = {
  before: [enqueue(START_AT, { ...job, key: "invoice-7" }), claim(CLAIMED_AT, "w1")],
  actors: {
    enqueue: stopped(ENQUEUE + 2, keyed()), // and asks once more
    settle: stopped(HOT, settle(CLAIMED_AT, done(fence))),
  },
  outcomes: ["enqueue added; settle done: done and pending", "enqueue found; settle done: done"],
};

// ── Flows ────────────────────────────────────────────────────────────────────────────────────────────────────

/** Two jobs that run, and one that waits for both. */
const [first, second] = [newJob(member()), newJob(member())];
const joined = newJob(member([first.id, second.id]));
const joining = [
  enqueueMembers(START_AT, first, second, joined),
  claim(CLAIMED_AT, "w1", { limit: 2 }),
];
const ends = [first, second].map(({ id }) => ({ id, worker: "w1", epoch: 1 }));
const [endOfFirst, endOfSecond] = ends as [(typeof ends)[0], (typeof ends)[0]];

/** Looks which jobs wait, locks them, commits: it has locked the row of its job before. */
const END = 4;
/** Looks whether the job has ended, commits: it has locked the row of that job before. */
const ADD = 3;

function inFlow(pieces: number, ...verbs: Verb[]): Actor {
  return { pieces, stops: "in flows", verbs, pretends: 1 };
}

/** The last end starts the job, whichever it is. */
export const endEnd: Race = {
  before: joining,
  actors: {
    one: inFlow(END, settleAwaited(CLAIMED_AT, done(endOfFirst))),
    two: inFlow(END, settleAwaited(CLAIMED_AT, done(endOfSecond))),
  },
  outcomes: ["one done; two done: done and done and pending"],
};

/** Both would end the job that waits; it ends once. */
export const failureFailure: Race = {
  before: joining,
  actors: {
    one: inFlow(END, settleAwaited(CLAIMED_AT, failed(endOfFirst))),
    two: inFlow(END, settleAwaited(CLAIMED_AT, failed(endOfSecond))),
  },
  outcomes: ["one failed; two failed: failed and failed and failed"],
};

export const endFailure: Race = {
  before: joining,
  actors: {
    one: inFlow(END, settleAwaited(CLAIMED_AT, done(endOfFirst))),
    two: inFlow(END, settleAwaited(CLAIMED_AT, failed(endOfSecond))),
  },
  outcomes: ["one done; two failed: done and failed and failed"],
};

const alone = newJob(member());
const aloneRuns = [enqueueMembers(START_AT, alone), claim(CLAIMED_AT, "w1")];
const endOfAlone = { id: alone.id, worker: "w1", epoch: 1 };
const added = newJob(member([alone.id]));

/** A job that is added while the one it waits for ends starts, before or after. */
export const endAdd: Race = {
  before: aloneRuns,
  actors: {
    end: inFlow(END - 1, settleAwaited(CLAIMED_AT, done(endOfAlone))),
    add: inFlow(ADD, enqueueMembers(CLAIMED_AT, added)),
  },
  outcomes: ["end done; add added: done and pending"],
};

export const failureAdd: Race = {
  before: aloneRuns,
  actors: {
    end: inFlow(END - 1, settleAwaited(CLAIMED_AT, failed(endOfAlone))),
    add: inFlow(ADD, enqueueMembers(CLAIMED_AT, added)),
  },
  outcomes: ["end failed; add added: failed and failed"],
};

const waiter = newJob(member([alone.id]));

/** A waiting job that is cancelled while the one it waits for ends is cancelled. */
export const endCancel: Race = {
  before: [enqueueMembers(START_AT, alone, waiter), claim(CLAIMED_AT, "w1")],
  actors: {
    end: inFlow(END, settleAwaited(CLAIMED_AT, done(endOfAlone))),
    cancel: { ...stopped(CANCEL - 2, cancel(CLAIMED_AT, waiter.id)), pretends: 2 },
  },
  outcomes: ["end done; cancel cancelled: done and cancelled"],
};

/** Belongs to no flow, so its end is left to maintenance; of the two that the job waits for, it has ended. */
const outside = newJob();
const still = newJob({ ...member(), queue: "later" });
const half = newJob(member([outside.id, still.id]));

/** Two workers that do the maintenance at once count an end once. */
export const sweepSweep: Race = {
  before: [
    enqueueMembers(START_AT, still),
    enqueue(START_AT, outside),
    enqueueMembers(START_AT, half),
    claim(CLAIMED_AT, "w1"),
    settle(CLAIMED_AT, done({ id: outside.id, worker: "w1", epoch: 1 })),
  ],
  actors: {
    one: inFlow(END - 1, sweepEnds(CLAIMED_AT, outside.id)),
    two: inFlow(END - 1, sweepEnds(CLAIMED_AT, outside.id)),
  },
  outcomes: ["one ; two : done and pending and waiting"],
};

// ── Limits ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Locks the queue's gate; counts; takes; commits. */
const RULED = 4;

function inLimits(pieces: number, ...verbs: Verb[]): Actor {
  return { pieces, stops: "in limits", verbs, pretends: 1 };
}

const oneAtOnce = setRules(START_AT, { concurrency: 1 });

/** Two claims under one gate: it is locked, and what runs is counted after that. */
const claimsUnderOne = (pieces: number): Race => ({
  before: [oneAtOnce, enqueue(START_AT, job, other)],
  actors: {
    one: inLimits(pieces, claimRuled(CLAIMED_AT, "w1", { limit: 2 })),
    two: inLimits(pieces, claimRuled(CLAIMED_AT, "w2", { limit: 2 })),
  },
  limits: { queue: 1 },
  outcomes: [
    "one claimed at 1; two nothing: with w1 and pending",
    "one nothing; two claimed at 1: with w2 and pending",
  ],
});

export const gateGate = claimsUnderOne(RULED);

/** Not the product's: claims that lock and count in one statement. */
export const gateGateAtOnce = claimsUnderOne(RULED - 1);

/** One runs whose lease has ended, and another waits for its place. */
const oneIsLate = [oneAtOnce, enqueue(START_AT, job, other), claimRuled(CLAIMED_AT, "w1")];

/** A place is free when the lease is taken back, not when it ends. */
export const gateReclaim: Race = {
  before: oneIsLate,
  actors: {
    claim: inLimits(RULED - 1, claimRuled(EXPIRED_AT, "w2")),
    reclaim: stopped(RECLAIM, reclaim(EXPIRED_AT)),
  },
  limits: { queue: 1 },
  outcomes: [
    "claim nothing; reclaim retry: retry and pending",
    "claim claimed at 1; reclaim retry: retry and with w2",
  ],
};

/** A worker whose heartbeat is late goes on, and no other worker has taken its place. */
export const gateExtend: Race = {
  before: oneIsLate,
  actors: {
    claim: inLimits(RULED - 1, claimRuled(EXPIRED_AT, "w2")),
    extend: stopped(HOT, extend(EXPIRED_AT, fence)),
  },
  limits: { queue: 1 },
  outcomes: ["claim nothing; extend extended: with w1 and pending"],
};

/** Two places, of which one is taken. */
const oneOfTwo = [
  setRules(START_AT, { concurrency: 2 }),
  enqueue(START_AT, job, other),
  claimRuled(CLAIMED_AT, "w1"),
];

/** Locks the queue's settings; marks leases; commits. */
const RULE = 3;

/** A lower limit binds every claim that begins after it. */
export const gateRule: Race = {
  before: oneOfTwo,
  actors: {
    claim: inLimits(RULED, claimRuled(EXPIRED_AT, "w2")),
    change: { ...inLimits(RULE, setRules(EXPIRED_AT, { concurrency: 1 })), pretends: 0 },
  },
  ordered: {
    actors: ["change", "claim"],
    outcome: "claim nothing; change set: with w1 and pending",
  },
  outcomes: [
    "claim nothing; change set: with w1 and pending",
    "claim claimed at 1; change set: with w1 and with w2",
  ],
};

/** No claim that begins after the pause takes a job. */
export const gatePause: Race = {
  before: oneOfTwo,
  actors: {
    claim: inLimits(RULED, claimRuled(EXPIRED_AT, "w2")),
    pause: inLimits(RULE - 1, pause(EXPIRED_AT)),
  },
  ordered: {
    actors: ["pause", "claim"],
    outcome: "claim nothing; pause set: with w1 and pending",
  },
  outcomes: [
    "claim nothing; pause set: with w1 and pending",
    "claim claimed at 1; pause set: with w1 and with w2",
  ],
};

const inLane = (lane: string) => newJob({ lane });

const eachLaneOne = setRules(START_AT, { kind: "lanes", concurrency: 1 });

/** The gate of a lane is made by the first claim, here by two at once. */
export const newGate: Race = {
  before: [eachLaneOne, enqueue(START_AT, inLane("a"), inLane("a"))],
  actors: {
    one: inLimits(RULED, claimRuled(CLAIMED_AT, "w1", { limit: 2 })),
    two: inLimits(RULED, claimRuled(CLAIMED_AT, "w2", { limit: 2 })),
  },
  limits: { lane: 1 },
  outcomes: [
    "one claimed at 1; two nothing: with w1 and pending",
    "one nothing; two claimed at 1: with w2 and pending",
  ],
};

/** Two claims that visit two lanes in different orders, and find each of them full. */
export const ringRing: Race = {
  before: [
    eachLaneOne,
    enqueue(START_AT, inLane("a"), inLane("a"), inLane("b"), inLane("b")),
    claimRuled(CLAIMED_AT, "w1", { limit: 4 }),
  ],
  actors: {
    one: inLimits(RULED, claimRuled(CLAIMED_AT, "w2", { cursor: "" })),
    two: inLimits(RULED, claimRuled(CLAIMED_AT, "w3", { cursor: "a" })),
  },
  limits: { lane: 1 },
  outcomes: ["one nothing; two nothing: with w1 and pending and with w1 and pending"],
};
