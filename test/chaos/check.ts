/**
 * Holds the workers' journals and the tables against each other. It shares no code with the product: plain SQL and
 * counting.
 */
import { readFileSync } from "node:fs";
import type { Entry } from "./plan.ts";

/** The rows of the database when all is over. */
export interface Rows {
  readonly finished: readonly { id: string; status: string; epoch: number; worker: string }[];
  readonly elsewhere: number;
}

export interface Verdict {
  readonly lost: string[];
  readonly doubled: string[];
  readonly attempts: number;
  readonly refused: number;
}

export function judge(ids: readonly string[], rows: Rows, journal: string): Verdict {
  const entries = readFileSync(journal, "utf8").trim().split("\n").map(read);
  const finished = new Map(rows.finished.map((row) => [row.id, row]));
  const lost = ids.filter((id) => finished.get(id)?.status !== "done");
  if (rows.elsewhere > 0) lost.push(`${rows.elsewhere} rows left in other tables`);
  const doubled: string[] = [];
  const owners = new Map<string, string>();
  const ends = new Map<string, string>();
  for (const entry of entries) {
    if (entry.kind === "refused") continue;
    const { kind, id, epoch, by } = entry;
    const end = finished.get(id);
    if (kind === "started") {
      const owner = owners.get(`${id} ${epoch}`);
      if (owner !== undefined) doubled.push(`${id}: epoch ${epoch} belonged to ${owner} and ${by}`);
      owners.set(`${id} ${epoch}`, by);
      if (end !== undefined && epoch > end.epoch) doubled.push(`${id}: started after its end`);
    } else {
      const before = ends.get(id);
      if (before !== undefined) doubled.push(`${id}: done for ${before} and for ${by}`);
      ends.set(id, by);
      if (end?.worker !== by || end.epoch !== epoch)
        doubled.push(`${id}: done for ${by}, recorded for ${end?.worker}`);
    }
  }
  const refused = entries.reduce(
    (sum, entry) => sum + (entry.kind === "refused" ? entry.count : 0),
    0,
  );
  return { lost, doubled, attempts: owners.size, refused };
}

/** A process that was killed while it wrote leaves half a line, which tells nothing. */
function read(line: string): Entry {
  try {
    return JSON.parse(line) as Entry;
  } catch {
    return { kind: "refused", count: 0 };
  }
}
