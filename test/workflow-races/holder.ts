/** A process that makes one change, and stops in the middle of it until it is told to go on. */
import { once } from "node:events";
import { act } from "./act.ts";
import type { Tree } from "./check.ts";
import { impatient } from "./impatient.ts";
import { openIn, type Mode } from "./open.ts";
import type { Result } from "./plan.ts";
import { part } from "./workflows.ts";

export interface HolderConfig {
  readonly url: string;
  readonly redis: string | null;
  readonly mode: Mode;
  readonly tree: Tree;
  /** Where it stops: when it has the lock, or in the transaction, with the rows locked. */
  readonly at: "lock" | "transaction";
  /** Whether it goes on only if the child has not changed meanwhile. */
  readonly careful: boolean;
}

export type Word =
  | { readonly word: "holding"; readonly token: number }
  | { readonly word: "done"; readonly result: Result; readonly held: boolean };

const config = JSON.parse(process.argv[2] ?? "") as HolderConfig;
const { tree, at, careful } = config;
const say = (word: Word): void => void process.send?.(word);
const goOn = once(process, "message");
process.once("disconnect", () => process.exit(1)); // the test is gone

let token = 0;
let isHeld = (): boolean => true;
const stop = async (): Promise<void> => {
  say({ word: "holding", token });
  await goOn;
};
const holdfast = await openIn(config, config.mode);
const workflows = impatient(holdfast, {
  async onLocked(lock) {
    token = lock.token;
    isHeld = () => lock.held;
    if (at === "lock") await stop();
  },
  ...(at === "transaction" ? { onDecided: stop } : {}),
});
const { revision } = await holdfast.workflows.item(part, tree.children[0] ?? "");
const op = { kind: "patch", child: 0, key: "first" } as const;
const result = await act(
  { workflows, process: 0 },
  tree,
  careful ? { ...op, expect: revision } : op,
);
say({ word: "done", result, held: isHeld() });
await holdfast.close();
process.removeAllListeners("disconnect");
process.disconnect?.();
