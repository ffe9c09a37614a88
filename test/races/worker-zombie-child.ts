/**
 * One of two workers that get the same three jobs, one after the other.
 *
 * The zombie is frozen while it works on them. When it wakes up, every job makes it write something
 * that it has no right to write any more. The successor works on them meanwhile.
 */
import { readFileSync } from "node:fs";
import { type Context, defineTask, type Holdfast } from "../../src/index.ts";
import { ABORT_GRACE_MS } from "../../src/worker/attempt.ts";
import { codeOf, until } from "../worker/observe.ts";
import { config, openHere, say, startHere, told } from "./worker-child.ts";
import type { Write } from "./worker-witness.ts";

const holdfast = await openHere();

function aborted({ id, signal }: Context): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => {
      say("aborted", { id, code: codeOf(signal.reason) });
      resolve();
    });
  });
}

/** Left alone, the keeper would drop the lease as soon as the attempt has ended. */
async function keeperWasRefused({ id }: Context): Promise<void> {
  const refused = ({ verb, offered, accepted }: Write): boolean =>
    verb === "extend" &&
    offered.some((fence) => fence.id === id) &&
    !accepted.some((fence) => fence.id === id);
  const look = (): boolean => writes().some(refused);
  await until("the keeper was refused", look, ABORT_GRACE_MS / 2).catch(() => {});
}

function writes(): Write[] {
  const lines = readFileSync(config.journal ?? "", "utf8").trim();
  return lines.split("\n").map((line) => JSON.parse(line) as Write);
}

/** Returns a value too late. */
const settled = defineTask({
  name: "settled",
  async run(_input: null, ctx) {
    if (config.role !== "zombie") await told("finish");
    else await aborted(ctx).then(() => keeperWasRefused(ctx));
    return config.role;
  },
});

/** Hands the job back too late. */
const released = defineTask({
  name: "released",
  async run(_input: null, ctx) {
    if (config.role !== "zombie") await told("finish");
    else await aborted(ctx).then(() => handBack(holdfast, ctx));
    return config.role;
  },
});

async function handBack({ store }: Holdfast, { fence }: Context): Promise<never> {
  const accepted = await store.jobs.release([fence]);
  say("released", { id: fence.id, accepted: accepted.length });
  throw new Error("handed back");
}

/** Returns a value when the successor has long finished the job. */
const finished = defineTask({
  name: "finished",
  async run(_input: null, ctx) {
    if (config.role === "zombie") await aborted(ctx);
    return config.role;
  },
});

const worker = await startHere(holdfast, [settled, released, finished]);
for (let round = 1; ; round += 1) {
  await told(`status ${round}`);
  say("status", { ...worker.status() });
}
