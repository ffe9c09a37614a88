/** An application that traces sees one trace from the request to the last step of the last attempt; one that does not, nothing. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { after, afterEach, before, beforeEach, suite, test } from "node:test";
import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
} from "@opentelemetry/sdk-trace-base";
import { openStore } from "../../src/app/store.ts";
import { defineTask, type Holdfast, openHoldfast, traceOf } from "../../src/index.ts";
import { defineWorkflow, unchecked } from "../../src/workflows/index.ts";
import { sql } from "../../src/database/sql.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { drawnEngines, type Place } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { keepLog, until } from "./observe.ts";
import { wrapStore } from "./wrapped-store.ts";

after(assertNothingRuns);

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const requestSpan = "00f067aa0ba902b7";
const headers = { traceparent: `00-${traceId}-${requestSpan}-01`, tracestate: "vendor=1" };
const request = traceOf(headers) ?? assert.fail("the headers cannot be read");

const INDEX = new URL("../../src/index.ts", import.meta.url).href;

const exporter = new InMemorySpanExporter();

/** As the SDK of an application registers itself. */
function register({ contexts = true }: { contexts?: boolean } = {}): void {
  const spanProcessors = [new SimpleSpanProcessor(exporter)];
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors }));
  if (contexts) context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
}

function unregister(): void {
  trace.disable();
  context.disable();
  exporter.reset();
}

/** The spans that have ended, by name. */
function spans(name: string): ReadableSpan[] {
  return exporter.getFinishedSpans().filter((span) => span.name === name);
}

async function spanOf(name: string, nth = 0): Promise<ReadableSpan> {
  return until(`there is a span '${name}'`, () => spans(name)[nth] ?? null);
}

function parentOf(span: ReadableSpan): string | undefined {
  return span.parentSpanContext?.spanId;
}

/** What the conventions for messaging say of a span. */
function messagingOf({ attributes }: ReadableSpan): Record<string, unknown> {
  const all = Object.entries(attributes);
  return Object.fromEntries(all.filter(([name]) => name.startsWith("messaging.")));
}

const idOf = (span: ReadableSpan): string => span.spanContext().spanId;

/** Fails once, then makes a step and an effect, inside of a span of its own. */
const shipTask = () =>
  defineTask({
    name: "order.ship",
    retry: { maxAttempts: 3, backoff: { initial: 1, max: 1 } },
    async run(_order: { id: string }, ctx) {
      if (ctx.attempt === 1) throw new Error("the carrier said no");
      const own = trace.getTracer("shop").startSpan("packing");
      own.end();
      await ctx.step("quote", async () => {
        trace.getTracer("shop").startSpan("asking").end();
        return 1;
      });
      await ctx.effect("charge", () => "paid");
      return "sent";
    },
  });

async function tracesIn(holdfast: Holdfast): Promise<number> {
  const { engine } = holdfast.store.db;
  const [row] = await engine.all<{ n: number }>(sql`select count(*) as n from holdfast.job_trace`);
  return Number(row?.n);
}

