/**
 * How PostgreSQL carries out the hot statements with tens of thousands of rows in every table: by an index, prepared or not, on
 * connections of ours and on others, and also when the statistics are from a time when the tables were empty.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Client } from "pg";
import { BY_END, FEW, rowOf, WALKED } from "../support/bulk.ts";
import { openStore, type Store } from "../../src/app/store.ts";
import { beginWith, startOptions } from "../../src/database/postgres/session.ts";
import { statements } from "../../src/jobs/postgres-statements.ts";
import { statuses } from "../../src/core/job.ts";
import { wholeFlow } from "../support/flows.ts";
import { idsOf, newJob } from "../support/jobs.ts";
import { claimLimited, laneOf, LIMITED, limitQueue } from "../support/limited.ts";
import { listenToTexts } from "../support/sql-texts.ts";
import { ROWS } from "../support/many-rows.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";

const NOW = 1_700_000_000_000; // past, so that everything is due

const LANE = laneOf("n", (...texts) => texts.join(" || "));

/** Legal rows by the thousand: every table has its own ids. */
const ID = `
create function pg_temp.id(of text, n int) returns uuid language sql immutable as $$
  select (lpad(to_hex(n), 8, '0') || '-' || of || '-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid
$$`;

const FILL = `
insert into holdfast.job (id, queue, task, payload, rank, max_attempts, enqueued_at)
select pg_temp.id(t, n), 'default', 'mail', '{}', 0, 3, ${NOW}
  from generate_series(1, ${ROWS}) n, unnest(array['aaaa', 'bbbb', 'cccc', 'dddd']) t;
insert into holdfast.ready (id, queue, task, rank, epoch, attempts, crashes, max_attempts, ready_at, place)
select pg_temp.id('aaaa', n), 'q' || n % 4, 'mail', n % 3, 0, 0, 0, 3, ${NOW} + n, ${NOW} + n
  from generate_series(1, ${ROWS}) n;
insert into holdfast.waiting (id, queue, task, rank, epoch, attempts, crashes, max_attempts, status, due_at)
select pg_temp.id('bbbb', n), 'default', 'mail', 0, 0, 0, 0, 3, 'scheduled', ${NOW} + n
  from generate_series(1, ${ROWS}) n;
insert into holdfast.lease (id, queue, task, rank, epoch, attempts, crashes, max_attempts,
                            locked_by, locked_until, claimed_at, heartbeat_at)
select pg_temp.id('cccc', n), 'default', 'mail', 0, 1, 1, 0, 3, 'w' || n % 100, ${NOW} + n, ${NOW}, ${NOW}
  from generate_series(1, ${ROWS}) n;
insert into holdfast.finished (id, queue, task, rank, epoch, attempts, crashes, max_attempts,
                               status, worker, started_at, finished_at)
select pg_temp.id('dddd', n), 'default', 'mail', 0, 1, 1, 0, 3, 'done', 'w', ${NOW}, ${NOW} + n
  from generate_series(1, ${ROWS}) n;
insert into holdfast.flow (id, kind, name, size, created_at)
select pg_temp.id('eeee', n), 'flow', 'f', 1, ${NOW} from generate_series(1, ${ROWS}) n;
insert into holdfast.flow_job (job_id, flow_id)
select pg_temp.id('bbbb', n), pg_temp.id('eeee', n) from generate_series(1, ${ROWS}) n;
insert into holdfast.job_after (job_id, position, on_id, on_failed, on_cancelled)
select pg_temp.id('bbbb', n), 1, pg_temp.id('aaaa', n), 'fail', 'cancel' from generate_series(1, ${ROWS}) n;
insert into holdfast.dep (job_id, on_id, on_failed, on_cancelled, look)
select pg_temp.id('bbbb', n), pg_temp.id('aaaa', n), 'fail', 'cancel', 0 from generate_series(1, ${ROWS}) n`;

/** In a session of its own: the triggers of the first one keep plans for empty tables. */
const FILL_LIMITED = `
insert into holdfast.job (id, queue, task, payload, rank, max_attempts, enqueued_at)
select pg_temp.id(t, n), '${LIMITED}', 'mail.send', '{}', 0, 3, ${NOW}
  from generate_series(1, ${ROWS}) n, unnest(array['ffff', 'abab']) t;
insert into holdfast.ready (id, queue, task, rank, epoch, attempts, crashes, max_attempts, lane, ready_at, place)
select pg_temp.id('ffff', n), '${LIMITED}', 'mail.send', 0, 0, 0, 0, 3, ${LANE}, ${NOW} + n, ${NOW} + n
  from generate_series(1, ${ROWS}) n;
insert into holdfast.lease (id, queue, task, rank, epoch, attempts, crashes, max_attempts, lane,
                            locked_by, locked_until, claimed_at, heartbeat_at)
select pg_temp.id('abab', n), '${LIMITED}', 'mail.send', 0, 1, 1, 0, 3, ${LANE}, 'w', ${NOW} + n, ${NOW}, ${NOW}
  from generate_series(1, ${ROWS}) n;
insert into holdfast.gate (queue, kind, name)
select '${LIMITED}', 'lane', 'lane ' || n from generate_series(1, ${ROWS}) n;`;

