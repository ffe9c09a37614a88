/** The verbs about workers. */
import type { Wish } from "../core/worker-state.ts";
import { Announcer } from "./announcer.ts";
import { enqueuers, noteEnqueuer, pruneEnqueuers } from "./enqueuers.ts";
import { beat } from "./keeper-store.ts";
import type {
  Beat,
  ChangedLimit,
  ClosedWorker,
  Command,
  EnqueuerRecord,
  LimitChange,
  NewUnregistered,
  NewWorker,
  Registered,
  Registry,
  Silence,
  UnregisteredWorker,
  WorkerFilter,
  WorkerMove,
  WorkerRecord,
  WorkerType,
  WorkerVitals,
} from "./registry.ts";
import { outsideQueues } from "./outsiders.ts";
import { actOrLookUp } from "./unknown.ts";
import * as others from "./unregistered.ts";
import * as types from "./worker-types.ts";
import * as workers from "./workers.ts";

export class SqlRegistry extends Announcer implements Registry {
  register(worker: NewWorker): Promise<Registered> {
    return workers.register(this.engine, worker);
  }

  beat(id: string, vitals: WorkerVitals, queues: readonly string[]): Promise<Beat | null> {
    return beat(this.engine, id, { vitals, queues });
  }

  noteUnregistered(worker: NewUnregistered): Promise<void> {
    return others.noteUnregistered(this.engine, worker);
  }

  forgetUnregistered(id: string): Promise<void> {
    return others.forgetUnregistered(this.engine, id);
  }

  unregistered(): Promise<UnregisteredWorker[]> {
    return others.unregistered(this.engine);
  }

  async outsideQueues(): Promise<string[]> {
    return [...(await outsideQueues(this.engine))];
  }

  wishOf(id: string): Promise<Wish | null> {
    return workers.wishOf(this.engine, id);
  }

  async moveWorker(id: string, to: WorkerMove): Promise<boolean> {
    const moved = await workers.moveWorker(this.engine, id, to);
    // A slot is free.
    if (moved && to.state !== "running") this.announce({ kind: "workers" });
    return moved;
  }

  async closeDead(silence: Silence): Promise<ClosedWorker[]> {
    const closed = await workers.closeDead(this.engine, silence);
    if (closed.length > 0) this.announce({ kind: "workers" });
    return closed;
  }

  async command(command: Command): Promise<string[]> {
    const told = await actOrLookUp(
      this.engine,
      command,
      () => workers.command(this.engine, command),
      async ({ detail }) => JSON.parse(detail ?? "[]") as string[],
    );
    if (told.length > 0) this.announce({ kind: "workers" });
    return told;
  }

  workerTypes(): Promise<WorkerType[]> {
    return types.workerTypes(this.engine);
  }

  async changeLimit(change: LimitChange): Promise<ChangedLimit> {
    const changed = await actOrLookUp(
      this.engine,
      change,
      () => types.changeLimit(this.engine, change),
      async ({ detail }) => ({
        type: change.type,
        ...(JSON.parse(detail ?? "{}") as Pick<ChangedLimit, "from" | "to">),
      }),
    );
    // A standby may have a slot now.
    if (changed.from !== changed.to) this.announce({ kind: "workers" });
    return changed;
  }

  workers(filter: WorkerFilter): Promise<WorkerRecord[]> {
    return workers.listWorkers(this.engine, filter);
  }

  findWorker(id: string): Promise<WorkerRecord | null> {
    return workers.findWorker(this.engine, id);
  }

  async pruneWorkers(forMs: number): Promise<number> {
    const gone = await workers.pruneWorkers(this.engine, forMs);
    return gone + (await pruneEnqueuers(this.engine, forMs));
  }

  noteEnqueuer(version: string): Promise<void> {
    return noteEnqueuer(this.engine, version);
  }

  enqueuers(withinMs: number): Promise<EnqueuerRecord[]> {
    return enqueuers(this.engine, withinMs);
  }
}
