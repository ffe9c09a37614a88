/** Trace contexts as strangers write them: what the standard allows is read, and nothing else. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  checkTrace,
  formatTraceparent,
  parseTraceparent,
  traceOf,
} from "../../src/tracing/tracing.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const spanId = "00f067aa0ba902b7";
const traceparent = `00-${traceId}-${spanId}-01`;

suite("a traceparent", () => {
  test("names a trace, a span and whether they are sampled", () => {
    assert.deepEqual(parseTraceparent(traceparent), { traceId, spanId, flags: 1 });
    assert.equal(formatTraceparent({ traceId, spanId, flags: 1 }), traceparent);
    assert.equal(formatTraceparent({ traceId, spanId, flags: 0 }), `00-${traceId}-${spanId}-00`);
  });

  test("of a later version is read as far as we know it", () => {
    assert.deepEqual(parseTraceparent(`cc-${traceId}-${spanId}-01-what.the.future.says`), {
      traceId,
      spanId,
      flags: 1,
    });
  });

  const bad: [what: string, text: string][] = [
    ["nothing", ""],
    ["capital letters", traceparent.toUpperCase()],
    ["a trace of zeros", `00-${"0".repeat(32)}-${spanId}-01`],
    ["a span of zeros", `00-${traceId}-${"0".repeat(16)}-01`],
    ["a version that is forbidden", `ff-${traceId}-${spanId}-01`],
    ["more than version 00 has", `${traceparent}-more`],
    ["too few digits", traceparent.slice(0, -1)],
    ["more than any header should have", `cc-${traceId}-${spanId}-01-${"x".repeat(300)}`],
    ["a line break", `${traceparent}\n`],
  ];
  for (const [what, text] of bad) {
    test(`with ${what} is none`, () => {
      assert.equal(parseTraceparent(text), null);
    });
  }
});

suite("a request", () => {
  test("brings its trace and what others added to it", () => {
    assert.deepEqual(traceOf({ traceparent: ` ${traceparent} `, tracestate: "a=1,b=2" }), {
      traceparent,
      tracestate: "a=1,b=2",
    });
  });

  test("without a trace, or with one that cannot be read, brings none", () => {
    assert.equal(traceOf({}), null);
    assert.equal(traceOf({ traceparent: "what?", tracestate: "a=1" }), null);
  });

  test("is used without a state that is too long or not a header", () => {
    for (const tracestate of [`a=${"x".repeat(600)}`, "a=\u0000", "a=é", ""]) {
      assert.deepEqual(traceOf({ traceparent, tracestate }), { traceparent, tracestate: null });
    }
  });
});

test("a trace that an application passes must be valid", () => {
  assert.deepEqual(checkTrace("trace", { traceparent }), { traceparent, tracestate: null });
  for (const given of [{ traceparent: "what?" }, {}, null, "text"]) {
    assert.throws(() => checkTrace("trace", given as never), {
      code: "INVALID_ARGUMENT",
      field: "trace",
    });
  }
});
