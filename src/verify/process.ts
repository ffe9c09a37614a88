/** The configuration of a process of the kit, and how it ends with its parent. */
import { flushCompileCache } from "node:module";
import { systemRuntime } from "../core/runtime.ts";
import type { Workload } from "./workload.ts";

export interface ProcessConfig extends Workload {
  readonly name: string;
  readonly url: string;
  readonly processLog: string;
  readonly bank: string;
  /** Producers: the position of this one, and how many jobs all of them enqueue over how many milliseconds. */
  readonly place: number;
  readonly producers: number;
  readonly jobs: number;
  readonly ms: number;
}

export type Order = { readonly kind: "stop" } | { readonly kind: "block"; readonly ms: number };

/** Flushes the compile cache for later processes, because a killed process does not. */
export function sayReady(): void {
  flushCompileCache();
  process.send?.("ready");
}

/** No process outlives a killed run: processes that are awake wake the frozen ones, so that these end too. */
export function endWithParent(): void {
  process.on("disconnect", () => {
    process.kill(0, "SIGCONT"); // The process group; a process that is awake ignores it.
    systemRuntime.afterIo(() => process.exit(3));
  });
}
