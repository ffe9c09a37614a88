/**
 * The trace of a job in the form of W3C Trace Context: `traceparent` names the parent span, `tracestate` holds data of tracing
 * systems.
 *
 * Invalid headers are ignored, as the standard requires; an invalid trace from the application is refused with a reason.
 */
import { InvalidArgumentError } from "../core/errors.ts";

export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate: string | null;
}

/** A trace as an application passes it. */
export interface GivenTrace {
  readonly traceparent: string;
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
export const TRACESTATE_LENGTH_MAX = 512;

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
  readonly traceparent?: string | null | undefined;
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