interface Plan {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly Plans?: readonly Plan[];
}

const ids = `{${Array.from({ length: 500 }, (_, n) => idOf("cccc", n + 1)).join(",")}}`;
const epochs = `{${Array.from({ length: 500 }, () => 1).join(",")}}`;
const nulls = `{${Array.from({ length: 500 }, () => "null").join(",")}}`;
const pending = `{${Array.from({ length: 500 }, (_, n) => idOf("aaaa", n + 1)).join(",")}}`;
const turn = [ids, "w1", epochs, nulls, NOW, "{q1}", "{mail}", 500, 30_000, 1, true];

/** What each statement is given, and the index by which it finds its rows. */
const hot: [name: keyof typeof statements, values: unknown[], indexes: string[]][] = [
  ["claimFromOne", turn, ["ready_pkey", "lease_pkey", "job_default_pkey"]],
  [
    "claimFromSeveral",
    turn.with(5, "{q1,q2,q3}"),
    ["ready_pkey", "lease_pkey", "job_default_pkey"],
  ],
  ["settle", [...turn.slice(0, 5), true], ["lease_pkey"]],
  ["takeLeases", turn.slice(0, 3), ["lease_pkey"]],
  ["extend", [...turn.slice(0, 3), NOW, 30_000], ["lease_pkey"]],
  ["extendOne", [...turn.slice(0, 3), NOW, 30_000], ["lease_pkey"]],
  ["held", turn.slice(0, 3), ["lease_pkey"]],
  ["lockLanes", ["{lane 1,lane 2}", "{10,10}", LIMITED, "{mail.send}", NOW], ["ready_pkey"]],
  [
    "takeLanes",
    ["{lane 1,lane 2}", "{10,10}", LIMITED, "{mail.send}", NOW, "w1", 30_000, 1],
    ["ready_pkey", "job_default_pkey"],
  ],
  ["leaseLocked", [pending, "w1", NOW, 30_000, 1], ["ready_id", "job_default_pkey"]],
];

/** How a statement is run: as on the product's own connections, or as where nothing can be said at their start. */
const kinds = [
  { name: "on a connection of ours", options: startOptions, begin: () => "begin" },
  { name: "on any connection", options: () => "", begin: beginWith },
];

