/**
 * One of the processes of store-claimers.test.ts: `node store-claimer.ts <file> <worker> <journal>`.
 *
 * It settles and claims turn by turn until nothing is left, and tries every turn to settle once more
 * what it has settled already, and the jobs it once handed back: some of these it owns again by then,
 * under a later epoch. All that must be refused.
 */
import { appendFileSync } from "node:fs";
import type { Fence, Settlement } from "../../src/core/job.ts";
import type { ClaimedJob } from "../../src/jobs/store.ts";
import { awaitGo, leave, listen, openFile } from "./store-crew.ts";

export interface Turn {
  readonly claimed: readonly { id: string; epoch: number }[];
  readonly settled: readonly { id: string; epoch: number; status: string }[];
  /** Settlements of jobs that were ours once, and how many of them the store accepted. */
  readonly stale: number;
  readonly staleAccepted: number;
}

const BATCH = 50;
const TURNS_MAX = 10_000;
/** One job in so many is handed back at its first claim. */
const RELEASE_EVERY = 16;

async function main(path: string, worker: string, journal: string): Promise<void> {
  const store = await openFile(path);
  await awaitGo();
  const wanted = { worker, queues: ["race"], tasks: null, limit: BATCH, leaseMs: 60_000 };
  const handedBack: Fence[] = [];
  let ours: Settlement[] = [];
  for (let turn = 0; turn < TURNS_MAX; turn += 1) {
    const { settled, claimed } = await store.jobs.settleAndClaim(ours, wanted);
    handedBack.push(...ours.filter(({ outcome }) => outcome.kind === "released"));
    const stale = [...ours, ...handedBack].map(asDone);
    const staleAccepted = (await store.jobs.settle(stale)).length;
    write(journal, { claimed, settled, stale: stale.length, staleAccepted });
    if (claimed.length === 0 && ours.length === 0) break;
    ours = claimed.map(outcomeOf);
    await listen();
  }
  await store.close();
  leave();
}

function outcomeOf(job: ClaimedJob): Settlement {
  const { id, worker, epoch } = job;
  const release = epoch === 1 && Number.parseInt(id.slice(-4), 16) % RELEASE_EVERY === 0;
  return { id, worker, epoch, outcome: release ? { kind: "released" } : DONE };
}

const DONE = { kind: "done", result: null } as const;

function asDone({ id, worker, epoch }: Fence): Settlement {
  return { id, worker, epoch, outcome: DONE };
}

function write(journal: string, turn: Turn): void {
  const line: Turn = {
    ...turn,
    claimed: turn.claimed.map(({ id, epoch }) => ({ id, epoch })),
    settled: turn.settled.map(({ id, epoch, status }) => ({ id, epoch, status })),
  };
  appendFileSync(journal, `${JSON.stringify(line)}\n`);
}

if (import.meta.main) {
  const [path = "", worker = "", journal = ""] = process.argv.slice(2);
  await main(path, worker, journal);
}
