/** Commands on several jobs: one that cannot be helped does not keep the others from it. */
import { exitCodeOf, exitCodes, SomeFailed } from "./failure.ts";
import type { Terminal } from "./terminal.ts";

export interface Handled {
  readonly id: string;
  readonly status: string;
}

/** Prints what was done to each job, then throws what went wrong with the others. */
export async function eachJob<One extends Handled>(
  terminal: Terminal,
  ids: readonly string[],
  parts: { act: (id: string) => Promise<One>; say: (handled: One) => string },
): Promise<void> {
  const handled: One[] = [];
  const errors: unknown[] = [];
  for (const id of new Set(ids)) {
    try {
      handled.push(await parts.act(id));
    } catch (error) {
      // Without the database the others would fail for the same reason.
      if (exitCodeOf(error) === exitCodes.database) throw error;
      errors.push(error);
    }
  }
  if (terminal.json) terminal.printJson({ jobs: handled });
  else terminal.print(...handled.map(parts.say));
  const [first, ...more] = errors;
  if (errors.length > 0) throw new SomeFailed([first, ...more]);
}
