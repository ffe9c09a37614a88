/** Workers: who runs jobs, and what is wanted of them. */
import { z } from "zod";
import type { WorkersFilter } from "../../queue/workers.ts";
import type { WorkerRecord } from "../../store/registry.ts";
import type { RouteParts } from "../parts.ts";
import { notFound } from "../problem.ts";
import { route, type Route } from "../route.ts";
import * as s from "../schemas.ts";

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
  return [...readRoutes(parts), ...commands.map((command) => commandRoute(parts, command))];
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
        200: { description: "The workers.", schema: z.object({ workers: z.array(s.worker) }) },
      },
      run: async ({ query }) => {
        const workers = await holdfast.workers.list(query as WorkersFilter);
        return { status: 200, json: { workers: workers.map(viewOf) } };
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
        200: { description: "The worker.", schema: z.object({ worker: s.worker }) },
      },
      run: async ({ params: { id } }) => {
        const worker = await holdfast.workers.find(id);
        if (worker === null) throw notFound("such worker");
        return { status: 200, json: { worker: viewOf(worker) } };
      },
    }),
  ];
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
