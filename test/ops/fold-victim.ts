/** A process that folds minutes and is killed when their rows are written and nothing is committed. */
import { openStore, storeOn } from "../../src/app/store.ts";
import type { Transaction } from "../../src/database/engine.ts";
import { testRuntime } from "../support/runtime.ts";

const [url = "", now = ""] = process.argv.slice(2);
const { engine } = (
  await openStore(url, {
    runtime: testRuntime({ startAt: Number(now) }),
  })
).db;

/** The parent kills us while we wait. */
async function hang(): Promise<never> {
  process.send?.("written");
  for (;;) await new Promise((resolve) => setTimeout(resolve, 1_000));
}

const victim = new Proxy(engine, {
  get(target, name) {
    if (name === "transaction") {
      return (body: (tx: Transaction) => Promise<unknown>) =>
        target.transaction(async (tx) => {
          await body(tx);
          return hang();
        });
    }
    const member: unknown = Reflect.get(target, name, target);
    return typeof member === "function" ? (member.bind(target) as unknown) : member;
  },
});

await (await storeOn(victim)).stats.foldMinutes({ limit: 10 });