for (const { name, skip, place: open } of drawnEngines("traces")) {
  suite(`a job that is traced on ${name}`, { skip, timeout: 60_000 }, () => {
    let place: Place;
    before(async () => void (place = await open()));
    after(() => place[Symbol.asyncDispose]());
    beforeEach(() => register());
    afterEach(unregister);

    test("is one trace, from the request through both attempts to its steps", async () => {
      await using holdfast = await openHoldfast(place.url);
      const ship = shipTask();
      await holdfast.startWorker({ tasks: [ship], maintenanceInterval: 20 });
      const job = await holdfast.enqueue(ship, { id: "42" }, { trace: request });
      assert.equal(await job.result({ timeout: "20s" }), "sent");

      const enqueue = await spanOf("enqueue order.ship");
      const [first, second] = [
        await spanOf("attempt order.ship", 0),
        await spanOf("attempt order.ship", 1),
      ];
      const step = await spanOf("step quote");
      const effect = await spanOf("effect charge");
      const all = [
        enqueue,
        first,
        second,
        step,
        effect,
        await spanOf("packing"),
        await spanOf("asking"),
      ];
      assert.deepEqual(
        all.map((span) => span.spanContext().traceId),
        all.map(() => traceId),
      );
      assert.equal(parentOf(enqueue), requestSpan);
      assert.equal(enqueue.spanContext().traceState?.serialize(), "vendor=1");
      assert.equal(enqueue.kind, SpanKind.PRODUCER);
      for (const attempt of [first, second]) {
        assert.equal(parentOf(attempt), idOf(enqueue));
        assert.equal(attempt.kind, SpanKind.CONSUMER);
        assert.equal(attempt.attributes["holdfast.job.id"], job.id);
        assert.match(String(attempt.attributes["holdfast.worker"]), /^worker-/);
        assert.deepEqual(
          attempt.links.map((link) => link.context.spanId),
          [idOf(enqueue)],
        );
      }
      assert.deepEqual(messagingOf(enqueue), {
        "messaging.system.name": "holdfast",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "default",
        "messaging.message.id": job.id,
      });
      assert.deepEqual(messagingOf(first), {
        "messaging.system.name": "holdfast",
        "messaging.operation.name": "attempt",
        "messaging.operation.type": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": job.id,
        "messaging.client.id": first.attributes["holdfast.worker"],
      });
      assert.equal(first.attributes["error.type"], "Error");
      assert.equal(second.attributes["error.type"], undefined);
      const told = [first, second].map(({ attributes, status }) => [
        attributes["holdfast.attempt"],
        attributes["holdfast.outcome"],
        status.code,
      ]);
      assert.deepEqual(told, [
        [1, "retried", SpanStatusCode.ERROR],
        [2, "done", SpanStatusCode.UNSET],
      ]);
      assert.equal(first.events[0]?.attributes?.["exception.message"], "the carrier said no");
      for (const inner of [step, effect, await spanOf("packing")]) {
        assert.equal(parentOf(inner), idOf(second));
      }
      assert.equal(parentOf(await spanOf("asking")), idOf(step));
    });

    test("in bulk, with keys, and inside of a transaction keeps its trace", async () => {
      await using holdfast = await openHoldfast(place.url);
      const ship = shipTask();
      const inputs = Array.from({ length: 3 }, (_, index) => ({ id: String(index) }));
      const jobs = await holdfast.enqueueMany(ship, inputs, ({ id }) => ({ key: id }));
      jobs.push(...(await holdfast.enqueueMany(ship, inputs)));
      const { engine } = holdfast.store.db;
      await engine.userTransaction(
        async ({ client }) =>
          void jobs.push(await holdfast.within(client).enqueue(ship, { id: "7" })),
        async () => {},
      );
      const traces = await holdfast.store.traces.list(jobs.map(({ id }) => id));
      assert.equal(traces.length, 7);
      const ids = new Set(traces.map(({ traceparent }) => traceparent.split("-")[1]));
      const enqueues = spans("enqueue order.ship");
      assert.deepEqual(ids, new Set(enqueues.map((span) => span.spanContext().traceId)));
      assert.equal(ids.size, 3);
    });
  });
}

