/**
 * The process that is killed around the commit with which its job ends: `node complete-victim.ts <url> <engine> <point>`.
 *
 * With point "nowhere" it lives until the job is done.
 */
import { defineTask, openHoldfast } from "../../src/index.ts";
import { connections } from "../within/connections.ts";

const [url = "", engine = "", killAt = ""] = process.argv.slice(2);

function point(name: string): void {
  if (name === killAt) process.kill(process.pid, "SIGKILL");
}

const connect = connections[engine];
if (connect === undefined) throw new Error(`There is no engine ${engine}.`);
const shop = await connect(url);
const ship = defineTask({
  name: "ship",
  async run(_order: null, ctx) {
    await shop.run("begin");
    await shop.run("insert into orders values (1)");
    point("before complete");
    const number = await ctx.complete(shop.tx, 7);
    point("before commit");
    await shop.run("commit");
    point("after commit");
    return number;
  },
});
const holdfast = await openHoldfast(url, { version: "build-0" });
const worker = await holdfast.startWorker({ tasks: [ship], lease: "1s" });
const ended = Promise.withResolvers<void>();
worker.on("job:done", () => ended.resolve());
await ended.promise;
await worker.stop();
await holdfast.close();
await shop[Symbol.asyncDispose]();
