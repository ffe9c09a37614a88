/** What is said about every situation, and about two at once: a verdict never hides what is worse. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  findingsOf,
  type Kind,
  RANKS,
  type Situation,
  statusOf,
} from "../../src/dashboard/status.ts";

const NOW = 1_790_000_000_000;
const MINUTE_MS = 60_000;

type QueueState = Situation["queues"][number];
type Worker = Situation["workers"][number];

const NO_COUNTS = {
  pending: 0,
  processing: 0,
  retry: 0,
  failed: 0,
  waiting: 0,
  scheduled: 0,
  done: 0,
  cancelled: 0,
  expired: 0,
};

function queue(name: string, some: Partial<QueueState> = {}, pending = 0): QueueState {
  return {
    queue: name,
    counts: { ...NO_COUNTS, pending },
    oldestPendingAt: pending === 0 ? null : NOW - 1_000,
    paused: null,
    slots: 4,
    served: true,
    ...some,
  };
}

function worker(liveness: Worker["liveness"], some: Partial<Worker> = {}): Worker {
  const queues = ["orders"];
  return { id: `shop-${liveness}`, type: "shop", queues, desiredState: "run", liveness, ...some };
}

type Change = (situation: Situation) => Situation;

const withQueue =
  (row: QueueState): Change =>
  (all) => ({
    ...all,
    queues: [...all.queues, row],
    figures: { ...all.figures, pending: all.figures.pending + row.counts.pending },
  });

const withAlert =
  (severity: "critical" | "warning" | "info"): Change =>
  (all) => ({
    ...all,
    alerts: [...all.alerts, { severity, message: `Something ${severity}.`, silencedUntil: null }],
  });

/** The worst there is, and it was silenced for another minute. */
const silenced: Change = (all) => ({
  ...all,
  alerts: [
    { severity: "critical", message: "Known.", silencedUntil: NOW + MINUTE_MS },
    ...all.alerts,
  ],
});

const WELL: Situation = {
  at: NOW,
  countedAt: NOW,
  figures: { pending: 0, running: 0, workers: 1, failedHour: 0 },
  queues: [queue("orders")],
  workers: [worker("alive")],
  alerts: [],
  canaries: [],
  isEmpty: false,
  pausedAll: false,
};

const BY_ADA = { at: NOW - MINUTE_MS, isOfAll: false };

/** How each situation comes about, and its sentence. */
const SITUATIONS: Readonly<Record<Kind, readonly [Change, RegExp, command: string]>> = {
  "no-worker": [
    (all) => ({
      ...all,
      workers: all.workers.filter(({ liveness }) => liveness !== "alive"),
      queues: all.queues.map((row) => ({ ...row, slots: 0, served: false })),
      figures: { ...all.figures, workers: 0 },
    }),
    /^No worker runs/,
    "holdfast work --tasks tasks.ts",
  ],
  critical: [withAlert("critical"), /^Something critical\.$/, "holdfast alerts"],
  unserved: [
    withQueue(queue("mail", { slots: 0, served: false }, 3)),
    /^No worker serves queue mail: 3 jobs wait, the oldest for 1s\.$/,
    "holdfast work --tasks tasks.ts --queue mail",
  ],
  silent: [
    (all) => ({ ...all, workers: [...all.workers, worker("hung")] }),
    /^shop-hung does not answer\.$/,
    "holdfast workers show shop-hung",
  ],
  "all-paused": [
    (all) => ({
      ...all,
      pausedAll: true,
      queues: [...all.queues, queue("letters")].map((row) => ({
        ...row,
        paused: { ...BY_ADA, isOfAll: true },
      })),
    }),
    /^Everything is paused: \d+ jobs? waits?\.$/,
    "holdfast queues resume --all",
  ],
  paused: [
    withQueue(queue("reports", { paused: BY_ADA }, 1)),
    /^Queue reports is paused: 1 job waits, the oldest for 1s\.$/,
    "holdfast queues resume reports",
  ],
  "workers-paused": [
    withQueue(queue("billing", { served: false }, 2)),
    /^The workers of queue billing take no jobs: 2 jobs wait/,
    "holdfast work --tasks tasks.ts --queue billing",
  ],
  warning: [withAlert("warning"), /^Something warning\.$/, "holdfast alerts"],
  canary: [
    (all) => ({
      ...all,
      canaries: [{ queue: "orders", sentAt: NOW - 2 * MINUTE_MS, pickupMs: null }],
    }),
    /^The canary of orders was not picked up\.$/,
    "holdfast explain --queue orders",
  ],
  late: [
    withQueue(queue("images", { oldestPendingAt: NOW - 2 * MINUTE_MS }, 9)),
    /^Queue images is behind: 9 jobs wait, the oldest for 2m\.$/,
    "holdfast explain --queue images",
  ],
  failed: [
    (all) => ({ ...all, figures: { ...all.figures, failedHour: 5 } }),
    /^5 jobs failed for good in the last hour\.$/,
    "holdfast errors",
  ],
  "paused-idle": [
    withQueue(queue("letters", { paused: BY_ADA })),
    /^Queue letters is paused\. No job waits in it\.$/,
    "holdfast queues resume letters",
  ],
  uncounted: [
    (all) => ({ ...all, countedAt: NOW - 10 * MINUTE_MS }),
    /^Jobs were last counted 10m ago\.$/,
    "holdfast stats --exact",
  ],
  info: [withAlert("info"), /^Something info\.$/, "holdfast alerts"],
  silenced: [silenced, /^Silenced: Known\.$/, "holdfast alerts"],
};

