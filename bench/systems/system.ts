/** The seam: what the bench asks of a system, ours or a peer's. */
import type { EngineName, Place } from "../places.ts";

export const QUESTIONS = ["enqueue", "drain", "pickup"] as const;
export type QuestionName = (typeof QUESTIONS)[number];

export interface System {
  /** Such as "graphile-worker". With the engine it is unique. */
  readonly name: string;
  readonly engine: EngineName;
  /** Whether it is Holdfast, the raw limit of its database, or a peer. */
  readonly role: "ours" | "limit" | "peer";
  readonly answers: readonly QuestionName[];
  /** What it was told beyond its defaults, and what becomes of finished jobs. */
  readonly settings: string;
  /** Of these packages of `bench/.peers`. */
  readonly packages: readonly string[];
  /** The share of the jobs that it gets: less where it is so slow that everybody would wait for it. */
  readonly share: number;
  /** Without notifications: the longest pause between two looks for jobs. */
  readonly pollMs?: number;
  /** A second server that it uses. */
  readonly besides?: EngineName;

  /** Opens a queue in a place where nothing is yet. */
  open(place: Place, question: QuestionName): Promise<Queue>;
}

export interface Queue extends AsyncDisposable {
  /** Accepts one job; it is committed when this resolves. */
  add(payload: string): Promise<void>;
  addMany(payloads: readonly string[]): Promise<void>;
  /** Works off all jobs. Returns the milliseconds from a worker that is ready to the last commit. */
  drain(jobs: number): Promise<number>;
  /** Starts a worker, on connections of its own, that says which job it starts. */
  listen(onStart: (payload: string) => void): Promise<void>;
  /** To see that nothing was left out. `done` is null where finished jobs are deleted. */
  count(): Promise<{ waiting: number; done: number | null }>;
}

/** "graphile-worker on postgres": how a system is chosen, and told from others. */
export function keyOf({ name, engine }: Pick<System, "name" | "engine">): string {
  return `${name} on ${engine}`;
}

/** Counts finished jobs, and says when the last of them was. */
export class Countdown {
  readonly #over = Promise.withResolvers<void>();
  #left: number;

  constructor(jobs: number) {
    this.#left = jobs;
  }

  get over(): Promise<void> {
    return this.#over.promise;
  }

  readonly tick = (): void => {
    this.#left -= 1;
    if (this.#left === 0) this.#over.resolve();
  };
}
