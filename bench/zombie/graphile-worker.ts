/** graphile-worker: a job that has been locked for four hours is taken for abandoned. */
import { EventEmitter } from "node:events";
import { loadPeer } from "../peers.ts";
import { overhear, QUEUE, type Pace, type Site, type Subject } from "./subject.ts";
import { watchCompletions } from "./witness.ts";

interface Utils {
  migrate(): Promise<void>;
  addJob(task: string, payload: unknown): Promise<{ id: string }>;
  withPgClient<T>(
    work: (client: {
      query(text: string, values: unknown[]): Promise<{ rows: Record<string, unknown>[] }>;
    }) => Promise<T>,
  ): Promise<T>;
  release(): Promise<void>;
}

interface Graphile {
  Logger: new (factory: () => () => void) => object;
  makeWorkerUtils(options: { preset: object }): Promise<Utils>;
  run(options: {
    preset: object;
    taskList: Record<
      string,
      (payload: unknown, helpers: { abortSignal?: AbortSignal }) => Promise<void>
    >;
    noHandleSignals: boolean;
    parsedCronItems: readonly never[];
  }): Promise<unknown>;
}

const PASSED =
  "the 4 hours after which a locked job is abandoned cannot be set: locked_at is moved back by 5 hours in its own table while A " +
  "is frozen, and B's own check, within a minute of its start, does the rest";

export const graphileWorker: Subject = {
  name: "graphile-worker",
  engine: "postgres",
  role: "peer",
  packages: ["graphile-worker", "pg"],
  settings: {
    defaults: `defaults; ${PASSED}`,
    short: `minResetLockedInterval and maxResetLockedInterval 1 s; ${PASSED}`,
  },
  guard: "the job's id",

  async open(place, pace) {
    const library = await loadPeer<Graphile>("graphile-worker");
    const utils = await library.makeWorkerUtils({ preset: await presetFor(place, pace) });
    await utils.migrate();
    const ask = (text: string, id: string): Promise<{ rows: Record<string, unknown>[] }> =>
      utils.withPgClient((client) => client.query(text, [id]));
    return {
      enqueue: async () => (await utils.addJob(QUEUE, {})).id,
      async look(id) {
        const { rows } = await ask(LOOK, id);
        const [job] = rows;
        if (job === undefined) return { row: null, result: null };
        const { attempts, locked } = job;
        const held = locked === true ? "locked" : "not locked";
        return { row: `${held}, attempt ${String(attempts)}`, result: null };
      },
      letTimePass: async (id) => void (await ask(GROW_OLD, id)),
      [Symbol.asyncDispose]: () => utils.release(),
    };
  },

  async work(place, { handler, say, pace }) {
    const statement = /delete from .*_private_jobs/s;
    await watchCompletions({ statement, changed: ({ rowCount }) => rowCount ?? 0 }, say);
    const library = await loadPeer<Graphile>("graphile-worker");
    const events = new EventEmitter();
    overhear(events, say, /^(?!job:|.*(?:[eE]rror|failure))/);
    const { worker } = await presetFor(place, pace);
    await library.run({
      preset: { worker: { ...worker, events } },
      taskList: {
        [QUEUE]: async (_payload, { abortSignal }) => void (await handler(abortSignal ?? null)),
      },
      noHandleSignals: true,
      parsedCronItems: [],
    });
  },
};

const LOOK = `
  select attempts, locked_by is not null as locked
    from graphile_worker._private_jobs
   where id = $1`;

const GROW_OLD = `
  update graphile_worker._private_jobs
     set locked_at = locked_at - interval '5 hours'
   where id = $1`;

const OFTEN = { minResetLockedInterval: 1_000, maxResetLockedInterval: 1_000 };

async function presetFor({ url }: Site, pace: Pace): Promise<{ worker: object }> {
  const { Logger } = await loadPeer<Graphile>("graphile-worker");
  const logger = new Logger(() => () => {});
  return { worker: { connectionString: url, logger, ...(pace === "short" ? OFTEN : {}) } };
}
