/**
 * Notes that a transaction of ours sends with its commit, so that a process that dies right after it leaves no job to the
 * next poll.
 *
 * Commits that carry a note wait for one another on the whole server, each for the disk. So of the transactions of one
 * process only one at a time carries notes; the others send theirs after the commit.
 */
import type { Transaction } from "../engine.ts";
import { noteOf } from "../notes.ts";
import { sql } from "../sql.ts";
import type { Hint } from "../store.ts";

export class CommitNotes {
  readonly #channel: string;
  readonly #sender: string;
  readonly #sent = new WeakSet<Hint>();
  #carrier: Transaction | null = null;

  constructor({ channel, sender }: { readonly channel: string; readonly sender: string }) {
    this.#channel = channel;
    this.#sender = sender;
  }

  /** Runs a transaction; `begin` says which one it is, anew when it is run again. */
  async during<T>(run: (begin: (tx: Transaction) => Transaction) => Promise<T>): Promise<T> {
    let current: Transaction | null = null;
    const end = (): void => {
      if (this.#carrier === current) this.#carrier = null;
    };
    try {
      return await run((tx) => {
        end();
        current = tx;
        return tx;
      });
    } finally {
      end();
    }
  }

  async send(tx: Transaction, hints: readonly Hint[]): Promise<void> {
    if (hints.length === 0 || (this.#carrier !== null && this.#carrier !== tx)) return;
    this.#carrier = tx;
    const notes = hints.map((hint) => `${this.#sender}:${noteOf(hint)}`);
    await tx.all(
      sql`select pg_notify(${this.#channel}, note) from unnest(${notes}::text[]) as n (note)`,
    );
    for (const hint of hints) this.#sent.add(hint);
  }

  /** Whether it went with its transaction. */
  has(hint: Hint): boolean {
    return this.#sent.has(hint);
  }
}
