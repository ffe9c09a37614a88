/** What happens, live, for whoever looks on. */
import { z } from "zod";
import type { Feed } from "../feed.ts";
import type { RouteParts } from "../parts.ts";
import { route, type Route } from "../route.ts";
import type { EventSource, ServerEvent } from "../sse.ts";

/** What may happen while the past is read. */
const WAITING_MAX = 10_000;

export function streamRoute({ feed }: RouteParts): Route {
  return route({
    method: "GET",
    path: "/api/v1/stream",
    name: "stream",
    tag: "stream",
    summary: "What happens, as server-sent events",
    access: "viewer",
    answers: {
      200: {
        description:
          "Events `enqueued`, `finished`, `worker`, `census` and `gap` (more happened than is told). Resumes by Last-Event-ID; then an event may come twice.",
        type: "text/event-stream",
        schema: z.string(),
      },
    },
    run: async ({ headers }) => ({ events: told(feed, headers["last-event-id"]) }),
  });
}

function told(feed: Feed, cursor: string | undefined): EventSource {
  return async (stream) => {
    // What happens while the past is read waits until that was told.
    const waiting: ServerEvent[] = [];
    let hear = (event: ServerEvent): void => {
      if (waiting.length < WAITING_MAX) waiting.push(event);
      else stream.end(); // it comes back, and goes on from where it was
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
