/** The rules by themselves: what they find, what they do not, and when they cannot tell. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { InvalidArgumentError, StoreUnavailableError } from "../../src/core/errors.ts";
import { alertRules, CHECKS } from "../../src/alerts/rules.ts";
import { type AlertView, type Trouble, asSighted } from "../../src/alerts/alert.ts";
import type { AlertOptions } from "../../src/alerts/options.ts";
import { Alerts } from "../../src/alerts/alerts.ts";
import type { Observation } from "../../src/monitoring/monitor.ts";
import { checkGroups } from "../../src/app/store.ts";
import { START_AT as NOW } from "../support/runtime.ts";
import { start } from "../support/workers.ts";
import { onFile, type Site } from "./alert-site.ts";
import { canary, depth, finding, minutes, MINUTE_MS, offender } from "./alert-views.ts";
import { wrapStore } from "../worker/wrapped-store.ts";

interface Asked {
  readonly seen?: Partial<Observation>;
  readonly worked?: readonly string[] | null;
  readonly raised?: readonly string[];
  readonly options?: AlertOptions;
}

function ask(name: string, asked: Asked = {}): readonly Trouble[] | null {
  const { seen = {}, worked = [], raised = [], options } = asked;
  const rule = alertRules(options).find((one) => one.name === name);
  assert.ok(rule !== undefined, `there is no rule ${name}`);
  const observation = {
    at: NOW,
    counts: { countedAt: NOW, tookMs: 5, queues: [] },
    minutes: [],
    findings: [],
    canaries: [],
    ...seen,
  };
  const view: AlertView = { observation, now: NOW, worked: worked && new Set(worked) };
  return rule.find(view, new Set(raised));
}

const subjects = (troubles: readonly Trouble[] | null): string[] | undefined =>
  troubles?.map(({ subject }) => subject);

const counts = (...queues: readonly ReturnType<typeof depth>[]) => ({
  counts: { countedAt: NOW, tookMs: 5, queues },
});

const stale = { counts: { countedAt: NOW - 3 * MINUTE_MS - 1, tookMs: 5, queues: [] } };

test("rules are about checks that there are, and that the monitor makes", () => {
  const quick = checkGroups.flatMap(({ checks }) => checks).filter(({ cost }) => cost === "quick");
  const names = new Set(quick.map(({ name }) => name));
  for (const check of Object.values(CHECKS)) assert.ok(names.has(check), check);
});

suite("rules", () => {
  test("rules about statistics cannot be evaluated without a count, and rules about checks not without a run", () => {
    for (const rule of [
      "pending-old",
      "no-worker",
      "failure-rate",
      "dead-letters",
      "backlog-growing",
    ]) {
      assert.equal(ask(rule, { seen: stale }), null, rule);
      assert.equal(ask(rule, { seen: { counts: null } }), null, rule);
      assert.deepEqual(ask(rule), [], rule);
    }
    for (const rule of [
      "singleton-exceeded",
      "worker-stale",
      "worker-hung",
      "version-drift",
      "enqueuer-drift",
      "lease-expired",
      "finding",
    ]) {
      assert.equal(ask(rule, { seen: { examined: false } }), null, rule);
      assert.deepEqual(ask(rule), [], rule);
    }
    for (const rule of ["canary-late", "canary-lost"]) assert.equal(ask(rule), null, rule);
    assert.equal(
      ask("no-worker", { worked: null, seen: counts(depth("mail", { pending: 1 })) }),
      null,
    );
  });

  test("figures may be older where counting takes long", () => {
    const counted = (ageMs: number) => ({
      seen: { counts: { countedAt: NOW - ageMs, tookMs: 5_000, queues: [] } },
    });
    assert.deepEqual(ask("figures-stale", counted(1_000_000)), []);
    assert.deepEqual(subjects(ask("figures-stale", counted(1_000_001))), [""]);
    const [never] = ask("figures-stale", { seen: { counts: null } }) ?? [];
    assert.equal(never?.holdMs, 3 * MINUTE_MS);
  });

  test("a pending job is too old from its limit on, and until it is well below", () => {
    const waits = (ms: number) => counts(depth("mail", { pending: 1, oldestPendingAt: NOW - ms }));
    const rule = "pending-old";
    assert.deepEqual(ask(rule, { seen: waits(5 * MINUTE_MS) }), []);
    const [trouble] = ask(rule, { seen: waits(5 * MINUTE_MS + 1) }) ?? [];
    assert.equal(trouble?.message, "The oldest pending job of queue mail has waited for 5m.");
    assert.deepEqual(subjects(ask(rule, { seen: waits(4 * MINUTE_MS + 1), raised: ["mail"] })), [
      "mail",
    ]);
    assert.deepEqual(ask(rule, { seen: waits(4 * MINUTE_MS), raised: ["mail"] }), []);
    assert.deepEqual(ask(rule, { seen: waits(4 * MINUTE_MS + 1), raised: ["other"] }), []);
  });

  test("failures count by share, if enough ended, and only those of the last minutes", () => {
    const rule = "failure-rate";
    const ended = (...figures: Parameters<typeof minutes>[1]) => ({
      minutes: minutes(NOW, figures),
    });
    assert.deepEqual(ask(rule, { seen: ended({ done: 10, failed: 10 }) }), []);
    assert.deepEqual(ask(rule, { seen: ended({ done: 8, failed: 11 }) }), []);
    assert.deepEqual(subjects(ask(rule, { seen: ended({ done: 9, failed: 11 }) })), ["mail"]);
    assert.deepEqual(
      subjects(ask(rule, { seen: ended({ done: 11, failed: 9 }), raised: ["mail"] })),
      ["mail"],
    );
    assert.deepEqual(ask(rule, { seen: ended({ done: 12, failed: 8 }), raised: ["mail"] }), []);
    const long = ended({ failed: 100 }, {}, {}, {}, {}, {});
    assert.deepEqual(ask(rule, { seen: long }), []);
    assert.deepEqual(subjects(ask(rule, { seen: long, options: { failureWindow: "6m" } })), [
      "mail",
    ]);
    const cancelled = ended({ cancelled: 500, done: 9, failed: 11 });
    assert.deepEqual(subjects(ask(rule, { seen: cancelled })), ["mail"]);
  });

  test("dead letters raise an alert until none has arrived for a while", () => {
    const failed = (count: number) => ({ minutes: minutes(NOW, [{ failed: count, done: 100 }]) });
    assert.deepEqual(ask("dead-letters", { seen: failed(9) }), []);
    assert.deepEqual(subjects(ask("dead-letters", { seen: failed(10) })), ["mail"]);
    assert.deepEqual(subjects(ask("dead-letters", { seen: failed(1), raised: ["mail"] })), [
      "mail",
    ]);
    assert.deepEqual(ask("dead-letters", { seen: failed(0), raised: ["mail"] }), []);
  });

  test("a backlog grows when more arrives than ends, and there is much of it", () => {
    const grown = (arrived: number, pending: number) => ({
      minutes: minutes(NOW, [{ arrived, done: 3, failed: 2, cancelled: 1 }]),
      ...counts(depth("mail", { pending })),
    });
    const rule = "backlog-growing";
    assert.deepEqual(subjects(ask(rule, { seen: grown(7, 1_001) })), ["mail"]);
    assert.deepEqual(ask(rule, { seen: grown(6, 1_001) }), []);
    assert.deepEqual(ask(rule, { seen: grown(7, 1_000) }), []);
    assert.deepEqual(subjects(ask(rule, { seen: grown(7, 900), raised: ["mail"] })), ["mail"]);
  });

  test("a queue without jobs needs no worker", () => {
    const seen = counts(
      depth("mail", { pending: 0 }),
      depth("sms", { pending: 1 }),
      depth("fax", { pending: 2 }),
    );
    assert.deepEqual(subjects(ask("no-worker", { seen, worked: ["sms"] })), ["fax"]);
  });

  test("leases that expired a moment ago raise no alert", () => {
    const over = (ms: number | null) => ({
      findings: [finding("lease-expired", [offender("j1", ms === null ? null : NOW - ms)])],
    });
    assert.deepEqual(ask("lease-expired", { seen: over(MINUTE_MS - 1) }), []);
    assert.deepEqual(subjects(ask("lease-expired", { seen: over(MINUTE_MS) })), [""]);
    assert.deepEqual(subjects(ask("lease-expired", { seen: over(null) })), [""]);
  });

  test("other findings raise alerts under the name of their check, except infos", () => {
    const findings = [
      finding("orphan-step", [offender("j1")]),
      finding("two-states", [offender("j2")], "critical"),
      finding("large-table", [offender("job")], "info"),
      finding("worker-stale", [offender("mail-1")]),
    ];
    const found = ask("finding", { seen: { findings } }) ?? [];
    assert.deepEqual(
      found.map(({ rule, subject, severity, holdMs }) => [rule, subject, severity, holdMs]),
      [
        ["finding:orphan-step", "orphan-step", "warning", undefined],
        ["finding:two-states", "two-states", "critical", 0],
      ],
    );
    assert.deepEqual(found[1]?.facts, { remedy: "Fix it.", offenders: ["j2"], more: false });
  });

  test("a canary is late or lost by when it was picked up", () => {
    const of = (sentMsAgo: number, pickupMs: number | null) => ({
      seen: { canaries: [canary("mail", NOW - sentMsAgo, pickupMs)] },
    });
    assert.deepEqual(ask("canary-late", of(30_000, null)), []);
    assert.deepEqual(subjects(ask("canary-late", of(30_001, null))), ["mail"]);
    assert.deepEqual(subjects(ask("canary-late", of(60_000, 30_001))), ["mail"]);
    assert.deepEqual(ask("canary-late", of(600_000, 200)), []);
    assert.deepEqual(ask("canary-lost", of(600_000, 599_000)), []);
    assert.deepEqual(subjects(ask("canary-lost", of(300_001, null))), ["mail"]);
  });

  test("locks: callers that timed out, and long waits of one in twenty", () => {
    const locks = (figures: object) => ({
      seen: {
        locks: [
          {
            type: "order",
            acquisitions: 100,
            timeouts: 0,
            waitMs: { average: 1, p50: 1, p95: 10, p99: 20 },
            heldMsMax: 5,
            ...figures,
          },
        ],
      },
    });
    assert.equal(ask("lock-timeouts"), null, "without statistics it cannot tell");
    assert.deepEqual(ask("lock-timeouts", locks({ timeouts: 4 })), []);
    const [trouble] = ask("lock-timeouts", locks({ timeouts: 5 })) ?? [];
    assert.equal(
      trouble?.message,
      "5 of 105 requests for locks of type order timed out within 5m.",
    );
    const raised = { ...locks({ timeouts: 1 }), raised: ["order"] };
    assert.deepEqual(subjects(ask("lock-timeouts", raised)), ["order"]);
    const waits = (p95: number) => ({ waitMs: { average: 100, p50: 80, p95, p99: 3_000 } });
    assert.deepEqual(ask("lock-contention", locks(waits(1_000))), []);
    assert.deepEqual(subjects(ask("lock-contention", locks(waits(1_001)))), ["order"]);
    const few = locks({ ...waits(5_000), acquisitions: 19 });
    assert.deepEqual(ask("lock-contention", few), []);
  });

  test("settings that cannot be used are refused, by name", () => {
    const wrong: [options: object, words: RegExp][] = [
      [{ pendingAge: "soon" }, /^alerts\.pendingAge: "soon" is not a duration/],
      [{ pendingAge: 0 }, /^alerts\.pendingAge: must be at least 1000 ms/],
      [{ failureShare: 50 }, /^alerts\.failureShare: must be a number between 0 and 1/],
      [{ failureShare: "0.5" }, /^alerts\.failureShare: /],
      [{ failureWindow: "20m" }, /^alerts\.failureWindow: must be at most 900000 ms/],
      [{ failureEndings: 0 }, /^alerts\.failureEndings: must be a whole number from 1/],
      [{ backlog: 1.5 }, /^alerts\.backlog: /],
      [
        { canaryLate: "6m" },
        /^alerts\.canaryLost: must not be shorter than alerts\.canaryLate \(6m\)/,
      ],
      [{ pendingage: "5m" }, /^alerts\.pendingage: there is no such option/],
    ];
    for (const [options, message] of wrong) {
      assert.throws(
        () => alertRules(options),
        (error: Error) => {
          assert.match(error.message, message);
          return error instanceof InvalidArgumentError;
        },
      );
    }
    const rule = alertRules({ staleFor: "90s" }).find(({ name }) => name === "worker-stale");
    assert.deepEqual([rule?.holdMs, rule?.when.slice(-6)], [90_000, "1m 30s"]);
  });

  test("whatever a rule says fits into a row", () => {
    const [rule] = alertRules();
    const trouble = {
      subject: ` a\u0000b${"\u{1F600}".repeat(200)} `,
      message: `first\nsecond ${"x".repeat(5_000)}`,
      facts: { text: "y".repeat(5_000), list: Array.from({ length: 99 }, () => "z\uD800") },
    };
    const { subject, message, facts } = asSighted(rule!, trouble);
    assert.ok(subject.length <= 255 && subject.startsWith("a b") && subject.isWellFormed());
    assert.ok(message.length === 1_000 && message.startsWith("first second x"));
    const { text, list } = JSON.parse(facts);
    assert.deepEqual([text.length, list.length, list[0].isWellFormed()], [500, 20, true]);
  });
});

suite("a monitor's loop", { timeout: 60_000 }, () => {
  const trouble = { findings: [finding("worker-too-many", [offender("billing")])] };
  const seen = (site: Site) => site.observation(trouble);

  test("is never thrown into: a database that is away is logged once", async () => {
    await using site = await onFile(1);
    const { store, runtime, log: logger } = site;
    let isAway = true;
    const broken = wrapStore(store, (real) => ({
      alerts: {
        note: async (sighting) => {
          if (!isAway) return real.alerts.note(sighting);
          throw new StoreUnavailableError({ problem: "It is away.", remedy: "Wait." });
        },
      },
    }));
    const alerts = new Alerts({ holdfast: { store: broken, runtime, logger } });
    for (let looks = 0; looks < 3; looks += 1) await alerts.observe(seen(site));
    assert.deepEqual(
      logger.lines.map(({ level }) => level),
      ["error"],
    );
    assert.match(logger.lines[0]?.message ?? "", /^alerts: StoreUnavailableError: /);
    isAway = false;
    await alerts.observe(seen(site));
    assert.equal(logger.count(/^alerts: working again$/), 1);
    assert.equal(logger.count(/^alert raised: /), 1);
    await alerts.stop();
  });

  test("an old observation raises nothing, and neither does a stopped monitor", async () => {
    await using site = await onFile(1);
    const [alerts] = site.monitors();
    const old = seen(site);
    site.runtime.clock.advance(MINUTE_MS + 1);
    await alerts!.observe(old);
    await alerts!.stop();
    await alerts!.observe(seen(site));
    assert.deepEqual(await site.raised(), []);
  });

  test("knows from the registry which queues have a worker", async () => {
    await using site = await onFile(1);
    site.monitors();
    const pending = async () => {
      const queues = [depth("mail", { pending: 3 })];
      await site.observe({ counts: { countedAt: site.runtime.now(), tookMs: 5, queues } });
      site.runtime.clock.advance(2 * MINUTE_MS);
    };
    const worker = await start(site.store, { queues: ["sms", "mail"] });
    await pending();
    await pending();
    assert.deepEqual(await site.raised(), []);
    await site.store.workers.move(worker.id, { state: "stopping", reason: null });
    await pending();
    assert.deepEqual(await site.raised(), []);
    await pending();
    assert.deepEqual(await site.raised(), ["no-worker mail raised"]);
  });

  test("an alert whose rule cannot be evaluated stays, and is resolved after a day", async () => {
    await using site = await onFile(1);
    site.monitors();
    await site.observe(trouble);
    const blind = { examined: false };
    site.runtime.clock.advance(23 * 60 * MINUTE_MS);
    await site.observe(blind);
    assert.deepEqual(await site.raised(), ["singleton-exceeded billing raised"]);
    site.runtime.clock.advance(60 * MINUTE_MS);
    await site.observe(blind);
    assert.deepEqual(await site.raised(), ["singleton-exceeded billing resolved"]);
  });

  test("so is an alert of a rule that no longer exists", async () => {
    await using site = await onFile(1);
    const [alerts] = site.monitors();
    await site.store.alerts.note({
      id: "018f2c5e-9b3a-700c-91f2-4c7d9be03a58",
      rule: "of-another-version",
      subject: "x",
      severity: "info",
      message: "It was.",
      facts: "no json",
      holdMs: 0,
      sinceAt: null,
      targets: [],
    });
    site.runtime.clock.advance(60 * MINUTE_MS);
    await site.observe({});
    assert.deepEqual(
      (await alerts!.list()).map(({ rule, facts }) => [rule, facts]),
      [["of-another-version", {}]],
    );
    site.runtime.clock.advance(24 * 60 * MINUTE_MS);
    await site.observe({});
    assert.deepEqual(await alerts!.list(), []);
    assert.equal((await alerts!.list({ which: "all" })).length, 1);
  });

  test("the number of open alerts of a rule is limited, and open alerts stay", async () => {
    await using site = await onFile(1);
    site.monitors();
    const many = (from: number) => ({
      findings: [
        finding(
          "worker-too-many",
          Array.from({ length: 60 }, (_, index) => offender(`w${from + index}`)),
        ),
      ],
    });
    await site.observe(many(100));
    const first = await site.raised();
    assert.equal(first.length, 50);
    site.runtime.clock.advance(2 * MINUTE_MS);
    await site.observe({
      findings: [finding("worker-too-many", many(90).findings[0]!.offenders)],
    });
    const kept = new Set(await site.raised());
    const still = first.filter((one) => kept.has(one)).length;
    assert.equal(still, 50, "w100 to w149 are among w90 to w149");
  });

  test("alerts that were resolved a month ago are forgotten", async () => {
    await using site = await onFile(1);
    site.monitors();
    await site.observe(trouble);
    site.runtime.clock.advance(MINUTE_MS);
    await site.observe({});
    assert.deepEqual(await site.raised(), ["singleton-exceeded billing resolved"]);
    site.runtime.clock.advance(31 * 24 * 60 * MINUTE_MS);
    await site.observe({});
    assert.deepEqual(await site.raised(), []);
  });

  test("filters that cannot be used are refused", async () => {
    await using site = await onFile(1);
    const [alerts] = site.monitors();
    const wrong: object[] = [{ which: "some" }, { before: "x" }, { limit: 0 }, { limt: 1 }];
    for (const filter of wrong) await assert.rejects(alerts!.list(filter), InvalidArgumentError);
  });
});
