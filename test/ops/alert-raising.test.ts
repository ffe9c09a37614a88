/**
 * Every rule, on every database, with two monitors that see the same at the same moment: raised once, resolved once, by the clock of
 * the test.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { alertRules } from "../../src/alerts/rules.ts";
import { Doctor } from "../../src/doctor/doctor.ts";
import type { LockTimes } from "../../src/locks/stats.ts";
import type { Observation } from "../../src/monitoring/monitor.ts";
import { sighting } from "../support/alerts.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { silence, start, vitals } from "../support/workers.ts";
import { sites, type Site } from "./alert-site.ts";
import { canary, depth, finding, minutes, MINUTE_MS, offender } from "./alert-views.ts";

const STEP_MS = 30_000;
const QUIET_MS = MINUTE_MS;
const HEARTBEAT_MS = 10_000;
/** For so long the checks tell of a worker that was found dead. */
const FOUND_DEAD_FOR_MS = 10 * MINUTE_MS;
const LOOKS_MAX = 4;
const HOOK = "https://hooks.example.com/T0/B0/s3cret";

interface Scenario {
  readonly rule: string;
  readonly subject: string;
  /** How long it has to be seen. */
  readonly holdMs: number;
  readonly seen: (site: Site) => Partial<Observation>;
  /** What else is raised by the same. */
  readonly besides?: readonly string[];
}

const depths = (site: Site, ...queues: readonly ReturnType<typeof depth>[]) => ({
  counts: { countedAt: site.runtime.now(), tookMs: 5, queues },
});
const now = (site: Site): number => site.runtime.now();

function lockFigures(facts: Partial<LockTimes>): LockTimes {
  const waitMs = { average: 1, p50: 1, p95: 2, p99: 3 };
  return { type: "order", acquisitions: 100, timeouts: 0, waitMs, heldMsMax: 5, ...facts };
}

const scenarios: readonly Scenario[] = [
  {
    rule: "singleton-exceeded",
    subject: "billing",
    holdMs: 0,
    seen: () => ({ findings: [finding("worker-too-many", [offender("billing")])] }),
  },
  {
    rule: "worker-stale",
    subject: "mail-1",
    holdMs: MINUTE_MS,
    seen: () => ({ findings: [finding("worker-stale", [offender("mail-1")])] }),
  },
  {
    rule: "worker-hung",
    subject: "mail-1",
    holdMs: 2 * MINUTE_MS,
    seen: () => ({ findings: [finding("worker-hung", [offender("mail-1")])] }),
  },
  {
    rule: "version-drift",
    subject: "mail",
    holdMs: 10 * MINUTE_MS,
    seen: () => ({ findings: [finding("worker-version-drift", [offender("mail", 1)])] }),
  },
  {
    rule: "enqueuer-drift",
    subject: "build abc1234",
    holdMs: 10 * MINUTE_MS,
    seen: () => ({
      findings: [finding("enqueuer-version-drift", [offender("build abc1234", 1)], "info")],
    }),
  },
  {
    rule: "lease-expired",
    subject: "",
    holdMs: 0,
    seen: (site) => {
      const overAt = now(site) - MINUTE_MS;
      return { findings: [finding("lease-expired", [offender("j1", overAt), offender("j2")])] };
    },
  },
  {
    rule: "finding:orphan-step",
    subject: "orphan-step",
    holdMs: MINUTE_MS,
    seen: () => ({ findings: [finding("orphan-step", [offender("j1")])] }),
  },
  {
    rule: "finding:two-states",
    subject: "two-states",
    holdMs: 0,
    seen: () => ({ findings: [finding("two-states", [offender("j1")], "critical")] }),
  },
  {
    rule: "pending-old",
    subject: "mail",
    holdMs: 0,
    seen: (site) =>
      depths(site, depth("mail", { pending: 0, oldestPendingAt: now(site) - 5 * MINUTE_MS - 1 })),
  },
  {
    rule: "no-worker",
    subject: "mail",
    holdMs: 2 * MINUTE_MS,
    seen: (site) => depths(site, depth("mail", { pending: 3 })),
  },
  {
    rule: "failure-rate",
    subject: "mail",
    holdMs: 0,
    seen: (site) => ({
      minutes: minutes(now(site), [
        { done: 4, failed: 5 },
        { done: 6, failed: 6 },
      ]),
    }),
    besides: ["dead-letters mail"],
  },
  {
    rule: "dead-letters",
    subject: "mail",
    holdMs: 0,
    seen: (site) => ({ minutes: minutes(now(site), [{ done: 900, failed: 10 }]) }),
  },
  {
    rule: "backlog-growing",
    subject: "mail",
    holdMs: 0,
    seen: (site) => ({
      minutes: minutes(now(site), [
        { arrived: 90, done: 50 },
        { arrived: 50, done: 70 },
      ]),
      ...depths(site, depth("mail", { pending: 1_001 }), depth("sms", { pending: 0 })),
    }),
  },
  {
    rule: "figures-stale",
    subject: "",
    holdMs: 0,
    seen: (site) => ({
      counts: { countedAt: now(site) - 3 * MINUTE_MS - 1, tookMs: 5, queues: [] },
    }),
  },
  {
    rule: "lock-timeouts",
    subject: "order",
    holdMs: 0,
    seen: () => ({ locks: [lockFigures({ timeouts: 5 })] }),
  },
  {
    rule: "lock-contention",
    subject: "order",
    holdMs: 0,
    seen: () => ({
      locks: [lockFigures({ waitMs: { average: 300, p50: 200, p95: 1_001, p99: 2_000 } })],
    }),
  },
  {
    rule: "canary-late",
    subject: "mail",
    holdMs: 0,
    seen: (site) => ({ canaries: [canary("mail", now(site) - STEP_MS - 1)] }),
  },
  {
    rule: "canary-lost",
    subject: "mail",
    holdMs: 0,
    seen: (site) => ({ canaries: [canary("mail", now(site) - 5 * MINUTE_MS - 1)] }),
    besides: ["canary-late mail"],
  },
];

