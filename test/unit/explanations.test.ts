/** Every reason of an explanation, with the sentence that it makes. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { Explanation, QueueExplanation } from "../../src/core/explanation.ts";
import type {
  FleetWorker,
  JobFacts,
  JobState,
  LimitFacts,
  QueueFacts,
  WaitFacts,
} from "../../src/explain/obstacles.ts";
import { explainJob, explainQueue } from "../../src/explain/explain.ts";
import { jobFacts, queueFacts } from "../../src/explain/shapes.ts";

const NOW = Date.UTC(2027, 0, 31, 9, 0, 7);
const MINUTE = 60_000;

const NONE = { count: 0, isMore: false };
const IDLE: FleetWorker = {
  id: "w1",
  queues: ["mail"],
  tasks: ["mail.send"],
  isLive: true,
  isPaused: false,
  heartbeatAt: NOW,
  concurrency: 10,
  leases: 0,
};

const FULL = { ...IDLE, leases: 10 };

function job(facts: Partial<JobState> = {}, more: Partial<JobFacts> = {}): JobFacts {
  return {
    now: NOW,
    job: {
      id: "j1",
      queue: "mail",
      task: "mail.send",
      lane: null,
      status: "pending",
      attempts: 0,
      maxAttempts: 3,
      dueAt: null,
      startBy: null,
      lockedBy: null,
      lockedUntil: null,
      claimedAt: null,
      cancelRequestedAt: null,
      finishedAt: null,
      error: null,
      ...facts,
    },
    lastError: null,
    waits: null,
    fleet: [IDLE],
    queue: null,
    limits: [],
    before: NONE,
    ...more,
  };
}

const waits = (facts: Partial<WaitFacts>): Partial<JobFacts> => ({
  waits: { missing: 0, jobs: [], events: [], effects: [], ...facts },
});

const limit = (facts: Partial<LimitFacts>): LimitFacts => ({
  queue: "mail",
  of: "queue",
  name: null,
  concurrency: null,
  running: 0,
  longest: null,
  rate: null,
  rateFreeAt: null,
  ...facts,
});

const claimed = {
  status: "processing",
  attempts: 1,
  lockedBy: "w1",
  claimedAt: NOW - 3 * MINUTE,
  lockedUntil: NOW + 30_000,
} as const;

const longest = { job: "j0", task: "mail.send", worker: "w2", claimedAt: NOW - 3 * MINUTE };

/** The reason, the facts, and the whole sentence. */
const JOBS: readonly [Explanation["reason"], JobFacts, string][] = [
  [
    "running",
    job(claimed),
    "Worker w1 has been running it for 3m (attempt 1 of 3), under a lease until 2027-01-31 09:00:37 UTC, in 30s.",
  ],
  [
    "cancelling",
    job({ ...claimed, cancelRequestedAt: NOW - 12_000 }),
    "Worker w1 has been running it for 3m, and was asked 12s ago to cancel it.",
  ],
  [
    "lease-expired",
    job({ ...claimed, lockedUntil: NOW - 12_000 }),
    "It was claimed, but the lease of worker w1 expired 12s ago: the next worker that runs maintenance reclaims the job.",
  ],
  [
    "ended",
    job({ status: "done", attempts: 1, finishedAt: NOW - MINUTE }),
    "It is done: attempt 1 of 3 succeeded 1m ago.",
  ],
  [
    "ended",
    job({ status: "failed", attempts: 3, finishedAt: NOW - MINUTE, error: "no such user.\nmore" }),
    "It failed in attempt 3 of 3, 1m ago: no such user.",
  ],
  [
    "ended",
    job({ status: "failed", finishedAt: NOW, error: "Job j0, which it waited for, failed." }),
    "It failed before it started, just now: Job j0, which it waited for, failed.",
  ],
  ["ended", job({ status: "cancelled", finishedAt: NOW - MINUTE }), "It was cancelled 1m ago."],
  [
    "expired",
    job({ status: "expired", finishedAt: NOW - MINUTE }),
    "It expired 1m ago, because no worker had started it in time.",
  ],
  [
    "expired",
    job({ startBy: NOW - 1_000 }),
    "It has expired: it had to start by 2027-01-31 09:00:06 UTC, 1s ago, and no worker had started it.",
  ],
  [
    "scheduled",
    job({ status: "scheduled", dueAt: NOW + 5 * MINUTE }),
    "It is scheduled for 2027-01-31 09:05:07 UTC, in 5m.",
  ],
  [
    "due",
    job({ status: "scheduled", dueAt: NOW - 2_000 }),
    "It was due at 2027-01-31 09:00:05 UTC, 2s ago, and becomes pending when a worker next runs maintenance.",
  ],
  [
    "no-worker",
    job({ status: "scheduled", dueAt: NOW - 2_000 }, { fleet: [] }),
    "No worker is running.",
  ],
  [
    "backing-off",
    job(
      { status: "retry", attempts: 2, maxAttempts: 5, dueAt: NOW + 30_000 },
      { lastError: "the mail server said no" },
    ),
    'Attempt 2 of 5 failed with "the mail server said no"; the next attempt starts at 2027-01-31 09:00:37 UTC, in 30s.',
  ],
  [
    "waits-for-jobs",
    job(
      { status: "waiting" },
      waits({ missing: 1, jobs: [{ id: "j0", task: "pack", status: "processing" }] }),
    ),
    "It waits for job j0 (task 'pack', processing) to end.",
  ],
  [
    "waits-for-jobs",
    job(
      { status: "waiting" },
      waits({
        missing: 12,
        jobs: [
          { id: "j0", task: "pack", status: "pending" },
          { id: "j2", task: null, status: null },
        ],
      }),
    ),
    "It waits for 12 jobs to end, among them j0 (task 'pack', pending) and j2 (deleted).",
  ],
  [
    "waits-for-event",
    job({ status: "waiting" }, waits({ events: [{ name: "paid", key: "order-7" }] })),
    "It waits for the event 'paid' with the key 'order-7'.",
  ],
  [
    "waits-for-event",
    job(
      { status: "waiting", dueAt: NOW + 5 * MINUTE },
      waits({
        events: [
          { name: "paid", key: "7" },
          { name: "refused", key: "7" },
        ],
      }),
    ),
    "It waits for one of the events 'paid' with the key '7' and 'refused' with the key '7', until 2027-01-31 09:05:07 UTC, in 5m, at the latest.",
  ],
  [
    "sleeping",
    job({ status: "waiting", dueAt: NOW + 5 * MINUTE }, waits({})),
    "It sleeps until 2027-01-31 09:05:07 UTC, in 5m.",
  ],
  [
    "sleeping",
    job(
      { status: "waiting", dueAt: NOW + 5 * MINUTE },
      { ...waits({}), lastError: "the shop is closed" },
    ),
    "It is postponed until 2027-01-31 09:05:07 UTC, in 5m: the shop is closed.",
  ],
  [
    "effect-in-doubt",
    job(
      { status: "waiting" },
      waits({ effects: [{ name: "charge", occurrence: 1, begunAt: NOW - MINUTE }] }),
    ),
    "It waits for an operator: its effect 'charge' began 1m ago, and it is unknown whether it happened.",
  ],
  [
    "stuck",
    job({ status: "waiting" }, waits({})),
    "It waits, but no time, event, job or effect is recorded that it waits for; run 'holdfast doctor' to find out more.",
  ],
  [
    "paused",
    job(
      {},
      {
        queue: { lane: null, pausedAt: NOW - MINUTE, pausedBy: "ada", pauseReason: "gateway down" },
      },
    ),
    "Its queue 'mail' is paused: ada paused it 1m ago, with the reason \"gateway down\".",
  ],
  [
    "paused",
    job(
      { lane: "acme" },
      { queue: { lane: "acme", pausedAt: NOW - MINUTE, pausedBy: "ada", pauseReason: null } },
    ),
    "Its lane 'acme' in the queue 'mail' is paused: ada paused it 1m ago.",
  ],
  [
    "no-worker",
    job({}, { fleet: [{ ...IDLE, isLive: false, heartbeatAt: NOW - MINUTE }] }),
    "No worker is running; worker w1, which could take it, sent its last heartbeat 1m ago.",
  ],
  [
    "no-worker",
    job({}, { fleet: [{ ...IDLE, queues: ["default"] }] }),
    "No live worker serves its queue 'mail'; the workers that know the task 'mail.send' serve 'default'.",
  ],
  [
    "no-worker",
    job({}, { fleet: [{ ...IDLE, tasks: ["pack"] }] }),
    "No live worker of the queue 'mail' knows the task 'mail.send'.",
  ],
  [
    "no-worker",
    job({ task: "mail.send@3" }, { fleet: [{ ...IDLE, tasks: ["mail.send", "mail.send@2"] }] }),
    "No live worker of the queue 'mail' knows the task 'mail.send@3' in this version; they know 'mail.send' and 'mail.send@2'.",
  ],
  [
    "workers-paused",
    job({}, { fleet: [{ ...IDLE, isPaused: true }] }),
    "Worker w1, the only one that could run it, is paused.",
  ],
  [
    "workers-paused",
    job({}, { fleet: [1, 2].map((n) => ({ ...IDLE, id: `w${n}`, isPaused: true })) }),
    "Both workers that could run it are paused.",
  ],
  [
    "concurrency-limit",
    job({}, { limits: [limit({ concurrency: 5, running: 5, longest })] }),
    "Its queue 'mail' runs at most 5 jobs at the same time, and 5 are running: the longest is job j0, which worker w2 has been running for 3m.",
  ],
  [
    "concurrency-limit",
    job(
      { lane: "acme" },
      { limits: [limit({ of: "lane", name: "acme", concurrency: 1, running: 1, longest })] },
    ),
    "Its lane 'acme' in the queue 'mail' runs at most 1 job at the same time, and 1 is running: job j0, which worker w2 has been running for 3m.",
  ],
  [
    "concurrency-limit",
    job({}, { limits: [limit({ of: "task", name: "mail.send", concurrency: 0 })] }),
    "Its task 'mail.send' in the queue 'mail' has a limit of 0, so no job may start.",
  ],
  [
    "rate-limit",
    job(
      {},
      {
        limits: [
          limit({ concurrency: 5, running: 4 }),
          limit({
            of: "lane",
            name: "acme",
            rate: { count: 5, periodMs: 1_000, burst: 1 },
            rateFreeAt: NOW + 200,
          }),
        ],
      },
    ),
    "Its lane 'acme' in the queue 'mail' starts at most 5 jobs in 1s, and the next may start at 2027-01-31 09:00:07 UTC, in 200ms.",
  ],
  [
    "workers-busy",
    job({}, { fleet: [FULL] }),
    "It is next, but worker w1, the only one that could run it, runs 10 jobs, as many as it may.",
  ],
  [
    "workers-busy",
    job({}, { fleet: [FULL, { ...FULL, id: "w2" }] }),
    "It is next, but the 2 workers that could run it already run 20 jobs, as many as they may.",
  ],
  [
    "behind",
    job({}, { before: { count: 1, isMore: false } }),
    "1 job comes before it in the queue 'mail'.",
  ],
  [
    "behind",
    job(
      { lane: "acme" },
      { before: { count: 1_000, isMore: true }, fleet: [FULL, { ...FULL, id: "w2" }] },
    ),
    "More than 1,000 jobs come before it in its lane 'acme' of the queue 'mail', and the 2 workers that could run it already run 20 jobs, as many as they may.",
  ],
  ["next", job(), "Nothing holds it back: the next worker that polls the queue claims it."],
];

