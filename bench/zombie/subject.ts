/** The seam: what the story of the zombie asks of a system, ours or a peer's. */
import type { Place, EngineName } from "../places.ts";

/** At its defaults as far as a run can wait for them, or with everything shortened. */
export const PACES = ["defaults", "short"] as const;
export type Pace = (typeof PACES)[number];

/** Every lease, lock or expiry lasts this long when the pace is short. */
export const SHORT_S = 5;

/** What a process of the story says: a word, and what belongs to it. */
export type Word = "started" | "returns" | "wrote" | "heard" | "failed";
export type Say = (word: Word, facts?: string) => void;

/** The function that the job runs. The signal is null where a system hands none over. */
export type Handler = (signal: AbortSignal | null) => Promise<string>;

export interface Subject {
  readonly name: string;
  readonly engine: EngineName;
  readonly role: "ours" | "peer";
  readonly packages: readonly string[];
  /** What it was told beyond its defaults, and how its time was made to pass. */
  readonly settings: Readonly<Record<Pace, string>>;
  /** The condition that its statement of completion carries, as its source says. */
  readonly guard: string;

  /** Looks at the job from outside. */
  open(place: Site, pace: Pace): Promise<Outside>;

  /**
   * A worker of this system, in the process that calls. It says `wrote` whenever the database has answered a completion,
   * with what the answer was, and `heard` for all that the system tells who listens to it.
   */
  work(place: Site, parts: { handler: Handler; say: Say; pace: Pace }): Promise<void>;
}

export type Site = Pick<Place, "url" | "prefix">;

export interface Outside extends AsyncDisposable {
  enqueue(): Promise<string>;
  /** What the database says about the job, without what changes by itself, such as the time of a renewal. */
  look(id: string): Promise<Seen>;
  /** For leases that are too long to wait for: makes one older than it is. */
  letTimePass?(id: string): Promise<void>;
}

export interface Seen {
  /** Null: there is no row any more. */
  readonly row: string | null;
  /** Who of the two made the result that is stored; null where there is none. */
  readonly result: string | null;
}

export const QUEUE = "zombie";

/** Hears all that an emitter says, whatever its name, without being one of its listeners. */
export function overhear(emitter: object, say: Say, without: RegExp = /^$/): void {
  const whole = emitter as { emit: (name: string, ...args: unknown[]) => unknown };
  const emit = whole.emit.bind(emitter);
  whole.emit = (name, ...args) => {
    if (!without.test(name)) say("heard", `${name}${errorIn(args)}`);
    return emit(name, ...args);
  };
}

function errorIn(args: readonly unknown[]): string {
  const inside = args.flatMap((arg) =>
    typeof arg === "object" && arg !== null && "error" in arg ? [arg, arg.error] : [arg],
  );
  const error = inside.find((each) => each instanceof Error);
  return error === undefined ? "" : `: ${error.message.split("\n")[0]}`;
}
