/** What forms share: one submission at a time, and what it was refused for. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { sentence } from "./api.ts";
import { type Children, Note } from "./parts.tsx";

export interface Submission {
  readonly isBusy: boolean;
  readonly problem: unknown;
  readonly submit: (event: Event) => void;
}

/** What the work throws is the problem; the form stays with all that was written. */
export function useSubmit(work: () => Promise<unknown>): Submission {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<unknown>(null);
  const submit = (event: Event): void => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setProblem(null);
    void work()
      .catch(setProblem)
      .finally(() => setBusy(false));
  };
  return { isBusy, problem, submit };
}

export function Problem({ of: { problem } }: { readonly of: Submission }): JSX.Element | null {
  return problem === null ? null : <Note tone="bad">{sentence(problem)}</Note>;
}

export function SubmitButton({
  of: { isBusy },
  danger = false,
  off = false,
  autofocus = false,
  children,
}: {
  readonly of: Submission;
  readonly danger?: boolean;
  readonly off?: boolean;
  readonly autofocus?: boolean;
  readonly children: Children;
}): JSX.Element {
  const look = `btn ${danger ? "danger" : "primary"}${isBusy ? " busy" : ""}`;
  return (
    <button
      type="submit"
      class={look}
      aria-disabled={off || undefined}
      aria-busy={isBusy || undefined}
      autofocus={autofocus}
    >
      {children}
    </button>
  );
}
