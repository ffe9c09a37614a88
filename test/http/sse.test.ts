/** A stream by itself: what is written, who is cut off and when, and that nothing is left behind. The test goes off in place of the timers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Runtime } from "../../src/core/runtime.ts";
import { DEFAULT_LIMITS } from "../../src/http-kernel/limits.ts";
import { EventStream, Streams } from "../../src/http-kernel/sse.ts";
import { testRuntime } from "../support/runtime.ts";

const limits = { ...DEFAULT_LIMITS, streamBuffer: 3, streams: 3, streamsEach: 2 };

/** Timers that go off when the test says so. */
class Alarms {
  readonly #set = new Map<object, { readonly ms: number; readonly call: () => void }>();
  readonly runtime: Runtime = {
    ...testRuntime(),
    timer: (ms, call) => {
      const timer = { cancel: () => void this.#set.delete(timer) };
      this.#set.set(timer, { ms, call });
      return timer;
    },
  };

  get waiting(): number[] {
    return [...this.#set.values()].map(({ ms }) => ms);
  }

  /** All that were set for so long. */
  goOff(ms: number): void {
    const due = [...this.#set].filter(([, one]) => one.ms === ms);
    for (const [timer] of due) this.#set.delete(timer);
    for (const [, { call }] of due) call();
  }
}

function setUp(): { alarms: Alarms; stream: EventStream; read: () => Promise<string | null> } {
  const alarms = new Alarms();
  const stream = new EventStream(alarms.runtime, limits);
  const reader = stream.body.getReader();
  const read = async (): Promise<string | null> => {
    const { done, value } = await reader.read();
    return done ? null : new TextDecoder().decode(value);
  };
  return { alarms, stream, read };
}

test("an event is written as the standard has it, on one line whatever its data", async () => {
  const { stream, read } = setUp();
  assert.equal(await read(), "retry: 2000\n\n");
  stream.send({ id: "7", event: "report", data: { text: "a\nb\r\u2028" } });
  assert.equal(await read(), 'id: 7\nevent: report\ndata: {"text":"a\\nb\\r\u2028"}\n\n');
  stream.send({ event: "plain", data: null });
  assert.equal(await read(), "event: plain\ndata: null\n\n");
  stream.end();
  assert.equal(await read(), null);
});

test("a client whose buffer is full is disconnected, and the source is notified", async () => {
  const { alarms, stream, read } = setUp();
  for (const data of [1, 2]) stream.send({ event: "e", data });
  assert.equal(stream.signal.aborted, false);
  stream.send({ event: "e", data: 3 });
  assert.equal(stream.signal.aborted, true);
  await assert.rejects(read(), /too slow/);
  assert.deepEqual(alarms.waiting, [], "no timer is left");
  stream.send({ event: "e", data: 4 });
  await stream.sendInTime({ event: "e", data: 5 });
  stream.end();
});

test("buffered events are sent in order when there is room", async () => {
  const { stream, read } = setUp();
  for (const data of [1, 2]) stream.send({ event: "e", data });
  const sending = stream.sendInTime({ event: "e", data: 3 });
  assert.equal(await read(), "retry: 2000\n\n");
  await sending;
  for (const data of [1, 2, 3]) assert.equal(await read(), `event: e\ndata: ${data}\n\n`);
  stream.end();
});

test("a client that makes no room in time is disconnected, and a waiting source continues", async () => {
  const { alarms, stream, read } = setUp();
  for (const data of [1, 2]) stream.send({ event: "e", data });
  const sending = stream.sendInTime({ event: "e", data: 3 });
  alarms.goOff(limits.stallMs);
  await sending;
  assert.equal(stream.signal.aborted, true);
  await assert.rejects(read(), /too slow/);
});

test("a client that leaves while a source waits for room ends the wait", async () => {
  const alarms = new Alarms();
  const stream = new EventStream(alarms.runtime, limits);
  for (const data of [1, 2]) stream.send({ event: "e", data });
  const sending = stream.sendInTime({ event: "e", data: 3 });
  await stream.body.cancel();
  await sending;
  assert.deepEqual([stream.signal.aborted, alarms.waiting], [true, []]);
});

test("heartbeats are sent regularly, but not to a client whose buffer is full", async () => {
  const { alarms, stream, read } = setUp();
  await read();
  for (let heartbeat = 0; heartbeat < 2; heartbeat += 1) {
    alarms.goOff(limits.heartbeatMs);
    assert.equal(await read(), ": still here\n\n");
  }
  for (const data of [1, 2, 3]) stream.send({ event: "e", data });
  alarms.goOff(limits.heartbeatMs);
  assert.equal(stream.signal.aborted, false);
  for (const data of [1, 2, 3]) assert.equal(await read(), `event: e\ndata: ${data}\n\n`);
  stream.end();
  assert.equal(await read(), null);
});

test("streams have a limit each and in all, and an end makes room, however it came", async () => {
  const { runtime } = new Alarms();
  const streams = new Streams(runtime, limits);
  const errors: unknown[] = [];
  const forever = (stream: EventStream): Promise<void> =>
    new Promise((resolve) => stream.signal.addEventListener("abort", () => resolve()));
  const open = (principal: string, source = forever): EventStream =>
    streams.open(principal, source, {
      onError: (error) => errors.push(error),
      isAdmitted: async () => true,
    });
  const refused = { status: 503, code: "TOO_MANY_STREAMS" };
  const first = open("ada");
  open("ada");
  assert.throws(() => open("ada"), refused);
  open("bob");
  assert.throws(() => open("eve"), refused);
  await first.body.cancel();
  const failing = open("ada", () => Promise.reject(new Error("the source ran dry")));
  const reader = failing.body.getReader();
  while (!(await reader.read()).done);
  assert.match(String(errors[0]), /ran dry/);
  const last = open("eve");
  streams.closeAll();
  assert.equal(last.signal.aborted, true);
  open("eve");
});
