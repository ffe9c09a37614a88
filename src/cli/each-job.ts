/** Commands on several jobs: one that cannot be helped does not keep the others from it. */
import type { Holdfast } from "../worker/holdfast.ts";
import { exitCodeOf, exitCodes, SomeFailed } from "./failure.ts";
import { jobId } from "./id.ts";
import type { Terminal } from "./terminal.ts";

export interface Handled {
  readonly id: string;
  readonly status: string;
}

/** Prints what was done to each job, then throws what went wrong with the others. */
export async function eachJob<One extends Handled>(
  { terminal, holdfast }: { readonly terminal: Terminal; readonly holdfast: Holdfast },
  typed: readonly string[],
  parts: { act: (id: string) => Promise<One>; say: (handled: One) => string },
): Promise<void> {
  const handled: One[] = [];
  const errors: unknown[] = [];
  const seen = new Set<string>();
  for (const prefix of typed) {
    try {
      const id = await jobId(holdfast, prefix);
      if (seen.has(id)) continue;
      seen.add(id);
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
