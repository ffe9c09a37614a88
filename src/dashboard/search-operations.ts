/** Names, and what a text is: for the search box, its completion, and the form that enqueues a job. */
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import {
  type Hit,
  hit,
  hitKinds,
  type Names,
  namesShape,
  taskInfo,
  type TaskView,
} from "./names.ts";

const FIND_LENGTH_MAX = 300;

interface SearchApp {
  /** A few seconds old. */
  names(): Promise<Names>;
  find(text: string, known: Names): Promise<readonly Hit[]>;
  tasks(): Promise<readonly TaskView[]>;
}

const operation = operationsOf<SearchApp>("dashboard");

export const searchOperations = {
  names: operation({
    name: "listNames",
    summary: "Names of queues, tasks, tags, workers, builds, schedules and workflows",
    access: "viewer",
    returns: "A few seconds old.",
    result: namesShape,
    run: (app) => app.names(),
    http: { method: "GET", path: "/api/v1/names" },
  }),

  find: operation({
    name: "find",
    summary: "What a text is: an id, the start of one, a key, a tag, or a name",
    access: "viewer",
    input: {
      text: s.text({ max: FIND_LENGTH_MAX }).optional(),
      kind: s.choice(hitKinds).optional().about("Only hits of this kind."),
    },
    returns: "At most 10, the most exact first.",
    result: s.object({ hits: s.list(hit) }),
    run: async (app, { text = "", kind }) => {
      const wanted = text.trim();
      const hits = wanted === "" ? [] : await app.find(wanted, await app.names());
      return { hits: hits.filter((one) => kind === undefined || one.kind === kind) };
    },
    http: { method: "GET", path: "/api/v1/find" },
  }),

  tasks: operation({
    name: "listTasks",
    summary: "List tasks with the JSON schemas of their inputs",
    access: "viewer",
    returns: "By name: those of this server and of the workers.",
    result: s.object({ tasks: s.list(taskInfo) }),
    run: async (app) => ({ tasks: await app.tasks() }),
    http: { method: "GET", path: "/api/v1/tasks" },
  }),
};
