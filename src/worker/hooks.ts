/**
 * Hooks around the function of a task: for logging, metrics and async context.
 *
 * The first is the outermost. A hook sees the outcome and cannot hide it: a failure stays one, and a success that is stored
 * must not be repeated because a hook failed after it.
 */
import { HoldfastError, InvalidArgumentError } from "../core/errors.ts";
import { checkList } from "../core/options.ts";
import type { Context } from "../core/task.ts";

/** Calls `next` once, and awaits it. Throws to fail the attempt instead; `next` rejects with what the task threw. */
export type RunHook = (ctx: Context, next: () => Promise<unknown>) => unknown;

/** How many hooks a worker may have. */
const HOOKS_MAX = 32;

class HookError extends HoldfastError {
  constructor(hook: RunHook, problem: string) {
    super("HOOK_MISUSED", `The hook '${hook.name || "without a name"}' ${problem}`);
  }
}

export function checkHooks(hooks: readonly RunHook[]): readonly RunHook[] {
  if (checkList("hooks", hooks).length > HOOKS_MAX) {
    throw new InvalidArgumentError({
      field: "hooks",
      problem: `at most ${HOOKS_MAX} are allowed.`,
    });
  }
  if (hooks.every((hook) => typeof hook === "function")) return [...hooks];
  const problem = "pass functions, such as async (ctx, next) => { await next(); }.";
  throw new InvalidArgumentError({ field: "hooks", problem });
}

type Ended = { readonly value: unknown } | { readonly error: unknown };

/** The result of the task. What a hook throws after a success goes to `onLate`. */
export async function runWithHooks(
  hooks: readonly RunHook[],
  ctx: Context,
  { run, onLate }: { run: () => unknown; onLate: (error: unknown) => void },
): Promise<unknown> {
  let ended: Ended | null = null;
  const call = async (index: number): Promise<unknown> => {
    const hook = hooks[index];
    if (hook === undefined) {
      try {
        ended = { value: await run() };
        return ended.value;
      } catch (error) {
        ended = { error };
        throw error;
      }
    }
    let inner: Promise<unknown> | null = null;
    const next = (): Promise<unknown> => {
      if (inner !== null) throw new HookError(hook, "called next() twice. The task runs once.");
      inner = call(index + 1);
      inner.catch(() => {}); // A hook need not await it.
      return inner;
    };
    try {
      await hook(ctx, next);
    } catch (error) {
      // The attempt must not end while its task runs.
      await (inner as Promise<unknown> | null)?.catch(() => {});
      throw error;
    }
    if (inner === null) {
      const remedy = "Call it once, or throw an error to fail the attempt.";
      throw new HookError(hook, `did not call next(). ${remedy}`);
    }
    // Whatever the hook made of it: a failure cannot be hidden.
    return inner;
  };
  try {
    return await call(0);
  } catch (error) {
    const outcome = ended as Ended | null;
    if (outcome === null || !("value" in outcome)) throw error;
    onLate(error);
    return outcome.value;
  }
}
