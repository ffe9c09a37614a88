/** A process that folds minutes and is killed when their rows are written and nothing is committed. */
import { openStore } from "../../src/store/open.ts";
import type { Transaction } from "../../src/store/engine.ts";
import { SqlStore } from "../../src/store/sql-store.ts";
import { testRuntime } from "../support/runtime.ts";

const [url = "", now = ""] = process.argv.slice(2);
const { engine } = (await openStore(url, {
  runtime: testRuntime({ startAt: Number(now) }),
})) as SqlStore;

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

await new SqlStore(victim).foldMinutes({ limit: 10 });
