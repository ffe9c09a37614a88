/** One trace from the request over the attempt to the step, as an exporter of spans sees it. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { defineTask } from "../../src/index.ts";
import { tempFolder } from "../support/folder.ts";
import { until } from "../worker/observe.ts";
import { TestServer } from "./client.ts";

const TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736";
const REQUEST = "00f067aa0ba902b7";
const headers = { traceparent: `00-${TRACE_ID}-${REQUEST}-01`, tracestate: "vendor=1" };

const ship = defineTask({
  name: "order.ship",
  run: (order: { id: string }, ctx) => ctx.step("quote", () => order.id.length),
});

const exporter = new InMemorySpanExporter();
const spanProcessors = [new SimpleSpanProcessor(exporter)];

suite("a process that exports spans", () => {
  before(() => {
    trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors }));
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  });
  after(() => {
    trace.disable();
    context.disable();
  });

  test("a request, its job's attempt and the attempt's step are one trace", async () => {
    using folder = tempFolder();
    await using api = await TestServer.open(`sqlite:${folder.file(".db")}`, { tasks: [ship] });
    await api.holdfast.startWorker({ tasks: [ship] });
    const body = { task: "order.ship", input: { id: "42" } };
    const { status, json } = await api.ask("/api/v1/jobs", { body, headers });
    assert.equal(status, 201);
    const spans = await until("all have ended", () => {
      const ended = exporter.getFinishedSpans();
      return ended.some(({ name }) => name.startsWith("attempt")) ? ended : null;
    });
    const named = (start: string) =>
      spans.find(({ name }) => name.startsWith(start)) ?? assert.fail(`no span '${start}'`);
    const [enqueue, attempt, step] = [named("enqueue"), named("attempt"), named("step")];
    for (const span of [enqueue, attempt, step])
      assert.equal(span.spanContext().traceId, TRACE_ID, span.name);
    assert.equal(enqueue.parentSpanContext?.spanId, REQUEST);
    assert.equal(attempt.parentSpanContext?.spanId, enqueue.spanContext().spanId);
    assert.equal(step.parentSpanContext?.spanId, attempt.spanContext().spanId);
    assert.equal(attempt.attributes["holdfast.job.id"], json.id);
  });

  test("headers that are no trace are left alone", async () => {
    await using api = await TestServer.open();
    const body = { task: "order.ship", input: { id: "42" } };
    const { status } = await api.ask("/api/v1/jobs", {
      body,
      headers: { traceparent: "00-nonsense" },
    });
    assert.equal(status, 201);
  });
});