const queue = (facts: Partial<QueueFacts> = {}): QueueFacts => ({
  now: NOW,
  name: "mail",
  queue: null,
  fleet: [IDLE],
  limits: [],
  running: NONE,
  pending: { count: 12, isMore: false },
  first: job(),
  ...facts,
});

const QUEUES: readonly [QueueExplanation["reason"], QueueFacts, string][] = [
  [
    "paused",
    queue({ queue: { lane: null, pausedAt: NOW - MINUTE, pausedBy: "ada", pauseReason: null } }),
    "The queue 'mail' is paused: ada paused it 1m ago.",
  ],
  [
    "empty",
    queue({ pending: NONE, running: { count: 3, isMore: false }, fleet: [] }),
    "The queue 'mail' has no pending jobs; 3 jobs are running.",
  ],
  ["empty", queue({ pending: NONE }), "The queue 'mail' has no pending jobs."],
  ["no-worker", queue({ fleet: [] }), "No worker is running."],
  [
    "no-worker",
    queue({ fleet: [{ ...IDLE, queues: ["default"] }] }),
    "No live worker serves the queue 'mail'.",
  ],
  [
    "workers-paused",
    queue({ fleet: [{ ...IDLE, isPaused: true }] }),
    "Worker w1, the only one that serves it, is paused.",
  ],
  [
    "concurrency-limit",
    queue({ limits: [limit({ concurrency: 2, running: 2, longest })] }),
    "The queue 'mail' runs at most 2 jobs at the same time, and 2 are running: the longest is job j0, which worker w2 has been running for 3m.",
  ],
  [
    "rate-limit",
    queue({
      limits: [limit({ rate: { count: 1, periodMs: 60_000, burst: 1 }, rateFreeAt: NOW + 30_000 })],
    }),
    "The queue 'mail' starts at most 1 job in 1m, and the next may start at 2027-01-31 09:00:37 UTC, in 30s.",
  ],
  [
    "held",
    queue({ first: job({}, { fleet: [{ ...IDLE, tasks: ["pack"] }] }) }),
    "Job j1, the first in the queue 'mail', does not start: no live worker of the queue 'mail' knows the task 'mail.send'.",
  ],
  [
    "workers-busy",
    queue({ fleet: [FULL, { ...FULL, id: "w2" }] }),
    "12 jobs are pending in the queue 'mail', and the 2 workers that serve it already run 20 jobs, as many as they may.",
  ],
  [
    "workers-busy",
    queue({ fleet: [FULL] }),
    "12 jobs are pending in the queue 'mail', and worker w1, the only one that serves it, runs 10 jobs, as many as it may.",
  ],
  [
    "moving",
    queue({ running: { count: 1, isMore: false }, pending: { count: 1_000, isMore: true } }),
    "More than 1,000 jobs are pending in the queue 'mail', and 1 job is running.",
  ],
  [
    "moving",
    queue({ pending: { count: 1, isMore: false } }),
    "1 job is pending in the queue 'mail', and workers are free to take it.",
  ],
];

