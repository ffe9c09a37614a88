/** A server that is restarted, cuts its clients off or refuses to write, under a worker and a client that are at work. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { OutcomeUnknownError } from "../../src/core/errors.ts";
import { openHoldfast, StoreUnavailableError } from "../../src/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { Proxy } from "../support/proxy.ts";
import type { GuardedServer } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { Crew, type Stream } from "./crew.ts";
import { adminOf, engines, newDatabase, type EngineUnderTest } from "./engines.ts";

/** Longer than a restart takes, so that no handler has to stop for it. */
const LEASE = "20s";

const JOBS_MAX = 1_000;

/** Far less than a worker waits between two looks by itself. */
const MOMENT_MS = 5_000;

/** Everything that was accepted is there, and besides only jobs whose answer was lost. */
async function checkNothingElse(crew: Crew, stream: Stream, others: number): Promise<void> {
  const jobs = await crew.holdfast.jobs.list({ limit: JOBS_MAX });
  const known = stream.accepted.length + others;
  assert.ok(jobs.length < JOBS_MAX);
  assert.ok(jobs.length >= known, `${known} were accepted, ${jobs.length} are there`);
  assert.ok(jobs.length <= known + stream.unknown, "a job is there whose caller was told nothing");
}

/** A pool may not have noticed yet that its idle connection is gone. Then the enqueue is lost on its way. */
function isUnreachable(error: unknown): boolean {
  return error instanceof StoreUnavailableError || error instanceof OutcomeUnknownError;
}

/** The server goes and comes back while two handlers run and jobs are enqueued. */
async function outlive(
  engine: EngineUnderTest,
  server: GuardedServer,
  goDown: (server: GuardedServer) => Promise<void>,
): Promise<void> {
  const { url } = await newDatabase(engine, server);
  await using crew = await Crew.start(url, { lease: LEASE, concurrency: 4 });
  const held = [await crew.held(), await crew.held()] as const;
  const stream = crew.stream();
  await stream.more(20);
  const { pid } = server;
  await goDown(server);
  await assert.rejects(crew.holdfast.stats(), StoreUnavailableError);
  await assert.rejects(crew.quick(), isUnreachable);
  crew.end(held[0].id);
  await until("an activity fails", () => crew.complaints().size > 0);
  await server.restart();
  assert.notEqual(server.pid, pid, "it is another process");
  crew.end(held[1].id);
  await stream.more(20);
  await stream.stop();
  await crew.checkDoneOnce([...held, ...stream.accepted]);
  await checkNothingElse(crew, stream, held.length);
  await crew.checkLog({ timesMax: 1 });
}

const KILLS = 40;
const FIRST = 20;

/** Every session that Holdfast has is ended, again and again, while it works. */
async function outliveKills(engine: EngineUnderTest, server: GuardedServer): Promise<void> {
  const { url, adminUrl } = await newDatabase(engine, server);
  await using admin = await adminOf(adminUrl);
  await using crew = await Crew.start(url, { lease: LEASE, concurrency: 4 });
  // From here on its tables are open: what happens to a session that opens one is in broken-trigger.test.ts.
  const first = await Promise.all(Array.from({ length: FIRST }, () => crew.quick()));
  await crew.checkDone(first);
  const held = await crew.held();
  const stream = crew.stream();
  let killed = 0;
  for (let kills = 0; kills < KILLS; kills += 1) {
    await stream.more(1);
    killed += await admin.killSessions();
  }
  assert.ok(killed > KILLS, `${killed} sessions were killed`);
  await stream.more(3);
  await stream.stop();
  crew.end(held.id);
  await crew.checkDoneOnce([held, ...stream.accepted]);
  await checkNothingElse(crew, stream, 1 + FIRST);
  assert.deepEqual(
    { refused: stream.refused, unknown: stream.unknown },
    { refused: 0, unknown: 0 },
  );
  await crew.checkLog({ timesMax: KILLS });
}

