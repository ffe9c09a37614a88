/** What a process of the kit is told, and how it ends when nobody needs it any more. */
import { flushCompileCache } from "node:module";
import { systemRuntime } from "../core/runtime.ts";
import type { Workload } from "./workload.ts";

export interface ProcessConfig extends Workload {
  readonly name: string;
  readonly url: string;
  readonly processLog: string;
  readonly bank: string;
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

/** No process outlives a run that was killed: those that are awake wake the frozen ones, so that these end too. */
export function endWithParent(): void {
  process.on("disconnect", () => {
    process.kill(0, "SIGCONT"); // The process group; a process that is awake ignores it.
    systemRuntime.afterIo(() => process.exit(3));
  });
}
