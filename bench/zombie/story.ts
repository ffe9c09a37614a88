/**
 * The story, the same for everybody. A takes the job and is frozen in its middle, for longer than its right to the job
 * lasts. B gets the job. A wakes up, finishes, and says so: too late.
 */
import { setTimeout as pause } from "node:timers/promises";
import { DatabaseSync } from "node:sqlite";
import { fileOf, scratchPlace, type Place } from "../places.ts";
import { keyOf } from "../systems/system.ts";
import { WorkerProcess, type Said } from "./process.ts";
import type { Outside, Pace, Seen, Subject, Word } from "./subject.ts";

/** When A wakes up: while B is in the middle of the job, or when B has finished it. */
export const AWAKENINGS = ["while B runs it", "after B finished it"] as const;
export type Awakening = (typeof AWAKENINGS)[number];

/** What became of A's late completion, judged by the job's row before it and after it. */
export type Verdict = "ACCEPTED" | "refused" | "no effect: the row was gone";

export interface Told {
  readonly subject: Subject;
  readonly awakening: Awakening;
  readonly frozenMs: number;
  readonly runs: number;
  readonly before: Seen;
  readonly after: Seen;
  /** When both have ended. */
  readonly final: Seen;
  /** What A's completion came to by its own account, and what the system told A since it woke up. */
  readonly wrote: readonly string[];
  readonly heard: readonly string[];
  readonly verdict: Verdict;
}

const START_MS_MAX = 30_000;
/** The longest of the leases, twice, and whatever its system waits between two looks. */
const TAKEN_MS_MAX = 240_000;
const WRITE_MS_MAX = 20_000;
/** What a system still has to say, it says within this. */
const AFTERMATH_MS = 1_500;

export async function tell(subject: Subject, awakening: Awakening, pace: Pace): Promise<Told> {
  await using place = await scratchPlace(subject.engine);
  await using outside = await subject.open(place, pace);
  const id = await outside.enqueue();
  const config = {
    subject: keyOf(subject),
    place: { url: place.url, prefix: place.prefix },
    pace,
  } as const;
  await using a = new WorkerProcess({ ...config, role: "A" });
  expect(await a.says("started", START_MS_MAX), "A did not get the job");
  await a.freeze(() => mayWrite(subject, place));
  const frozenAt = performance.now();
  await outside.letTimePass?.(id);
  await using b = new WorkerProcess({ ...config, role: "B" });
  expect(await b.says("started", TAKEN_MS_MAX), "B did not get the job");
  if (awakening === "after B finished it") await finish(b);

  const before = await outside.look(id);
  const saidBefore = a.said.length;
  const frozenMs = performance.now() - frozenAt;
  a.wake();
  expect(await a.says("returns", WRITE_MS_MAX), "A did not come to its end");
  expect(
    await a.says("wrote", WRITE_MS_MAX),
    "what the database did with A's completion was not seen",
  );
  await pause(AFTERMATH_MS);
  const after = await outside.look(id);
  const said = a.said.slice(saidBefore);
  const final = await ending(awakening, b, outside, id);
  return {
    subject,
    awakening,
    frozenMs,
    runs: factsOf([...a.said, ...b.said], "started").length,
    before,
    after,
    final,
    wrote: factsOf(said, "wrote"),
    heard: factsOf(said, "heard"),
    verdict: judge(before, after),
  };
}

function factsOf(said: readonly Said[], wanted: Word): string[] {
  return said.flatMap(({ word, facts }) => (word === wanted ? [facts] : []));
}

/** By the job's row, not by what a worker says. */
function judge(before: Seen, after: Seen): Verdict {
  if (before.row === null) return "no effect: the row was gone";
  return before.row === after.row ? "refused" : "ACCEPTED";
}

async function ending(
  awakening: Awakening,
  b: WorkerProcess,
  outside: Outside,
  id: string,
): Promise<Seen> {
  if (awakening === "while B runs it") await finish(b);
  return outside.look(id);
}

async function finish(b: WorkerProcess): Promise<void> {
  b.tell("finish");
  expect(await b.says("wrote", WRITE_MS_MAX), "B did not complete the job");
}

function expect(fact: boolean, otherwise: string): void {
  if (!fact) throw new Error(otherwise);
}

/** A process that is frozen with the lock of an SQLite file stops all others. */
function mayWrite({ engine }: Subject, place: Place): boolean {
  if (engine !== "sqlite") return true;
  using db = new DatabaseSync(fileOf(place), { timeout: 0 });
  try {
    db.exec("begin immediate; rollback");
    return true;
  } catch {
    return false;
  }
}
