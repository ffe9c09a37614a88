/** What probes and scrapers ask: they have no token, and get an answer all the same. */
import { z } from "zod";
import type { ProbeAnswer, RouteParts } from "../parts.ts";
import { notFound } from "../problem.ts";
import { route, type Answer, type Route } from "../route.ts";

const TAG = "probes";
const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";
/** All who ask within this time share one text: many who do not read what they asked for cost no memory. */
const METRICS_MS = 200;
const GOOD = new Set(["ok", "degraded"]);

const PROBES = {
  health: "How the service is",
  live: "Whether the process should be let live",
  ready: "Whether it can do its work now",
} as const;

export function probeRoutes(parts: RouteParts): Route[] {
  const names = Object.keys(PROBES) as (keyof typeof PROBES)[];
  return [...names.map((name) => probeRoute(parts, name)), metricsRoute(parts)];
}

function probeRoute({ health, holdfast, uptime }: RouteParts, name: keyof typeof PROBES): Route {
  const schema = z.looseObject({ status: z.string() });
  // Without a judge: whoever answers is alive.
  const itself = (): ProbeAnswer => ({
    status: "ok",
    uptime: Math.round(uptime() / 1_000),
    timestamp: new Date(holdfast.runtime.now()).toISOString(),
  });
  return route({
    method: "GET",
    path: `/${name}`,
    name,
    tag: TAG,
    summary: PROBES[name],
    access: "public",
    answers: {
      200: { description: "Well, or well enough.", schema },
      503: { description: "Not.", schema },
    },
    run: async () => {
      const json = health === undefined ? itself() : await health[name]();
      return { status: GOOD.has(json.status) ? 200 : 503, json };
    },
  });
}

function metricsRoute({ metrics, holdfast: { runtime } }: RouteParts): Route {
  let last: { readonly bytes: Buffer; readonly at: number } | null = null;
  return route({
    method: "GET",
    path: "/metrics",
    name: "metrics",
    tag: TAG,
    summary: "Figures for Prometheus",
    access: "public",
    answers: {
      200: { description: "Prometheus' text format.", type: "text/plain", schema: z.string() },
    },
    problems: [404],
    run: async (): Promise<Answer> => {
      if (metrics === undefined) throw notFound("metrics here");
      if (last === null || runtime.monotonic() - last.at > METRICS_MS) {
        const bytes = Buffer.from(await metrics.text());
        last = { bytes, at: runtime.monotonic() };
      }
      return { status: 200, bytes: last.bytes, type: METRICS_TYPE };
    },
  });
}