/** All is well, and everybody can tell. */
const well = (site: Site): Partial<Observation> => ({
  locks: [lockFigures({})],
  canaries: [canary("mail", site.runtime.now() - 10, 5)],
});

/** Looks a few times until this much has passed; not again when it has. */
async function pass(site: Site, ms: number, seen: Scenario["seen"]): Promise<void> {
  const stepMs = Math.max(STEP_MS, ms / LOOKS_MAX);
  for (let passed = 0; passed < ms; passed += stepMs) {
    await site.observe(seen(site));
    site.runtime.clock.advance(stepMs);
  }
}

const about = ({ rule, subject }: Scenario, status: string): string =>
  `${rule} ${subject} ${status}`;

test("there is a scenario for every rule", () => {
  const tried = new Set(scenarios.map(({ rule }) => rule.split(":")[0]));
  assert.deepEqual(tried, new Set(alertRules().map(({ name }) => name)));
});

for (const { name, skip, open } of sites) {
  describe(name, { skip, timeout: 120_000 }, () => {
    let site: Site;
    before(async () => void (site = await open()));
    after(() => site[Symbol.asyncDispose]());

    for (const scenario of scenarios) {
      const { rule, subject, holdMs, seen, besides = [] } = scenario;

      test(`${rule} is raised once and resolved once`, async () => {
        await site.empty();
        // No server answers there; the pending deliveries are rows.
        site.monitors({ webhooks: { urls: [HOOK], resolve: () => new Promise(() => {}) } });
        await pass(site, holdMs, seen);
        if (holdMs > 0)
          assert.equal((await site.raised()).includes(about(scenario, "raised")), false);
        await pass(site, MINUTE_MS, seen);
        assert.ok((await site.raised()).includes(about(scenario, "raised")), "not raised");
        assert.equal(site.log.count(/^alert resolved/), 0);

        await pass(site, QUIET_MS - STEP_MS, well);
        assert.equal(site.log.count(/^alert resolved/), 0);
        await pass(site, MINUTE_MS, well);
        const all = await site.raised();
        const expected = [`${rule} ${subject}`, ...besides].map((one) => `${one} resolved`);
        assert.deepEqual(all, expected.toSorted());
        for (const word of ["raised", "resolved"]) {
          const told = site.log.lines.filter(({ message }) =>
            message.startsWith(`alert ${word}: `),
          );
          const names = told
            .map(({ facts }) => `${String(facts["rule"])} ${String(facts["subject"])}`)
            .toSorted();
          assert.deepEqual(names, [`${rule} ${subject}`, ...besides].toSorted(), word);
        }
        const rows = await site.deliveries();
        assert.deepEqual(rows.filter((row) => row === `${rule} raised`).length, 1);
        assert.deepEqual(rows.filter((row) => row === `${rule} resolved`).length, 1);
      });
    }

    for (const scenario of scenarios.filter(({ holdMs }) => holdMs > 0)) {
      test(`${scenario.rule} that comes and goes is not raised`, async () => {
        await site.empty();
        site.monitors();
        for (let round = 0; round < 2; round += 1) {
          await pass(site, scenario.holdMs - STEP_MS, scenario.seen);
          await pass(site, STEP_MS, well);
        }
        assert.deepEqual(await site.raised(), []);
        assert.deepEqual((await site.store.alerts.open(10)).alerts, []);
        assert.deepEqual(site.log.lines, []);
      });
    }
  });
}

