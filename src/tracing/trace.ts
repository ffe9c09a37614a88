/**
 * The trace that a job belongs to, as W3C's Trace Context writes it: `traceparent` names the span that a job comes from,
 * `tracestate` is what tracing systems add to it.
 *
 * Headers come from strangers. What does not read as the standard says is left out, as the standard wants it; what an
 * application passes by itself is refused with a reason.
 */
import { InvalidArgumentError } from "../core/errors.ts";

export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate: string | null;
}

/** What an application, or whoever reads HTTP headers, may pass. */
export interface GivenTrace {
  readonly traceparent: string;
  readonly tracestate?: string | null;
}

/** A span, as others name it. */
export interface SpanName {
  readonly traceId: string;
  readonly spanId: string;
  /** Eight bits, of which the last says that the trace is sampled. */
  readonly flags: number;
}

/** Version 00 has 55 characters; a later one may be longer and is read as far as we know it. */
export const TRACEPARENT_LENGTH_MAX = 255;
/** More than this need not be passed on, says the standard; then none of it is. */
export const TRACESTATE_LENGTH_MAX = 512;

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const NO_TRACE = "0".repeat(32);
const NO_SPAN = "0".repeat(16);
/** Printable ASCII, as a header is. */
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

/** What comes with a request: null when there is no trace in it that can be read. */
export function traceOf(headers: {
  readonly traceparent?: string | null | undefined;
  readonly tracestate?: string | null | undefined;
}): TraceContext | null {
  const traceparent = headers.traceparent?.trim() ?? "";
  if (parseTraceparent(traceparent) === null) return null;
  return { traceparent, tracestate: passable(headers.tracestate?.trim() ?? "") };
}

/** What an application passes has to be right. */
export function checkTrace(field: string, given: GivenTrace): TraceContext {
  const isText = typeof given?.traceparent === "string";
  const read = isText ? traceOf(given) : null;
  if (read !== null) return read;
  throw new InvalidArgumentError({
    field,
    problem:
      "give { traceparent } as W3C's Trace Context writes it: 00-<32 hex digits>-<16 hex digits>-<2 hex digits>.",
  });
}

/** A state that is too long, or not what a header can hold, is left out: the trace goes on without it. */
function passable(tracestate: string): string | null {
  const isPassable = tracestate !== "" && tracestate.length <= TRACESTATE_LENGTH_MAX;
  return isPassable && TRACESTATE.test(tracestate) ? tracestate : null;
}