describe("plans of PostgreSQL", { skip: missing("postgres"), timeout: 120_000 }, () => {
  let database: ScratchDatabase;
  let store: Store;
  let early: Client;

  before(async () => {
    database = await scratchDatabase("postgres");
    store = await openStore(database.url);
    await store.migrate();
    const client = await connect("");
    // The worst moment: what is known about the tables is that they are empty.
    await client.query("vacuum (analyze) holdfast.ready, holdfast.lease, holdfast.waiting");
    early = await connect(startOptions("hot"));
    for (const [name, values] of hot) await explain(early, name, statements[name], values);
    await client.end();
    for (const rows of [FILL, FILL_LIMITED]) {
      const filling = await connect("");
      await filling.query(ID);
      await filling.query(rows);
      await filling.end();
    }
    await limitQueue(store);
  });
  after(async () => {
    await early.end();
    await store.close();
    await database.drop();
  });

  for (const [name, values, indexes] of hot) {
    for (const { name: where, options, begin } of kinds) {
      test(`${name} goes by its index ${where}`, async () => {
        const session = await connect(options("hot"));
        await session.query(begin("hot"));
        assertByIndex(await explain(session, name, statements[name], values), indexes);
        await session.end();
      });
    }

    test(`${name} goes by its index with a plan that was made when the tables were empty`, async () => {
      const plan = await explain(early, name, statements[name], values);
      assertByIndex(plan, indexes);
      // The index is in claim order; to sort would mean to read the whole queue first.
      const sorts = flat(plan).filter((node) => node["Node Type"].includes("Sort"));
      if (name === "claimFromOne") assert.equal(sorts.length, 0);
    });
  }

  test("maintenance finds due and ended rows by an index", async () => {
    const listening = listenToTexts(Client.prototype);
    await store.jobs.promoteDue({ limit: 10 });
    await store.jobs.reclaimExpired({ graceMs: 0, maxCrashes: 3, limit: 10 });
    const takes = listening.stop().filter(({ text }) => /^\s*delete/.test(text));
    assert.equal(takes.length, 2);
    for (const [index, wanted] of ["waiting_due", "lease_ends"].entries()) {
      const { text = "", values = [] } = takes[index] ?? {};
      for (const { options, begin } of kinds) {
        const session = await connect(options("cold"));
        await session.query(begin("cold"));
        assertByIndex(await explain(session, wanted, text, values), [wanted]);
        await session.end();
      }
    }
  });

  test("counting starts no parallel workers", async () => {
    const listening = listenToTexts(Client.prototype);
    await store.jobs.stats();
    const counts = listening.stop().filter(({ text }) => /^\s*select/.test(text));
    assert.ok(counts.length > 0);
    for (const [index, { text, values = [] }] of counts.entries()) {
      for (const { options, begin } of kinds) {
        const session = await connect(options("cold"));
        await session.query(begin("cold"));
        const plan = await explain(session, `count_${index}`, text, values);
        const types = flat(plan).map((node) => node["Node Type"]);
        assert.ok(!types.some((type) => type.startsWith("Gather")), types.join(", "));
        await session.end();
      }
    }
  });

  test("pages of jobs are found by indexes, also by key and by the beginning of an id", async () => {
    const key = "order-1";
    await store.jobs.enqueue([newJob({ key })]);
    const listening = listenToTexts(Client.prototype);
    assert.equal((await store.jobs.list({ key, limit: 20 })).length, 1);
    const found = await store.jobs.list({ id: "00001", limit: 11 });
    assert.equal(found.length, 11);
    for (const status of statuses) await store.jobs.list({ status, limit: 20 });
    for (const filter of FEW) await store.jobs.page(filter, { limit: 20 });
    for (const filter of BY_END) await store.jobs.page(filter, { order: "ended", limit: 20 });
    await store.jobs.neighbours(idsOf(found));
    for (const { action, ...status } of WALKED) {
      const from = { action, before: idsOf(found)[0] ?? null };
      await store.bulk.look(rowOf({ ...from, filter: status }), 20);
      const filter = { ...status, worker: "worker-x", key, id: idsOf(found) };
      await store.bulk.look(rowOf({ ...from, filter }), 20);
    }
    const texts = listening
      .stop()
      .filter(({ text }) => /^\s*select\s+(?:id|job_id|[jps]\.id)/.test(text));
    assert.ok(texts.length > statuses.length + 5);
    for (const { options, begin } of kinds) {
      const session = await connect(options("cold"));
      await session.query(begin("cold"));
      for (const [index, { text, values }] of texts.entries()) {
        const given = values.map((value) => (Array.isArray(value) ? `{${value.join()}}` : value));
        const nodes = flat(await explain(session, `listing_${index}`, text, given));
        const used = nodes.map((node) => `${node["Node Type"]} ${node["Index Name"] ?? ""}`).join();
        // Whatever joins without an index, or sorts more than a page, reads whole tables.
        assert.doesNotMatch(used, /Seq Scan|Hash Join|Merge Join/, text);
        if (index === 0) assert.match(used, /job_default_job_key_id_idx/);
      }
      await session.end();
    }
  });

  test("a claim under limits goes by indexes", async () => {
    const listening = listenToTexts(Client.prototype);
    await claimLimited(store);
    const isLimits = /"holdfast"\.(?:gate|lease|ready)\b/;
    const texts = listening
      .stop()
      .filter(({ text }) => /^\s*(?:select|update|delete|with)/.test(text) && isLimits.test(text));
    assert.ok(texts.length > 8);
    for (const { options, begin } of kinds) {
      const session = await connect(options("hot"));
      await session.query(begin("hot"));
      for (const [index, { text, values }] of texts.entries()) {
        const given = values.map((value) => (Array.isArray(value) ? `{${value.join()}}` : value));
        const nodes = flat(await explain(session, `limited_${index}`, text, given));
        const scans = nodes.filter((node) => node["Node Type"] === "Seq Scan");
        assert.deepEqual(
          scans.map((node) => node["Relation Name"]),
          [],
          text,
        );
      }
      await session.end();
    }
  });

  test("a flow is enqueued, ended, retried and read by indexes", async () => {
    const listening = listenToTexts(Client.prototype);
    await wholeFlow(store);
    await store.flows.sweep({ after: null, limit: 100, all: false });
    const isFlow = /"holdfast"\.(?:flow|flow_job|job_after|dep)\b/;
    const texts = listening
      .stop()
      .filter(({ text }) => /^\s*(?:select|update|delete)/.test(text) && isFlow.test(text));
    assert.ok(texts.length > 20);
    for (const { options, begin } of kinds) {
      const session = await connect(options("cold"));
      await session.query(begin("cold"));
      for (const [index, { text, values }] of texts.entries()) {
        const given = values.map((value) => (Array.isArray(value) ? `{${value.join()}}` : value));
        const nodes = flat(await explain(session, `flow_${index}`, text, given));
        const used = nodes.map((node) => `${node["Node Type"]} ${node["Index Name"] ?? ""}`).join();
        assert.doesNotMatch(used, /Seq Scan|Hash Join|Merge Join/, text);
      }
      await session.end();
    }
  });

  test("statistics are counted and folded by indexes, and never by reading all finished jobs", async () => {
    const listening = listenToTexts(Client.prototype);
    await store.stats.takeCounts({ everyMs: 0 });
    await store.stats.foldMinutes({ limit: 1 });
    const texts = listening.stop().filter(({ text }) => /^\s*select queue/.test(text));
    // The count also counts the minutes that are not over, as the fold does.
    const [live] = texts;
    const ended = texts.find(({ text }) => text.includes("minute_total"));
    const minute = texts.findLast(
      ({ text }) => text.includes('holdfast".finished') || text.includes("holdfast.finished"),
    );
    assert.ok(texts.length >= 3 && ended !== minute);
    for (const { options, begin } of kinds) {
      const session = await connect(options("cold"));
      await session.query(begin("cold"));
      const plan = async (name: string, sent = live) =>
        explain(session, name, sent?.text ?? "", sent?.values ?? []);
      const counting = await plan("counting");
      // In the order of the index: the oldest of each queue comes with the count.
      const ready = flat(counting).filter((node) => node["Relation Name"] === "ready");
      assert.deepEqual(
        ready.map((node) => [node["Node Type"], node["Index Name"]]),
        [["Index Only Scan", "ready_pkey"]],
      );
      assert.deepEqual(tablesOf(counting), ["lease", "ready", "waiting"]);
      assert.deepEqual(tablesOf(await plan("adding", ended)), ["minute_total"]);
      // Of the weeks that jobs are kept in, those that came are looked for in one.
      const folding = await plan("folding", minute);
      assertByIndex(folding, ["finished_default_finished_at_idx"]);
      const indexes = flat(folding).map((node) => node["Index Name"] ?? "");
      assert.deepEqual(
        indexes.filter((index) => index.startsWith("job_")).map((index) => index.slice(-5)),
        ["_pkey"],
      );
      await session.end();
    }
  });

  async function connect(options: string): Promise<Client> {
    const client = new Client({ connectionString: database.url, options });
    await client.connect();
    return client;
  }
});

