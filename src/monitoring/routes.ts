/** Routes of probes and scrapers, which need no token. */
import { z } from "zod";
import type { Runtime, Timer } from "../core/runtime.ts";
import { notFound } from "../http-kernel/problem.ts";
import { type Answer, route, type Route } from "../http-kernel/route.ts";
import type { EventSource } from "../http-kernel/sse.ts";
import { type Feed, type StreamEvent, streamEvents } from "./feed.ts";

const TAG = "probes";

const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Requests within this time share one text, so clients that do not read cost no memory. */
const METRICS_MS = 200;

const GOOD = new Set(["ok", "degraded"]);

const PROBES = {
  health: "Health of the service",
  live: "Liveness: whether the process should keep running",
  ready: "Readiness: whether the process can do its work",
} as const;

/** The statuses "ok" and "degraded" are sent with 200, all others with 503. */
interface ProbeAnswer {
  readonly status: string;
  readonly [fact: string]: unknown;
}

type Probe = () => ProbeAnswer | Promise<ProbeAnswer>;

export type Probes = Readonly<Record<keyof typeof PROBES, Probe>>;

interface ProbeRouteParts {
  readonly runtime: Runtime;
  readonly health: Probes | undefined;
  readonly metrics: { text(): Promise<string> } | undefined;
}

export function probeRoutes(parts: ProbeRouteParts): Route[] {
  const names = Object.keys(PROBES) as (keyof typeof PROBES)[];
  return [...names.map((name) => probeRoute(parts, name)), metricsRoute(parts)];
}

function probeRoute({ health, runtime }: ProbeRouteParts, name: keyof typeof PROBES): Route {
  const startedAt = runtime.monotonic();
  const schema = z.looseObject({ status: z.string() });
  // Without health checks, a process that answers is alive.
  const alive: Probe = () => ({
    status: "ok",
    uptime: Math.round((runtime.monotonic() - startedAt) / 1_000),
    timestamp: new Date(runtime.now()).toISOString(),
  });
  return route({
    method: "GET",
    path: `/${name}`,
    name,
    tag: TAG,
    summary: PROBES[name],
    access: "public",
    answers: {
      200: { description: "Healthy, or degraded but working.", schema },
      503: { description: "Not healthy.", schema },
    },
    run: async () => {
      const json = health === undefined ? await alive() : await health[name]();
      return { status: GOOD.has(json.status) ? 200 : 503, json };
    },
  });
}

function metricsRoute({ metrics, runtime }: ProbeRouteParts): Route {
  let last: { readonly bytes: Buffer; readonly at: number } | null = null;
  return route({
    method: "GET",
    path: "/metrics",
    name: "metrics",
    tag: TAG,
    summary: "Metrics for Prometheus",
    access: "public",
    answers: {
      200: { description: "The Prometheus text format.", type: "text/plain", schema: z.string() },
    },
    problems: [404],
    run: async (): Promise<Answer> => {
      if (metrics === undefined) throw notFound("metrics endpoint on this server");
      if (last === null || runtime.monotonic() - last.at > METRICS_MS) {
        const bytes = Buffer.from(await metrics.text());
        last = { bytes, at: runtime.monotonic() };
      }
      return { status: 200, bytes: last.bytes, type: METRICS_TYPE };
    },
  });
}

// The live event stream.

/** Events buffered while missed events are read. */
const WAITING_MAX = 10_000;

const TICK_MS = 1_000;

/** Sends the time every second beside the events. */
function ticking(events: EventSource, runtime: Runtime): EventSource {
  return async (stream) => {
    let timer: Timer | null = null;
    const tick = (): void => {
      stream.send({ event: "tick", data: { at: runtime.now() } });
      timer = runtime.timer(TICK_MS, tick, "background");
    };
    tick();
    try {
      await events(stream);
    } finally {
      (timer as Timer | null)?.cancel();
    }
  };
}

const streamEventSchema = z
  .object({
    id: z.string().optional(),
    event: z.enum(streamEvents).meta({ id: "StreamEventName" }),
    data: z.unknown().meta({ description: "JSON." }),
  })
  .meta({ id: "StreamEvent", description: "Each event of the stream, with its fields." });

export function streamRoute(feed: Feed, runtime: Runtime): Route {
  return route({
    method: "GET",
    path: "/api/v1/stream",
    name: "stream",
    tag: "stream",
    summary: "Live events as server-sent events",
    access: "viewer",
    query: {
      tick: z.boolean().optional().meta({
        description:
          "Sends an event `tick` every second, so that a client notices a lost connection.",
      }),
    },
    answers: {
      200: {
        description:
          "Events as text; `gap`: some were left out. Resumes after Last-Event-ID; an event may then be sent twice.",
        type: "text/event-stream",
        schema: streamEventSchema,
      },
    },
    run: async ({ headers, query: { tick = false } }) => {
      const events = eventsFrom(feed, headers["last-event-id"]);
      return { events: tick ? ticking(events, runtime) : events };
    },
  });
}

function eventsFrom(feed: Feed, cursor: string | undefined): EventSource {
  return async (stream) => {
    // New events wait until the missed ones are sent.
    const waiting: StreamEvent[] = [];
    let hear = (event: StreamEvent): void => {
      if (waiting.length < WAITING_MAX) waiting.push(event);
      else stream.end(); // the client reconnects and resumes
    };
    const { leave, cursor: now } = await feed.join((event) => hear(event));
    try {
      const missed = cursor === undefined ? [] : await feed.since(cursor);
      for (const event of missed) await stream.sendInTime(event);
      stream.send({ id: now, event: "hello", data: {} });
      for (const event of waiting) await stream.sendInTime(event);
      hear = (event) => stream.send(event);
      await ended(stream.signal);
    } finally {
      leave();
    }
  };
}

function ended(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
