/** A worker for flows: each job says how long the longest way to it is. */
import { sql, type Sql } from "../../src/database/sql.ts";
import { defineTask, GiveUpError } from "../../src/index.ts";
import { config, openHere } from "./worker-child.ts";

/** One more than the greatest of those it waited for. */
const depth = defineTask({
  name: "depth",
  async run({ fails }: { fails?: boolean }, ctx) {
    const [awaited] = await holdfast.store.db.engine.all<{ id: string }>(
      stillAwaited(ctx.fence.id),
    );
    if (awaited !== undefined) throw new GiveUpError(`began before ${awaited.id} had ended`);
    if (fails === true) throw new Error("a leaf that fails");
    return 1 + Math.max(0, ...(await ctx.results(depthOf)));
  },
});

/** The same by its name and type alone: a task cannot name itself. */
const depthOf = defineTask({ name: "depth", run: () => 0 });

/** Those that a job waits for and that have not ended: as it runs there is none, whatever the clocks say. */
const stillAwaited = (id: string): Sql => sql`
  select a.on_id as id
    from holdfast.job_after a
   where a.job_id = ${id} and not exists (select 1 from holdfast.finished d where d.id = a.on_id)`;

const holdfast = await openHere();
await holdfast.startWorker({ ...config.worker, tasks: [depth] });
process.on("disconnect", () => process.exit());
