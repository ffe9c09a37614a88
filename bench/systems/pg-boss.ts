/** pg-boss: jobs are fetched and completed in batches, in two loops side by side; its own worker waits for single jobs. */
import { loadPeer } from "../peers.ts";
import type { Place } from "../places.ts";
import { QUESTIONS, type Queue, type QuestionName, type System } from "./system.ts";

interface BossJob {
  readonly id: string;
  readonly data: { readonly p: string };
}

interface Boss {
  on(event: "error", listener: (error: Error) => void): void;
  start(): Promise<unknown>;
  stop(options: { graceful: boolean }): Promise<void>;
  createQueue(name: string, options: { notify: boolean }): Promise<void>;
  send(name: string, data: object): Promise<unknown>;
  insert(name: string, jobs: readonly { data: object }[]): Promise<unknown>;
  fetch(name: string, options: { batchSize: number }): Promise<BossJob[]>;
  complete(name: string, ids: readonly string[]): Promise<{ affected: number }>;
  work(name: string, options: object, handler: (jobs: BossJob[]) => Promise<void>): Promise<string>;
  getDb(): { executeSql(text: string): Promise<{ rows: Record<string, unknown>[] }> };
}

type BossClass = new (options: object) => Boss;

const NAME = "noop";
const BATCH = 1_000;
const LOOPS = 2;

export const pgBoss: System = {
  name: "pg-boss",
  engine: "postgres",
  role: "peer",
  answers: QUESTIONS,
  settings:
    `fetch and complete in batches of ${BATCH}, ${LOOPS} loops; no upkeep meanwhile; ` +
    "for the pickup its worker with LISTEN/NOTIFY; finished jobs are kept",
  packages: ["pg-boss", "pg"],
  share: 1,
  async open(place, question) {
    const { PgBoss } = await loadPeer<{ PgBoss: BossClass }>("pg-boss");
    const open = (): Promise<Boss> => openBoss(PgBoss, place, question);
    const boss = await open();
    await boss.createQueue(NAME, { notify: question === "pickup" });
    return new BossQueue(open, boss);
  },
};

async function openBoss(PgBoss: BossClass, place: Place, question: QuestionName): Promise<Boss> {
  const boss = new PgBoss({
    connectionString: place.url,
    supervise: false,
    schedule: false,
    useListenNotify: question === "pickup",
  });
  boss.on("error", (error) => console.error(`pg-boss: ${error.message}`));
  await boss.start();
  return boss;
}

class BossQueue implements Queue {
  readonly #open: () => Promise<Boss>;
  readonly #boss: Boss;
  #listener: Boss | null = null;

  constructor(open: () => Promise<Boss>, boss: Boss) {
    this.#open = open;
    this.#boss = boss;
  }

  async add(payload: string): Promise<void> {
    await this.#boss.send(NAME, { p: payload });
  }

  async addMany(payloads: readonly string[]): Promise<void> {
    await this.#boss.insert(
      NAME,
      payloads.map((payload) => ({ data: { p: payload } })),
    );
  }

  async drain(jobs: number): Promise<number> {
    const startedAt = performance.now();
    const loops = Array.from({ length: LOOPS }, () => this.#fetchAndComplete());
    const drained = (await Promise.all(loops)).reduce((sum, some) => sum + some, 0);
    const ms = performance.now() - startedAt;
    if (drained !== jobs) throw new Error(`pg-boss completed ${drained} of ${jobs} jobs`);
    return ms;
  }

  async listen(onStart: (payload: string) => void): Promise<void> {
    this.#listener = await this.#open();
    await this.#listener.work(NAME, { batchSize: 1 }, async (jobs) => {
      for (const { data } of jobs) onStart(data.p);
    });
  }

  async count(): Promise<{ waiting: number; done: number }> {
    const { rows } = await this.#boss.getDb().executeSql(`
      select count(*) filter (where state < 'completed')::int as waiting,
             count(*) filter (where state = 'completed')::int as done
        from pgboss.job
       where name = '${NAME}'`);
    return { waiting: Number(rows[0]?.["waiting"]), done: Number(rows[0]?.["done"]) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#listener?.stop({ graceful: false });
    await this.#boss.stop({ graceful: false });
  }

  async #fetchAndComplete(): Promise<number> {
    for (let drained = 0; ;) {
      const jobs = await this.#boss.fetch(NAME, { batchSize: BATCH });
      if (jobs.length === 0) return drained;
      const ids = jobs.map(({ id }) => id);
      drained += (await this.#boss.complete(NAME, ids)).affected;
    }
  }
}