suite("traces", { timeout: 30_000 }, () => {
  afterEach(unregister);

  const parent = (child: ReturnType<typeof shipTask>) =>
    defineTask({
      name: "parent",
      async run(_input: null, ctx) {
        await holdfastOf.enqueue(child, { id: "1" });
        return ctx.attempt;
      },
    });
  let holdfastOf: Holdfast;

  test("continue in jobs that a job enqueues or calls", async () => {
    register();
    await using holdfast = await openHoldfast("sqlite::memory:");
    holdfastOf = holdfast;
    const ship = shipTask();
    const calls = defineTask({
      name: "calls",
      run: (_input: null, ctx) => ctx.call(ship, { id: "2" }),
    });
    await holdfast.startWorker({ tasks: [parent(ship), calls, ship], maintenanceInterval: 20 });
    await holdfast.enqueue(calls, null, { trace: request });
    await holdfast.enqueue("parent", null, { trace: request });
    const attempts = await until("all attempts have ended", () => {
      const found = spans("attempt order.ship");
      return found.length === 4 ? found : null;
    });
    for (const span of attempts) assert.equal(span.spanContext().traceId, traceId);
  });

  test("continue in the jobs of a workflow item", async () => {
    register();
    const notify = defineTask({ name: "notify", run: () => null });
    const order = defineWorkflow({
      name: "order",
      version: 1,
      data: unchecked<{ n: number }>(),
      initial: "open",
      states: { open: { enter: ({ enqueue }) => enqueue(notify, null) }, closed: { final: true } },
      moves: { close: { from: "open", to: "closed" } },
    });
    await using holdfast = await openHoldfast("sqlite::memory:");
    await holdfast.startWorker({ tasks: [notify], workflows: [order] });
    await trace.getTracer("shop").startActiveSpan("ordering", async (span) => {
      await holdfast.workflows.start(order, { data: { n: 1 }, actor: "web" });
      span.end();
    });
    const attempt = await spanOf("attempt notify");
    assert.equal(parentOf(attempt), idOf(await spanOf("ordering")));
  });

  test("are one even if the application does not expose its active span", async () => {
    register({ contexts: false });
    await using holdfast = await openHoldfast("sqlite::memory:");
    const ship = shipTask();
    await holdfast.startWorker({ tasks: [ship], maintenanceInterval: 20 });
    await (
      await holdfast.enqueue(ship, { id: "1" }, { trace: request })
    ).result({ timeout: "20s" });
    const attempt = await spanOf("attempt order.ship", 1);
    assert.equal(parentOf(attempt), idOf(await spanOf("enqueue order.ship")));
    assert.equal(parentOf(await spanOf("step quote")), idOf(attempt));
  });

  test("of a worker do not belong to the code that started it", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const echo = defineTask({ name: "echo", run: (value: number) => value });
    // Enqueued before anybody traced.
    await holdfast.enqueue(echo, 1);
    register();
    await trace.getTracer("shop").startActiveSpan("starting", async (span) => {
      await holdfast.startWorker({ tasks: [echo] });
      span.end();
    });
    assert.equal(parentOf(await spanOf("attempt echo")), undefined);
  });

  test("name the attempt in the log", async () => {
    register();
    const log = keepLog();
    await using holdfast = await openHoldfast("sqlite::memory:", { logger: log.logger });
    const ship = shipTask();
    const worker = await holdfast.startWorker({ tasks: [ship], maintenanceInterval: 20 });
    await holdfast.enqueue(ship, { id: "1" }, { trace: request, maxAttempts: 1 });
    const attempt = await spanOf("attempt order.ship");
    await until("it is dead", () => worker.status().failed === 1);
    const { facts } = log.of("job failed")[0] ?? assert.fail("it was not logged");
    assert.equal(facts["trace_id"], traceId);
    assert.equal(facts["span_id"], idOf(attempt));
  });

  test("end as lost where the database refused the outcome", async () => {
    register();
    const end = Promise.withResolvers<null>();
    const store = await openStore("sqlite::memory:");
    await using holdfast = await openHoldfast(store);
    const slow = defineTask({ name: "slow", run: () => end.promise });
    const worker = await holdfast.startWorker({ tasks: [slow] });
    const job = await holdfast.enqueue(slow, null);
    await until("it runs", () => worker.status().running === 1);
    await store.db.engine.run(sql`delete from holdfast.lease where id = ${job.id}`);
    end.resolve(null);
    const attempt = await spanOf("attempt slow");
    assert.equal(attempt.attributes["holdfast.outcome"], "lost");
    assert.equal(attempt.status.code, SpanStatusCode.ERROR);
  });

  test("that cannot be looked up cost a trace, never a job", async () => {
    register();
    const store = wrapStore(await openStore("sqlite::memory:"), () => ({
      traces: {
        list: () => Promise.reject(new Error("the table is locked")),
      },
    }));
    await using holdfast = await openHoldfast(store);
    const echo = defineTask({ name: "echo", run: (value: number) => value });
    await holdfast.startWorker({ tasks: [echo] });
    const job = await holdfast.enqueue(echo, 1, { trace: request });
    assert.equal(await job.result({ timeout: "10s" }), 1);
    const attempt = await spanOf("attempt echo");
    assert.notEqual(attempt.spanContext().traceId, traceId);
  });

  test("of a provider that throws cost a span, never a job", async () => {
    register();
    const broken = { getTracer: () => ({ startSpan: () => assert.fail("broken") }) };
    trace.disable();
    trace.setGlobalTracerProvider(broken as never);
    await using holdfast = await openHoldfast("sqlite::memory:");
    const ship = shipTask();
    await holdfast.startWorker({ tasks: [ship], maintenanceInterval: 20 });
    trace.getTracer("shop");
    const quiet = defineTask({
      name: "quiet",
      run: (_input: null, ctx) => ctx.step("one", () => 1),
    });
    await holdfast.startWorker({ tasks: [quiet], name: "other" });
    const job = await holdfast.enqueue(quiet, null);
    assert.equal(await job.result({ timeout: "10s" }), 1);
  });
});