/** The plan of a prepared statement: the one that its session keeps, if it has one. */
async function explain(
  session: Client,
  name: string,
  text: string,
  values: readonly unknown[],
): Promise<Plan> {
  const known = await session.query("select from pg_prepared_statements where name = $1", [
    name.toLowerCase(),
  ]);
  if (known.rowCount === 0) await session.query(`prepare ${name} as ${text}`);
  const given = values
    .map((value) => (value === null ? "null" : `'${value as string | number}'`))
    .join(", ");
  const { rows } = await session.query<{ "QUERY PLAN": { Plan: Plan }[] }>(
    `explain (format json) execute ${name} ${given === "" ? "" : `(${given})`}`,
  );
  const [plan] = rows[0]?.["QUERY PLAN"] ?? [];
  assert.ok(plan !== undefined);
  return plan.Plan;
}

function assertByIndex(plan: Plan, indexes: readonly string[]): void {
  const nodes = flat(plan);
  const scans = nodes.filter((node) => node["Node Type"] === "Seq Scan");
  assert.deepEqual(
    scans.map((node) => node["Relation Name"]),
    [],
    "a whole table is read",
  );
  const used = nodes.map((node) => node["Index Name"]);
  for (const index of indexes)
    assert.ok(used.includes(index), `${index} is not among ${used.join(" ")}`);
}

function tablesOf(plan: Plan): string[] {
  return [...new Set(flat(plan).flatMap((node) => node["Relation Name"] ?? []))].toSorted();
}

function flat(plan: Plan): Plan[] {
  return [plan, ...(plan.Plans ?? []).flatMap(flat)];
}

function idOf(table: string, n: number): string {
  const hex = n.toString(16);
  return `${hex.padStart(8, "0")}-${table}-7000-8000-${hex.padStart(12, "0")}`;
}
