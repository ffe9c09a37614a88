/** Routes that find things by their names and ids. */
import { z } from "zod";
import { Cached } from "../core/wait.ts";
import type { Runtime } from "../core/runtime.ts";
import { route, type Route } from "../http-kernel/route.ts";
import type { Hit, Names } from "./names.ts";
import type { DashboardStore } from "./store.ts";

const TAG = "dashboard";

const FIND_LENGTH_MAX = 300;

const NAMES_FOR_MS = 10_000;
const NAMES_WAIT_MS = 5_000;

const namesSchema = z
  .object({
    queues: z.array(z.string()),
    tasks: z.array(z.string()),
    tags: z.array(z.string()),
    workers: z.array(z.string()),
    builds: z.array(z.string()),
    schedules: z.array(z.string()),
    workflows: z.array(z.string()),
  })
  .meta({ id: "Names", description: "At most 200 of each." });

const KINDS: readonly Hit["kind"][] = [
  "job",
  "item",
  "flow",
  "bulk",
  "key",
  "tag",
  "lock",
  "queue",
  "task",
  "worker",
  "build",
  "schedule",
  "workflow",
];

const kind = z.enum(KINDS as [Hit["kind"], ...Hit["kind"][]]);

interface SearchParts {
  readonly runtime: Runtime;
  readonly store: DashboardStore;
}

export function searchRoutes({ runtime, store }: SearchParts): Route[] {
  const cached = new Cached({
    runtime,
    forMs: NAMES_FOR_MS,
    waitMs: NAMES_WAIT_MS,
    ask: () => store.names(),
  });
  const known = async (): Promise<Names> => (await cached.get()) ?? NO_NAMES;
  return [
    route({
      method: "GET",
      path: "/api/v1/names",
      name: "listNames",
      tag: TAG,
      summary: "Names of queues, tasks, tags, workers, builds, schedules and workflows",
      access: "viewer",
      answers: { 200: { description: "A few seconds old.", schema: namesSchema } },
      run: async () => ({ status: 200, json: await known() }),
    }),
    route({
      method: "GET",
      path: "/api/v1/find",
      name: "find",
      tag: TAG,
      summary: "What a text is: an id, the start of one, a key, a tag, or a name",
      access: "viewer",
      query: {
        text: z.string().max(FIND_LENGTH_MAX).optional(),
        kind: kind.optional().meta({ description: "Only hits of this kind." }),
      },
      answers: {
        200: {
          description: "At most 10, the most exact first.",
          schema: z.object({
            hits: z.array(z.object({ kind, id: z.string(), text: z.string() })),
          }),
        },
      },
      run: async ({ query }) => {
        const wanted = (query.text ?? "").trim();
        const hits = wanted === "" ? [] : await store.find(wanted, await known());
        const some = hits.filter((hit) => query.kind === undefined || hit.kind === query.kind);
        return { status: 200, json: { hits: some } };
      },
    }),
  ];
}

const NO_NAMES: Names = {
  queues: [],
  tasks: [],
  tags: [],
  workers: [],
  builds: [],
  schedules: [],
  workflows: [],
};
