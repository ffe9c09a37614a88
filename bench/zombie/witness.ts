/** Notes down in a worker's own process which completions it sends through `pg`, and what the server answers. */
import { loadPeer } from "../peers.ts";
import type { Say } from "./subject.ts";

interface Answer {
  readonly rowCount: number | null;
  readonly rows: readonly Record<string, unknown>[];
}

type Callback = (error: Error | null, answer?: Answer) => void;
type Query = (this: object, ...args: unknown[]) => unknown;

export interface Watched {
  /** How a completion is recognised. */
  readonly statement: RegExp;
  /** How many rows it changed, by its answer. */
  readonly changed: (answer: Answer) => number;
}

/** Both peers on PostgreSQL use the `pg` that stands beside them. */
export async function watchCompletions({ statement, changed }: Watched, say: Say): Promise<void> {
  const { Client } = await loadPeer<{ Client: { prototype: { query: Query } } }>("pg");
  const { query } = Client.prototype;
  const note = (answer: Answer | undefined): void => {
    if (answer === undefined) return;
    const rows = changed(answer);
    say("wrote", `its completion changed ${rows} ${rows === 1 ? "row" : "rows"}`);
  };
  Client.prototype.query = function watched(...args) {
    if (!statement.test(textOf(args[0]))) return query.apply(this, args);
    const last = args.at(-1);
    if (typeof last !== "function") {
      const answering = query.apply(this, args) as Promise<Answer>;
      void answering.then(note, () => {}); // the caller gets the error
      return answering;
    }
    const callback: Callback = (error, answer) => {
      note(answer);
      (last as Callback)(error, answer);
    };
    return query.apply(this, [...args.slice(0, -1), callback]);
  };
}

function textOf(query: unknown): string {
  if (typeof query === "string") return query;
  return typeof query === "object" && query !== null && "text" in query ? String(query.text) : "";
}
