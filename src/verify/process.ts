/** What a process of the kit is told, and how it ends when nobody needs it any more. */
import { flushCompileCache } from "node:module";
import { systemRuntime } from "../core/runtime.ts";

export interface ProcessConfig {
  readonly name: string;
  readonly url: string;
  readonly journal: string;
  readonly bank: string;
  readonly seed: number;
  /** Producers: which of them, and how many jobs all of them make over so many milliseconds. */
  readonly place: number;
  readonly producers: number;
  readonly jobs: number;
  readonly ms: number;
}

export type Order = { readonly kind: "stop" } | { readonly kind: "block"; readonly ms: number };

/** For those that start later: whoever is killed would not leave what it has compiled. */
export function sayReady(): void {
  flushCompileCache();
  process.send?.("ready");
}

/** Nobody outlives a run that was killed. */
export function endWithParent(): void {
  process.on("disconnect", () => systemRuntime.afterIo(() => process.exit(3)));
}