/** They are about one queue of several, so not every queue is paused. */
const ONE_QUEUE = new Set<Kind>(["unserved", "paused", "workers-paused", "late", "paused-idle"]);

const areApart = (some: readonly Kind[]): boolean =>
  some.includes("all-paused") && some.some((kind) => ONE_QUEUE.has(kind));

const kindsIn = (situation: Situation): Kind[] => findingsOf(situation).map(({ kind }) => kind);

describe("the verdict", () => {
  test("nothing is found where all is well, or where the database is new and has no worker yet", () => {
    assert.deepEqual(kindsIn(WELL), []);
    assert.equal(statusOf(WELL).isWell, true);
    const [without] = SITUATIONS["no-worker"];
    assert.deepEqual(kindsIn(without({ ...WELL, isEmpty: true })), []);
  });

  for (const kind of RANKS) {
    test(`${kind} is found, and told in a sentence, with a command`, () => {
      const [change, sentence, command] = SITUATIONS[kind];
      const [found, ...others] = findingsOf(change(WELL));
      assert.equal(found?.kind, kind);
      assert.match(found.title, sentence);
      assert.match(found.brief, /^[^.]+$/);
      assert.equal(found.command, command);
      assert.equal(statusOf(change(WELL)).isWell, false);
      assert.deepEqual(others, []);
    });
  }

  test("of any two, the worse is the title and the other is told beside it", () => {
    for (const [at, worse] of RANKS.entries()) {
      for (const other of RANKS.slice(at + 1)) {
        if (areApart([worse, other])) continue;
        // The rest of the database is changed first: "everything" is what there is then.
        const both = SITUATIONS[worse][0](SITUATIONS[other][0](WELL));
        const kinds = kindsIn(both);
        assert.equal(kinds[0], worse, `${worse} and ${other}`);
        const isSame = worse === "no-worker" && ["workers-paused", "late"].includes(other);
        if (!isSame) assert.ok(kinds.includes(other), `${other} is hidden by ${worse}`);
      }
    }
  });

  test("a worker that does not answer is none, and a queue that is served over HTTP has one", () => {
    const [without] = SITUATIONS["no-worker"];
    const gone = without(withQueue(queue("mail", {}, 20))(WELL));
    const silent = { ...gone, workers: [worker("stale")] };
    assert.match(findingsOf(silent)[0]?.title ?? "", /^No worker answers: 20 jobs wait\.$/);
    const served = gone.queues.map((row) => ({ ...row, served: true }));
    assert.deepEqual(kindsIn({ ...gone, queues: served }), []);
  });

  test("workers that are paused are resumed, and names are quoted for the shell", () => {
    const resting = worker("alive", {
      type: "night shift",
      queues: ["a b"],
      desiredState: "pause",
    });
    const row = queue("a b", { served: false }, 2);
    const told = findingsOf({ ...withQueue(row)(WELL), workers: [resting] });
    assert.equal(told[0]?.command, "holdfast workers resume --type 'night shift'");
    const [found] = findingsOf(withQueue(queue("a b", { paused: BY_ADA }))(WELL));
    assert.equal(found?.command, "holdfast queues resume 'a b'");
  });

  test("a silenced alert is never the title beside another, and is one again when its time is over", () => {
    const both = silenced(withAlert("info")(WELL));
    assert.deepEqual(
      findingsOf(both).map(({ kind, brief }) => [kind, brief]),
      [
        ["info", "1 notice"],
        ["silenced", "1 silenced"],
      ],
    );
    assert.deepEqual(kindsIn({ ...both, at: NOW + MINUTE_MS, countedAt: NOW + MINUTE_MS }), [
      "critical",
      "info",
    ]);
  });

  test("with all workers gone, one paused queue and alerts, no worker comes first and nothing is left out", () => {
    const [without] = SITUATIONS["no-worker"];
    const paused = withQueue(queue("mail", { paused: BY_ADA }, 1));
    const unserved = withQueue(queue("orders-2", {}, 40));
    const found = findingsOf(withAlert("critical")(without(unserved(paused(WELL)))));
    assert.deepEqual(
      found.map(({ title, brief }, at) => (at === 0 ? title : brief)),
      [
        "No worker runs: 41 jobs wait.",
        "1 critical alert",
        "1 queue with jobs and no worker",
        "1 paused queue with jobs",
      ],
    );
  });
});
