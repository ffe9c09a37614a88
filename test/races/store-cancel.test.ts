import { equal, notEqual, ok } from "node:assert/strict";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import type { Status } from "../../src/core/job.ts";
import type { Store } from "../../src/app/store.ts";
import { Crew, listen, openFile, temporaryFolder } from "./store-crew.ts";

const MOVERS = 4;
const CANCELS = 1_500;
const CANCELLING_MS_MAX = 12_000;
/** Each of the three states must have been met at least so often, or the race did not take place. */
const MET_LEAST = 10;

interface Cancel {
  readonly id: string;
  readonly answer: Status | null;
}

test("cancelling a job while it moves never misses it", { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder();
  const path = join(folder.path, "race.db");
  const store = await openFile(path);
  await store.migrate();
  installWitness(path);

  const accepted: string[] = [];
  using crew = new Crew();
  for (let at = 0; at < MOVERS; at += 1) {
    crew.add(join(import.meta.dirname, "store-mover.ts"), [path, `w${at}`], (ids) => {
      accepted.push(...(ids as string[]));
    });
  }
  await crew.go();
  const cancels = await cancelWhileTheyMove(store, accepted);
  crew.tell("stop");
  await crew.ended();

  const met = countMet(path, cancels);
  t.diagnostic(
    `${cancels.length} cancels among ${accepted.length} jobs met: ` +
      Object.entries(met)
        .map(([state, times]) => `${state} ${times}`)
        .join(", "),
  );
  for (const cancel of cancels) await assertKept(store, cancel);
  for (const state of ["pending", "waiting", "processing"] as const) {
    ok(met[state] >= MET_LEAST, `only ${met[state]} cancels met a job that was ${state}`);
  }
  await store.close();
});

/** Cancels jobs that were accepted, each once, in no particular order. */
async function cancelWhileTheyMove(store: Store, accepted: readonly string[]): Promise<Cancel[]> {
  const cancels: Cancel[] = [];
  const asked = new Set<string>();
  const until = performance.now() + CANCELLING_MS_MAX;
  while (cancels.length < CANCELS && performance.now() < until) {
    await listen(); // for the news of more jobs
    const id = accepted[Math.floor(Math.random() * accepted.length)];
    if (id === undefined || asked.has(id)) continue;
    asked.add(id);
    cancels.push({ id, answer: await store.jobs.cancel(id) });
  }
  return cancels;
}

/** What was answered is what became of the job. */
async function assertKept(store: Store, { id, answer }: Cancel): Promise<void> {
  notEqual(answer, null, `${id} was accepted, and cancel says that there is no such job`);
  const job = await store.jobs.find(id);
  const expected = answer === "processing" ? "cancelled" : answer;
  equal(job?.status, expected, `cancel of ${id} answered ${answer}; it is ${job?.status}`);
}

/**
 * The witness: triggers note every row that leaves a state table. The last note about a job that was
 * cancelled at once says where the cancel met it; nothing of the product is asked.
 */
function installWitness(path: string): void {
  const db = new DatabaseSync(path, { timeout: 5_000 });
  const note = (table: string, state: string): string => `
    create trigger witness_${table} after delete on holdfast_${table}
    begin insert into witness (id, state) values (old.id, '${state}'); end;`;
  db.exec(`
    create table witness (at integer primary key autoincrement, id text not null, state text not null);
    ${note("ready", "pending")}
    ${note("waiting", "waiting")}
    ${note("lease", "processing")}
    create index witness_id on witness (id, at);`);
  db.close();
}

type Met = Record<"pending" | "waiting" | "processing" | "finished", number>;

function countMet(path: string, cancels: readonly Cancel[]): Met {
  const db = new DatabaseSync(path, { readOnly: true });
  const last = db.prepare("select state from witness where id = ? order by at desc limit 1");
  const met: Met = { pending: 0, waiting: 0, processing: 0, finished: 0 };
  for (const { id, answer } of cancels) {
    if (answer === "processing") met.processing += 1;
    else if (answer === "cancelled") met[last.get(id)?.["state"] as keyof Met] += 1;
    else met.finished += 1;
  }
  db.close();
  return met;
}
