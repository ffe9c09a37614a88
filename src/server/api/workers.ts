/** Workers: who runs jobs, and what is wanted of them. */
import { z } from "zod";
import { SLOTS_MAX } from "../../core/worker-state.ts";
import type { WorkersFilter } from "../../queue/workers.ts";
import type { WorkerRecord } from "../../store/registry.ts";
import type { RouteParts } from "../parts.ts";
import { notFound } from "../problem.ts";
import { route, type Route } from "../route.ts";
import * as s from "../schemas.ts";
import * as w from "../worker-schemas.ts";

const TAG = "workers";

const WISHES = { pause: "pause", resume: "run", drain: "drain", stop: "stop" } as const;

const SUMMARIES = {
  pause: "Take nothing new, and finish what runs",
  resume: "Take jobs again",
  drain: "End when the last job has ended",
  stop: "End, and hand back what does not end in time",
} as const satisfies Record<keyof typeof WISHES, string>;

export function workerRoutes(parts: RouteParts): Route[] {
  const commands = Object.keys(WISHES) as (keyof typeof WISHES)[];
  return [
    ...readRoutes(parts),
    ...commands.map((command) => commandRoute(parts, command)),
    ...typeRoutes(parts),
    driftRoute(parts),
  ];
}

function readRoutes({ holdfast }: RouteParts): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/workers",
      name: "listWorkers",
      tag: TAG,
      summary: "Workers, those that started last first",
      access: "viewer",
      query: {
        type: s.name.optional(),
        all: z.boolean().optional().meta({ description: "Also those that stopped." }),
        limit: s.pageLimit.optional(),
      },
      answers: {
        200: {
          description: "The workers, and those that are in no registry.",
          schema: z.object({ workers: z.array(w.worker), unregistered: z.array(w.unregistered) }),
        },
      },
      run: async ({ query }) => {
        const workers = await holdfast.workers.list(query as WorkersFilter);
        const others = await holdfast.workers.unregistered();
        const unregistered = others.filter(
          ({ type }) => query.type === undefined || type === query.type,
        );
        return { status: 200, json: { workers: workers.map(viewOf), unregistered } };
      },
    }),
    route({
      method: "GET",
      path: "/api/v1/workers/{id}",
      name: "getWorker",
      tag: TAG,
      summary: "One worker",
      access: "viewer",
      params: { id: s.workerId },
      answers: {
        200: {
          description: "The worker, under the name of what it is.",
          schema: z.union([
            z.object({ worker: w.worker }),
            z.object({ unregistered: w.unregistered }),
          ]),
        },
      },
      run: async ({ params: { id } }) => {
        const worker = await holdfast.workers.find(id);
        if (worker !== null) return { status: 200, json: { worker: viewOf(worker) } };
        const others = await holdfast.workers.unregistered();
        const unregistered = others.find((other) => other.id === id);
        if (unregistered === undefined) throw notFound("such worker");
        return { status: 200, json: { unregistered } };
      },
    }),
  ];
}

function driftRoute({ holdfast }: RouteParts): Route {
  return route({
    method: "GET",
    path: "/api/v1/drift",
    name: "getDrift",
    tag: TAG,
    summary: "Where builds differ: among workers, and between enqueuing processes and workers",
    access: "viewer",
    answers: { 200: { description: "Empty lists: nowhere.", schema: w.drift } },
    run: async () => ({ status: 200, json: await holdfast.workers.drift() }),
  });
}

/** By which boot of the host a process is known is nobody's business. */
function viewOf(record: WorkerRecord): Omit<WorkerRecord, "hostBoot" | "processStart"> {
  const { hostBoot: _hostBoot, processStart: _processStart, ...view } = record;
  return view;
}

function commandRoute({ holdfast }: RouteParts, command: keyof typeof WISHES): Route {
  return route({
    method: "POST",
    path: `/api/v1/workers/{id}/${command}`,
    name: `${command}Worker`,
    tag: TAG,
    summary: SUMMARIES[command],
    access: "operator",
    params: { id: s.workerId },
    body: z.strictObject({ reason: s.reason.optional() }),
    answers: {
      200: {
        description: "It was told; it hears it with its next sign of life at the latest.",
        schema: z.object({ id: z.string(), wish: z.enum(["run", "pause", "drain", "stop"]) }),
      },
    },
    repeatable: true,
    run: async ({ params: { id }, body: { reason }, asker, requestId }) => {
      const by = {
        actor: asker.name,
        trace: requestId,
        ...(reason === undefined ? {} : { reason }),
      };
      const [told] = await holdfast.workers[command]({ id }, by);
      if (told === undefined) throw notFound("such worker that is alive");
      return { status: 200, json: { id: told, wish: WISHES[command] } };
    },
  });
}

const slots = z
  .int()
  .min(1)
  .max(SLOTS_MAX)
  .nullable()
  .meta({ description: "How many workers of the type may be active at once; null: any number." });

function typeRoutes({ holdfast }: RouteParts): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/worker-types",
      name: "listWorkerTypes",
      tag: TAG,
      summary: "Types of workers, with their limits",
      access: "viewer",
      answers: {
        200: {
          description: "The types, by name.",
          schema: z.object({ types: z.array(w.workerType) }),
        },
      },
      run: async () => ({ status: 200, json: { types: await holdfast.workers.types() } }),
    }),
    route({
      method: "POST",
      path: "/api/v1/worker-types/{type}/limit",
      name: "setWorkerLimit",
      tag: TAG,
      summary: "Change how many workers of a type may be active at once",
      access: "operator",
      params: { type: s.name },
      body: z.strictObject({ slots, reason: s.reason.optional() }),
      answers: {
        200: {
          description: "The limit before and after.",
          schema: z.object({ type: z.string(), from: slots, to: slots }),
        },
      },
      repeatable: true,
      run: async ({ params: { type }, body, asker, requestId }) => {
        const { slots: limit, reason } = body;
        const by = {
          actor: asker.name,
          trace: requestId,
          ...(reason === undefined ? {} : { reason }),
        };
        return { status: 200, json: await holdfast.workers.setLimit(type, limit, by) };
      },
    }),
  ];
}
