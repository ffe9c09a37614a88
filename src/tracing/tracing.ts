/**
 * Spans, for applications that trace with OpenTelemetry.
 *
 * Its API is an optional peer dependency. All copies of it in a process share one global, where an application registers its
 * provider. Without a provider the API is not loaded and no span is made. An error of a provider costs a span, never a job.
 */
import { createRequire } from "node:module";
import type * as Otel from "@opentelemetry/api";
import { describeError } from "../core/error-record.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import type { Database } from "../database/database.ts";
import type { Engine, Row } from "../database/engine.ts";
import { sql } from "../database/sql.ts";

// The trace of a job in the form of W3C Trace Context: `traceparent` names the parent span, `tracestate` holds data of tracing
// systems.
//
// Invalid headers are ignored, as the standard requires; an invalid trace from the application is refused with a reason.

/** A trace, in the format of W3C Trace Context. */
export interface TraceContext {
  /** The header `traceparent`. */
  readonly traceparent: string;
  /** The header `tracestate`. */
  readonly tracestate: string | null;
}

/** A trace as an application passes it. */
export interface GivenTrace {
  /** The trace and its parent span, as W3C Trace Context writes them. */
  readonly traceparent: string;
  /** What vendors add to the trace. Default: nothing. */
  readonly tracestate?: string | null;
}

interface SpanName {
  readonly traceId: string;
  readonly spanId: string;
  /** Eight bits; the last one means that the trace is sampled. */
  readonly flags: number;
}

/** Version 00 has 55 characters; a later version may have more, which are ignored. */
const TRACEPARENT_LENGTH_MAX = 255;
/** The standard allows dropping a longer state. */
const TRACESTATE_LENGTH_MAX = 512;

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const NO_TRACE = "0".repeat(32);
const NO_SPAN = "0".repeat(16);
/** Printable ASCII, as in a header. */
const TRACESTATE = /^[ -~]*$/;

export function parseTraceparent(text: string): SpanName | null {
  if (text.length > TRACEPARENT_LENGTH_MAX) return null;
  const [, version, traceId = "", spanId = "", flags = "", more] = TRACEPARENT.exec(text) ?? [];
  if (version === undefined || version === "ff") return null;
  if (version === "00" && more !== undefined) return null;
  if (traceId === NO_TRACE || spanId === NO_SPAN) return null;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) };
}

export function formatTraceparent({ traceId, spanId, flags }: SpanName): string {
  return `00-${traceId}-${spanId}-${(flags & 0xff).toString(16).padStart(2, "0")}`;
}

/** The trace in the headers of a request; null: none, or an invalid one. */
export function traceOf(headers: {
  /** Such as `00-4bf9…-00f0…-01`. */
  readonly traceparent?: string | null | undefined;
  /** What vendors add to the trace; it is passed on unchanged. */
  readonly tracestate?: string | null | undefined;
}): TraceContext | null {
  const traceparent = headers.traceparent?.trim() ?? "";
  if (parseTraceparent(traceparent) === null) return null;
  return { traceparent, tracestate: passable(headers.tracestate?.trim() ?? "") };
}

export function checkTrace(field: string, given: GivenTrace): TraceContext {
  const read = typeof given?.traceparent === "string" ? traceOf(given) : null;
  if (read !== null) return read;
  throw new InvalidArgumentError({
    field,
    problem:
      "pass { traceparent } in the format of W3C Trace Context: 00-<32 hex digits>-<16 hex digits>-<2 hex digits>.",
  });
}

/** Null for a state that is too long or not a valid header: the trace continues without it. */
function passable(tracestate: string): string | null {
  const isPassable = tracestate !== "" && tracestate.length <= TRACESTATE_LENGTH_MAX;
  return isPassable && TRACESTATE.test(tracestate) ? tracestate : null;
}

// The traces of jobs. Few jobs have one, so they have their own table. A row is written and deleted with its job.

/** The public methods of the class, for other implementations. */
export type TracesStore = Pick<SqlTraces, keyof SqlTraces>;

export class SqlTraces {
  readonly #engine: Engine;

