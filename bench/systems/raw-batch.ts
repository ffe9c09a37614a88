/** What all raw loops ask for, and what they are. */

/** As many jobs in one transaction as the worker takes at most. */
export const BATCH = 500;
export const LEASE_MS = 30_000;
export const QUEUE = "default";
export const TASK = "noop";

/** A loop that is ready: what it needs is open and prepared. */
export interface RawLoop extends AsyncDisposable {
  /** Drains the queue and returns how many jobs there were. */
  run(): Promise<number>;
}

export interface RawClaim {
  readonly worker: string;
  readonly task: string;
  readonly limit: number;
}

/** What several loops side by side have drained. */
export async function sumOf(lanes: readonly Promise<number>[]): Promise<number> {
  return (await Promise.all(lanes)).reduce((sum, some) => sum + some, 0);
}
