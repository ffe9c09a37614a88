/** A process with many connections, each of which tries to register a singleton in the manner it is told. */
import { StoreRefusedError, WorkerRefusedError } from "../../src/core/errors.ts";
import { makeIds } from "../../src/core/id.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import { openStore, type Store } from "../../src/app/store.ts";
import type { NewWorker } from "../../src/registry/worker-record.ts";

export interface Outcome {
  readonly winners: readonly string[];
  readonly refused: number;
  readonly errors: readonly string[];
}

const [url = "", connections = "1"] = process.argv.slice(2);
const stores = await Promise.all(Array.from({ length: Number(connections) }, () => openStore(url)));
const newId = makeIds(systemRuntime);

function newWorker(): NewWorker {
  return {
    id: `racer-${newId()}`,
    type: "racer",
    slots: 1,
    hostname: "here",
    pid: process.pid,
    hostBoot: null,
    processStart: null,
    version: "1",
    nodeVersion: process.version,
    platform: process.platform,
    arch: process.arch,
    queues: ["default"],
    tasks: ["none"],
    concurrency: 1,
    silence: { staleMs: 60_000, hungMs: 60_000, gone: [] },
    waitLimits: { lockMs: 5_000, allMs: 10_000 },
  };
}

/** Without a check and without a lock: only the database can refuse it. */
async function insert({ db: { engine } }: Store, worker: NewWorker): Promise<void> {
  const { id, type, hostname, pid, version, platform, arch, concurrency } = worker;
  const facts = { hostname, pid, version, node_version: "v", platform, arch, concurrency };
  const times = { started_at: Date.now(), heartbeat_at: Date.now() };
  const row = { id, type, slot: 1, instance: 1, status: "starting", ...facts, ...times };
  await engine.transaction((tx) => tx.insert("worker", [{ ...row, queues: "[]", tasks: "[]" }]));
}

async function race(manner: unknown): Promise<Outcome> {
  const winners: string[] = [];
  const errors: string[] = [];
  let refused = 0;
  await Promise.all(
    stores.map(async (store) => {
      const worker = newWorker();
      try {
        await (manner === "careful" ? store.workers.register(worker) : insert(store, worker));
        winners.push(worker.id);
      } catch (error) {
        if (error instanceof WorkerRefusedError || error instanceof StoreRefusedError) refused += 1;
        else errors.push(String(error));
      }
    }),
  );
  return { winners, refused, errors };
}

process.on("message", (manner) => void race(manner).then((outcome) => process.send?.(outcome)));
process.on("disconnect", () => void Promise.all(stores.map((store) => store.close())));
process.send?.("ready");