  constructor({ engine }: Database) {
    this.#engine = engine;
  }

  /** The traces of these jobs, as far as they have one, in no order. */
  async list(ids: readonly string[]): Promise<JobTrace[]> {
    const real = ids.filter((id) => this.#engine.mayBeId(id));
    if (real.length === 0) return [];
    return this.#engine.all<JobTrace>(sql`
      select job_id as id, traceparent, tracestate
        from holdfast.job_trace
       where ${this.#engine.among(sql`job_id`, real)}`);
  }
}

interface JobTrace extends TraceContext {
  readonly id: string;
}

/** The rows of the jobs that have a trace. */
export function traceRows(
  jobs: readonly { readonly id: string; readonly trace?: TraceContext }[],
): Row[] {
  return jobs.flatMap(({ id, trace }) => {
    if (trace === undefined) return [];
    const { traceparent, tracestate } = trace;
    return [{ job_id: id, traceparent, tracestate }];
  });
}

const TRACER = "holdfast";

type SpanKind = "producer" | "consumer" | "internal";
export type SpanFacts = Readonly<Record<string, string | number>>;

/** What OpenTelemetry's conventions for messaging require of every span about a message. */
export function messagingFacts(name: string, type: "send" | "process", queue: string): SpanFacts {
  return {
    "messaging.system.name": "holdfast",
    "messaging.operation.name": name,
    "messaging.operation.type": type,
    "messaging.destination.name": queue,
  };
}

interface NewSpan {
  readonly name: string;
  readonly kind: SpanKind;
  readonly facts?: SpanFacts;
  /** Default: the active span, if there is one. */
  readonly parent?: TraceContext;
  /** The span that created the message: the conventions want a link to it, whether or not it is the parent. */
  readonly link?: TraceContext;
  /** The parent if no span is active: not every application registers a context manager. */
  readonly within?: OpenSpan | null;
  /** Ignores the active span: without a parent, it begins a new trace. */
  readonly partition?: boolean;
}

export interface OpenSpan {
  /** For its children. */
  readonly trace: TraceContext;
  /** For log lines. */
  readonly ids: { readonly trace_id: string; readonly span_id: string };
  /** Runs the body with this as the active span. */
  run<T>(body: () => T): T;
  add(facts: SpanFacts): void;
  fail(error: unknown): void;
  end(): void;
}

/** The global of all copies of the API of this major version. */
const GLOBAL = Symbol.for("opentelemetry.js.api.1");

let loaded: typeof Otel | null | undefined;

/** The API; null: no provider is registered, or the API is not installed. */
function otelApi(): typeof Otel | null {
  const { [GLOBAL]: shared } = globalThis as { [GLOBAL]?: { readonly trace?: unknown } };
  if (shared?.trace === undefined) return null;
  if (loaded === undefined) loaded = load();
  return loaded;
}

/** Synchronously: with an import(), the first span would have ended before the API was loaded. */
function load(): typeof Otel | null {
  try {
    return createRequire(import.meta.url)("@opentelemetry/api") as typeof Otel;
  } catch {
    return null;
  }
}

/** Whether a provider is registered. */
export function isTracing(): boolean {
  const otel = otelApi();
  return otel !== null && tracerOf(otel) !== null;
}

/** Null: no provider is registered. */
export function openSpan(span: NewSpan): OpenSpan | null {
  const otel = otelApi();
  const own = otel === null ? null : tracerOf(otel);
  if (otel === null || own === null) return null;
  try {
    const { name, kind, facts = {} } = span;
    const around = surroundings(otel, span);
    const options = { kind: KINDS[kind], attributes: { ...facts }, links: linksOf(otel, span) };
    return new ApiSpan(otel, own.startSpan(name, options, around), around);
  } catch {
    return null;
  }
}

/** Runs the body in a span of its own, which ends with it. */
export async function inSpan<T>(
  span: NewSpan,
  body: (open: OpenSpan | null) => Promise<T>,
): Promise<T> {
  const open = openSpan(span);
  if (open === null) return body(null);
  try {
    return await open.run(() => body(open));
  } catch (error) {
    open.fail(error);
    throw error;
  } finally {
    open.end();
  }
}

/** The trace of the active span; if no span is active, that of `within`. */
export function traceHere(within: OpenSpan | null = null): TraceContext | undefined {
  const otel = otelApi();
  if (otel === null) return undefined;
  try {
    const active = otel.trace.getSpanContext(otel.context.active());
    const isReal = active !== undefined && otel.isSpanContextValid(active);
    return isReal ? written(active) : within?.trace;
  } catch {
    return undefined;
  }
}

/** `SpanKind` of the API, by its numbers: internal 0, producer 3, consumer 4. */
const KINDS: Readonly<Record<SpanKind, number>> = { internal: 0, producer: 3, consumer: 4 };
const STATUS_ERROR = 2;

/** The API's own provider delegates to the registered one, and exists before it. */
interface Provider {
  getTracer(name: string): Otel.Tracer;
  getDelegateTracer?(name: string): Otel.Tracer | undefined;
}

function tracerOf(otel: typeof Otel): Otel.Tracer | null {
  try {
    const provider: Provider = otel.trace.getTracerProvider();
    if (provider.getDelegateTracer === undefined) return provider.getTracer(TRACER);
    return provider.getDelegateTracer(TRACER) ?? null;
  } catch {
    return null;
  }
}

function surroundings(
  otel: typeof Otel,
  { parent, within, partition: apart }: NewSpan,
): Otel.Context {
  const base = apart === true ? otel.ROOT_CONTEXT : otel.context.active();
  if (parent !== undefined) {
    const read = readTrace(otel, parent);
    return read === null ? base : otel.trace.setSpanContext(base, read);
  }
  const isAlone = otel.trace.getSpan(base) === undefined;
  return isAlone && within instanceof ApiSpan ? within.around : base;
}

function linksOf(otel: typeof Otel, { link }: NewSpan): Otel.Link[] {
  const context = link === undefined ? null : readTrace(otel, link);
  return context === null ? [] : [{ context }];
}

function readTrace(otel: typeof Otel, { traceparent, tracestate }: TraceContext) {
  const read = parseTraceparent(traceparent);
  if (read === null) return null;
  const { traceId, spanId, flags: traceFlags } = read;
  const state = tracestate === null ? {} : { traceState: otel.createTraceState(tracestate) };
  return { traceId, spanId, traceFlags, isRemote: true, ...state };
}

function written({ traceId, spanId, traceFlags, traceState }: Otel.SpanContext): TraceContext {
  const state = traceState?.serialize() ?? "";
  const isPassable = state !== "" && state.length <= TRACESTATE_LENGTH_MAX;
  const traceparent = formatTraceparent({ traceId, spanId, flags: traceFlags });
  return { traceparent, tracestate: isPassable ? state : null };
}

class ApiSpan implements OpenSpan {
  readonly trace: TraceContext;
  readonly ids: OpenSpan["ids"];
  /** With this as the active span. */
  readonly around: Otel.Context;
  readonly #api: typeof Otel;
  readonly #span: Otel.Span;

  constructor(otel: typeof Otel, span: Otel.Span, around: Otel.Context) {
    const names = span.spanContext();
    this.#api = otel;
    this.#span = span;
    this.around = otel.trace.setSpan(around, span);
    this.trace = written(names);
    this.ids = { trace_id: names.traceId, span_id: names.spanId };
  }

  run<T>(body: () => T): T {
    return this.#api.context.with(this.around, body);
  }

  add(facts: SpanFacts): void {
    this.#quietly(() => this.#span.setAttributes({ ...facts }));
  }

  fail(error: unknown): void {
    this.#quietly(() => {
      const { name, message, code, stack } = describeError(error);
      this.#span.setAttribute("error.type", code ?? name);
      this.#span.recordException({ name, message, ...(stack === null ? {} : { stack }) });
      this.#span.setStatus({ code: STATUS_ERROR, message });
    });
  }

  end(): void {
    this.#quietly(() => this.#span.end());
  }

  #quietly(call: () => unknown): void {
    try {
      call();
    } catch {
      // Only the span is lost.
    }
  }
}