/** The server takes no more writes, as one that becomes a replica, and takes them again. */
async function outliveReadOnly(engine: EngineUnderTest, server: GuardedServer): Promise<void> {
  const { url, adminUrl } = await newDatabase(engine, server);
  await using admin = await adminOf(adminUrl);
  await using crew = await Crew.start(url, { lease: LEASE });
  const held = await crew.held();
  await admin.letWrite(false);
  try {
    const isRefused = (): Promise<boolean> => crew.quick().then(() => false, isUnavailable);
    await until("writes are refused", isRefused);
    crew.end(held.id);
    await until("the worker is refused too", () => crew.complaints().has("poll cycle"));
    const [said] = crew.complaints().get("poll cycle") ?? [];
    assert.match(said?.message ?? "", /read-only.*Name the primary in the URL/);
  } finally {
    await admin.letWrite(true);
  }
  const isTaken = (): Promise<boolean> =>
    crew.quick().then(
      () => true,
      () => false,
    );
  await until("writes are taken again", isTaken);
  const jobs = await crew.holdfast.jobs.list();
  await until("all is done", async () => {
    const done = await crew.holdfast.jobs.list({ status: "done" });
    return done.length === jobs.length;
  });
  assert.ok(jobs.every(({ id }) => crew.runs(id) === 1));
  await crew.checkDoneOnce([held]);
  await crew.checkLog({ timesMax: 1 });
}

function isUnavailable(error: unknown): boolean {
  return error instanceof StoreUnavailableError;
}

/** The server commits, and is killed before it can say so. */
async function outliveItsAnswer(engine: EngineUnderTest, server: GuardedServer): Promise<void> {
  const { url } = await newDatabase(engine, server);
  await using proxy = await Proxy.before(url);
  await using crew = await Crew.start(proxy.url, { lease: LEASE });
  await crew.tasksAreRecorded(); // with a commit of its own
  const fault = proxy.loseAnswer(engine.alone.insert);
  const enqueued = crew.quick();
  await fault.answered;
  await server.kill();
  await server.restart();
  const job = await enqueued;
  assert.ok(job.added);
  assert.ok(fault.swallowed > 0);
  await crew.checkDoneOnce([job]);
  assert.equal((await crew.holdfast.jobs.list()).length, 1);
}

/** A claim is lost on its way to the server; nothing else wakes the worker. */
async function outliveLostClaim(engine: EngineUnderTest, server: GuardedServer): Promise<void> {
  const { url, adminUrl } = await newDatabase(engine, server);
  await using proxy = await Proxy.before(url);
  await using crew = await Crew.start(proxy.url, { lease: LEASE, poll: "10m" });
  await crew.checkDone([await crew.quick()]);
  await using other = await openHoldfast(adminUrl);
  const fault = proxy.loseRequest(engine.alone.claim);
  const { id } = await other.enqueue("quick", 1);
  await fault.fired;
  assert.equal(proxy.counters.withheld, 1);
  await until("it is claimed after all", () => crew.runs(id) === 1, MOMENT_MS);
}

/** A worker whose server went away can be stopped, and says what it could not settle. */
async function stopWithoutServer(engine: EngineUnderTest, server: GuardedServer): Promise<void> {
  const { url } = await newDatabase(engine, server);
  const crew = await Crew.start(url, { lease: LEASE });
  const job = await crew.held();
  await server.stop();
  try {
    crew.end(job.id);
    await crew.worker.stop({ timeout: 0 });
    assert.equal(crew.worker.status().state, "stopped");
    const told = [
      ...crew.log.of("could not settle; the leases will expire"),
      ...crew.log.of("the database did not answer; the worker stops without it"),
    ];
    assert.ok(told.length > 0, "it stopped without a word");
    await crew[Symbol.asyncDispose]();
  } finally {
    await server.restart();
  }
}

for (const engine of engines) {
  describe(engine.label, { skip: engine.missingPrograms, timeout: 120_000 }, () => {
    let server: GuardedServer;
    before(async () => void (server = await engine.start()));
    after(() => server[Symbol.asyncDispose]());

    test("a server that is killed and started again costs time and no job", () =>
      outlive(engine, server, (each) => each.kill()));

    test("a server that is restarted in order costs time and no job", () =>
      outlive(engine, server, (each) => each.stop()));

    test("connections that the server ends again and again cost no job", () =>
      outliveKills(engine, server));

    test("a server that takes no writes for a while costs time and no job", () =>
      outliveReadOnly(engine, server));

    test("a job is accepted once whose server was killed after it committed", () =>
      outliveItsAnswer(engine, server));

    test("a claim that is lost on its way to the server is made again soon", () =>
      outliveLostClaim(engine, server));

    test("a worker can be stopped while its server is away", () =>
      stopWithoutServer(engine, server));
  });
}

after(assertNothingRuns);
