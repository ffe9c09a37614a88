/** Whether changes really were under way at once: a race in which everybody came one after the other proves nothing. */
import type { Result } from "./plan.ts";

/** How many changes were under way while another process's was. */
export function overlapping(results: readonly Result[]): number {
  const inOrder = results.toSorted((a, b) => a.from - b.from);
  const met = new Set<Result>();
  for (const [index, one] of inOrder.entries()) {
    for (const other of inOrder.slice(index + 1)) {
      if (other.from >= one.to) break;
      if (other.process === one.process) continue;
      met.add(one).add(other);
    }
  }
  return met.size;
}