for (const { name, skip, open } of sites) {
  test(
    `${name}: with the defaults, a worker that another one found dead raises an alert`,
    { skip },
    async () => {
      await using site = await open();
      site.monitors();
      const { store, runtime } = site;
      const doctor = new Doctor({ store, runtime });
      const look = async () =>
        site.observe({ findings: (await doctor.examine({ quick: true })).findings });
      const other = await start(store, { slots: null });
      const stale = await start(store, { slots: null });
      const hung = await start(store, { slots: null });
      const seen = await start(store, { slots: null });
      await store.workers.move(hung.id, { state: "stopping", reason: "asked" });
      // As a worker does it: every ten seconds, and each time it closes the rows of those that are dead.
      for (let beats = 0; beats < 7; beats += 1) {
        runtime.clock.advance(HEARTBEAT_MS);
        await store.workers.heartbeat(other.id, vitals, ["default"]);
        await store.workers.closeDead({ ...silence, gone: beats === 0 ? [seen.id] : [] });
        await look();
      }
      const subjects = [`worker-hung worker ${hung.id}`, `worker-stale worker ${stale.id}`];
      assert.deepEqual(
        await site.raised(),
        subjects.map((one) => `${one} raised`),
      );
      runtime.clock.advance(FOUND_DEAD_FOR_MS);
      await store.workers.heartbeat(other.id, vitals, ["default"]);
      await look();
      runtime.clock.advance(QUIET_MS);
      await store.workers.heartbeat(other.id, vitals, ["default"]);
      await look();
      assert.deepEqual(
        await site.raised(),
        subjects.map((one) => `${one} resolved`),
      );
    },
  );
}

for (const { name, skip, open } of sites) {
  const alone =
    name === "SQLite"
      ? "one process writes at a time: none comes between a read and a write"
      : false;
  test(
    `${name}: without the unique index an alert is raised twice`,
    { skip: skip === false ? alone : skip },
    async () => {
      await using site = await open();
      const { engine } = site.store.db;
      const drop =
        name === "PostgreSQL"
          ? "drop index holdfast.alert_open"
          : "drop index holdfast_alert_open on holdfast_alert";
      await engine.transaction((tx) => tx.script(drop));
      const raise = async (subject: string): Promise<number> => {
        const seen = site.stores.flatMap((store) =>
          [1, 2, 3].map(() => store.alerts.note(sighting({ subject, holdMs: 0 }))),
        );
        const noted = await Promise.all(seen);
        return noted.filter(({ change }) => change === "raised").length;
      };
      let most = 0;
      for (let round = 0; round < 50 && most < 2; round += 1) most = await raise(`round ${round}`);
      assert.ok(most > 1, "the missing index was not noticed");
    },
  );
}

after(() => assertNothingRuns());
