/** pg-boss: a job runs until it expires, and is then tried again. */
import { loadPeer } from "../peers.ts";
import { overhear, QUEUE, SHORT_S, type Site, type Subject } from "./subject.ts";
import { watchCompletions } from "./witness.ts";

interface BossJob {
  readonly id: string;
  readonly signal: AbortSignal;
}

interface Boss {
  on(event: "error", listener: () => void): void;
  start(): Promise<unknown>;
  stop(options: { graceful: boolean }): Promise<void>;
  createQueue(name: string, options: { expireInSeconds: number }): Promise<void>;
  send(name: string, data: object): Promise<string>;
  work(name: string, handler: (jobs: BossJob[]) => Promise<string>): Promise<string>;
  findJobs(name: string, filter: { id: string }): Promise<Record<string, unknown>[]>;
}

type BossClass = new (options: object) => Boss;

/** Its default is a quarter of an hour. */
const EXPIRE_S = 30;

export const pgBoss: Subject = {
  name: "pg-boss",
  engine: "postgres",
  role: "peer",
  packages: ["pg-boss", "pg"],
  settings: {
    defaults: `defaults, but expireInSeconds ${EXPIRE_S} instead of 900, so that the test does not wait for a quarter of an hour; heartbeatSeconds not set`,
    short: `expireInSeconds ${SHORT_S} instead of 900, superviseIntervalSeconds and monitorIntervalSeconds 1 instead of 60`,
  },
  guard: "the job is active, and its number of retries is that of the claim",

  async open(place, pace) {
    const boss = await openBoss(place, { supervise: false, schedule: false });
    await boss.createQueue(QUEUE, { expireInSeconds: pace === "short" ? SHORT_S : EXPIRE_S });
    return {
      enqueue: () => boss.send(QUEUE, {}),
      async look(id) {
        const [job] = await boss.findJobs(QUEUE, { id });
        if (job === undefined) return { row: null, result: null };
        const output = job["output"] as { value?: unknown } | null;
        const stands = typeof output?.value === "string" ? output.value : null;
        const row = `${String(job["state"])}, retry ${String(job["retryCount"])}, output ${stands ?? "none"}`;
        return { row, result: stands };
      },
      [Symbol.asyncDispose]: () => boss.stop({ graceful: false }),
    };
  },

  async work(place, { handler, say, pace }) {
    await watchCompletions(
      {
        statement: /completed_on = .*state = 'completed'/s,
        changed: ({ rows }) => Number(rows[0]?.["count"]),
      },
      say,
    );
    const often = { superviseIntervalSeconds: 1, monitorIntervalSeconds: 1 };
    const boss = await openBoss(place, pace === "short" ? often : {});
    overhear(boss, say, /^wip$/);
    await boss.work(QUEUE, ([job]) => handler(job?.signal ?? null));
  },
};

async function openBoss({ url }: Site, options: object): Promise<Boss> {
  const { PgBoss } = await loadPeer<{ PgBoss: BossClass }>("pg-boss");
  const boss = new PgBoss({ connectionString: url, ...options });
  boss.on("error", () => {}); // the statement log has it
  await boss.start();
  return boss;
}
