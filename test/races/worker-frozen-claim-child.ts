/** A worker that freezes itself inside the transaction of a claim, when it has locked the gates of a queue. */
import { openStore } from "../../src/app/store.ts";
import type { Transaction } from "../../src/database/engine.ts";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { config, logger, say, startHere } from "./worker-child.ts";

const store = await openStore(config.url);
/** The engines of the servers have it: the transaction in which a claim locks gates. */
const engine = store.db.engine as unknown as { transactionOn(on: unknown): Transaction };
const transactionOn = engine.transactionOn.bind(engine);

let isFrozen = false;
engine.transactionOn = (on) => {
  const tx = transactionOn(on);
  const ask = tx.allOf.bind(tx);
  const allOf: Transaction["allOf"] = async (queries) => {
    const answers = await ask(queries);
    if (!isFrozen) process.kill(process.pid, "SIGSTOP");
    isFrozen = true;
    return answers as never;
  };
  return Object.assign(tx, { allOf });
};
const holdfast = await openHoldfast(store, { logger });
const pick = defineTask({ name: "pick", run: (input: number) => say("ran", { input }) });
await startHere(holdfast, [pick]);
