/** What the overview says about every situation, and about two at once: a verdict never hides what is worse. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { findingsOf, type Kind, RANKS } from "../../page/pages/situations.ts";
import type { Alert, Overview, OverviewQueue, OverviewWorker } from "../../page/api.gen.ts";

const NOW = 1_790_000_000_000;
const MINUTE_MS = 60_000;

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

function queue(name: string, some: Partial<OverviewQueue> = {}, pending = 0): OverviewQueue {
  return {
    queue: name,
    counts: { ...NO_COUNTS, pending },
    oldestPendingAt: pending === 0 ? null : NOW - 1_000,
    paused: null,
    running: 0,
    slots: 4,
    served: true,
    concurrency: null,
    inPerSecond: 0,
    outPerSecond: 0,
    failedHour: 0,
    spark: [],
    ...some,
  };
}

function worker(liveness: OverviewWorker["liveness"]): OverviewWorker {
  return {
    id: `shop-${liveness}`,
    type: "shop",
    running: 0,
    concurrency: 4,
    status: "running",
    desiredState: "run",
    liveness,
    version: "1",
  };
}

function alert(severity: Alert["severity"]): Alert {
  return {
    id: severity,
    rule: `rule-${severity}`,
    subject: "mail",
    severity,
    status: "raised",
    message: `Something ${severity}.`,
    facts: {},
    sinceAt: NOW,
    seenAt: NOW,
    raisedAt: NOW,
    resolvedAt: null,
  };
}

type Change = (overview: Overview) => Overview;

const withQueue =
  (row: OverviewQueue): Change =>
  (all) => ({
    ...all,
    queues: [...all.queues, row],
    figures: { ...all.figures, pending: all.figures.pending + row.counts.pending },
  });

const withAlert =
  (severity: Alert["severity"]): Change =>
  (all) => ({
    ...all,
    alerts: [...all.alerts, alert(severity)],
    alertsOpen: { ...all.alertsOpen, [severity]: 1 },
  });

const WELL: Overview = {
  at: NOW,
  countedAt: NOW,
  figures: {
    endedPerSecond: 1,
    usualLow: null,
    usualHigh: null,
    succeeded: 1,
    succeededBefore: null,
    pickupP50Ms: 1,
    pickupP99Ms: 2,
    pending: 0,
    running: 0,
    slots: 4,
    workers: 1,
    builds: ["1"],
    failedHour: 0,
    recovered: 0,
    errorKinds: 0,
    errorKindsNew: 0,
  },
  queues: [queue("orders")],
  queuesLeftOut: 0,
  workers: [worker("alive")],
  alerts: [],
  alertsOpen: { critical: 0, warning: 0, info: 0 },
  canaries: [],
  failed: [],
  isEmpty: false,
  pausedAll: false,
};

const BY_ADA = { at: NOW - MINUTE_MS, by: "ada", reason: null };

/** How each situation comes about, and its sentence. */
const SITUATIONS: Readonly<Record<Kind, readonly [Change, RegExp]>> = {
  "no-worker": [
    (all) => ({
      ...all,
      workers: all.workers.filter(({ liveness }) => liveness !== "alive"),
      queues: all.queues.map((row) => ({ ...row, slots: 0, served: false })),
      figures: { ...all.figures, workers: 0, slots: 0, builds: [] },
    }),
    /^No worker runs/,
  ],
  critical: [withAlert("critical"), /^Something critical\.$/],
  unserved: [
    withQueue(queue("mail", { slots: 0, served: false }, 3)),
    /^No worker serves queue mail: 3 jobs wait, the oldest for 1 s\.$/,
  ],
  silent: [
    (all) => ({ ...all, workers: [...all.workers, worker("hung")] }),
    /^shop-hung does not answer\.$/,
  ],
  "all-paused": [
    (all) => ({
      ...all,
      pausedAll: true,
      queues: all.queues.map((row) => ({ ...row, paused: BY_ADA })),
    }),
    /^Everything is paused: \d+ jobs? waits?\.$/,
  ],
  paused: [
    withQueue(queue("reports", { paused: BY_ADA }, 1)),
    /^Queue reports is paused: 1 job waits, the oldest for 1 s\.$/,
  ],
  "workers-paused": [
    withQueue(queue("billing", { served: false }, 2)),
    /^The workers of queue billing take no jobs: 2 jobs wait/,
  ],
  warning: [withAlert("warning"), /^Something warning\.$/],
  canary: [
    (all) => ({
      ...all,
      canaries: [{ queue: "orders", sentAt: NOW - 2 * MINUTE_MS, pickupMs: null, doneMs: null }],
    }),
    /^The canary of orders was not picked up\.$/,
  ],
  late: [
    withQueue(queue("images", { oldestPendingAt: NOW - 2 * MINUTE_MS }, 9)),
    /^Queue images is behind: 9 jobs wait, the oldest for 2 min\.$/,
  ],
  failed: [
    (all) => ({ ...all, figures: { ...all.figures, failedHour: 5 } }),
    /^5 jobs failed for good in the last hour\.$/,
  ],
  "paused-idle": [
    withQueue(queue("letters", { paused: BY_ADA })),
    /^Queue letters is paused\. No job waits in it\.$/,
  ],
  uncounted: [
    (all) => ({ ...all, countedAt: NOW - 10 * MINUTE_MS }),
    /^Jobs were last counted 10 min ago\.$/,
  ],
  info: [withAlert("info"), /^Something info\.$/],
};

/** They are about one queue of several, so not every queue is paused. */
const ONE_QUEUE = new Set<Kind>(["unserved", "paused", "workers-paused", "late", "paused-idle"]);

const areApart = (some: readonly Kind[]): boolean =>
  some.includes("all-paused") && some.some((kind) => ONE_QUEUE.has(kind));

const kindsIn = (overview: Overview): Kind[] => findingsOf(overview, NOW).map(({ kind }) => kind);

describe("the verdict of the overview", () => {
  test("nothing is found where all is well, or where the database is new and has no worker yet", () => {
    assert.deepEqual(kindsIn(WELL), []);
    const [without] = SITUATIONS["no-worker"];
    assert.deepEqual(kindsIn(without({ ...WELL, isEmpty: true })), []);
  });

  for (const kind of RANKS) {
    test(`${kind} is found, and told in a sentence`, () => {
      const [change, sentence] = SITUATIONS[kind];
      const [found, ...others] = findingsOf(change(WELL), NOW);
      assert.equal(found?.kind, kind);
      assert.match(found.title, sentence);
      assert.match(found.brief, /^[^.]+$/);
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
    assert.match(findingsOf(silent, NOW)[0]?.title ?? "", /^No worker answers: 20 jobs wait\.$/);
    const served = gone.queues.map((row) => ({ ...row, served: true }));
    assert.deepEqual(kindsIn({ ...gone, queues: served }), []);
  });

  test("with all workers gone, one paused queue and alerts, no worker comes first and nothing is left out", () => {
    const [without] = SITUATIONS["no-worker"];
    const paused = withQueue(queue("mail", { paused: BY_ADA }, 1));
    const unserved = withQueue(queue("orders-2", {}, 40));
    const found = findingsOf(withAlert("critical")(without(unserved(paused(WELL)))), NOW);
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