test("a provider that has no tracer to give costs no job either", async () => {
  register();
  trace.disable();
  trace.setGlobalTracerProvider({ getTracer: () => assert.fail("broken") });
  try {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const echo = defineTask({ name: "echo", run: (value: number) => value });
    await holdfast.startWorker({ tasks: [echo] });
    const job = await holdfast.enqueue(echo, 1);
    assert.equal(await job.result({ timeout: "10s" }), 1);
  } finally {
    unregister();
  }
});

suite("an application that does not trace", () => {
  test("has no row of a trace, and the same statements as ever", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const echo = defineTask({ name: "echo", run: (value: number) => value });
    await holdfast.enqueue(echo, 1);
    await holdfast.enqueueMany(echo, [2, 3], (value) => ({ key: String(value) }));
    await kit.drain([echo]);
    assert.equal(await tracesIn(holdfast), 0);
  });

  test("does not even load the tracing API", () => {
    const program = `
      import { createRequire } from "node:module";
      import { defineTask, openHoldfast } from ${JSON.stringify(INDEX)};
      const echo = defineTask({ name: "echo", run: (value) => value });
      const holdfast = await openHoldfast("sqlite::memory:");
      await holdfast.startWorker({ tasks: [echo] });
      await (await holdfast.enqueue(echo, 1)).result({ timeout: "10s" });
      await holdfast.close();
      const { cache } = createRequire(import.meta.url);
      console.log(Object.keys(cache).filter((file) => file.includes("opentelemetry")).length);`;
    const { stdout, stderr } = spawnSync(
      process.execPath,
      ["--input-type=module", "--eval", program],
      { encoding: "utf8", timeout: 20_000 },
    );
    assert.deepEqual({ stdout: stdout.trim(), stderr }, { stdout: "0", stderr: "" });
  });

  test("still passes on a given trace", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const job = await holdfast.enqueue("echo", 1, { trace: headers });
    assert.deepEqual(await holdfast.store.traces.list([job.id]), [{ id: job.id, ...headers }]);
    await assert.rejects(holdfast.enqueue("echo", 1, { trace: { traceparent: "what?" } }), {
      code: "INVALID_ARGUMENT",
      field: "trace",
    });
  });
});