suite("the explanation of a job", () => {
  for (const [reason, facts, sentence] of JOBS) {
    test(`${reason}: ${sentence}`, () => {
      const explanation = explainJob(facts);
      assert.deepEqual([explanation.reason, explanation.sentence], [reason, sentence]);
    });
  }

  test("has a sentence for every reason", () => {
    assert.deepEqual(new Set(JOBS.map(([reason]) => reason)), new Set(Object.keys(jobFacts)));
  });

  test("shows names and errors on one line, without characters that mislead", () => {
    const { sentence } = explainJob(
      job({
        status: "failed",
        attempts: 1,
        finishedAt: NOW,
        error: `a\u202Eb${"x".repeat(5_000)}`,
      }),
    );
    assert.match(sentence, /just now: a\\u202eb/);
    assert.ok(sentence.length < 300);
  });
});

suite("the explanation of a queue", () => {
  for (const [reason, facts, sentence] of QUEUES) {
    test(`${reason}: ${sentence}`, () => {
      const explanation = explainQueue(facts);
      assert.deepEqual([explanation.reason, explanation.sentence], [reason, sentence]);
    });
  }

  test("has a sentence for every reason", () => {
    assert.deepEqual(new Set(QUEUES.map(([reason]) => reason)), new Set(Object.keys(queueFacts)));
  });
});
