/** Chooses one of the attempts that have an error: a few as buttons, more in a list. */
import type { JSX } from "preact";
import * as f from "../format.ts";
import { Btn, Seg } from "../parts.tsx";
import { setQuery, to, usePlace } from "../router.ts";
import type { Attempts } from "./attempts.ts";
import { stepName } from "./why-ended.tsx";
import "./attempt-choice.css";

const BUTTONS_MAX = 3;

/** The value of the address for a comparison of the last two. */
export const COMPARE = "compare";

export function AttemptChoice({
  attempts,
  shown,
}: {
  readonly attempts: Attempts;
  /** The epoch of the attempt, or `COMPARE`. */
  readonly shown: string;
}): JSX.Element | null {
  const { path } = usePlace();
  const failed = attempts.all.filter(({ error }) => error !== null);
  const href = (value: string): string => to(path, { attempt: value });
  if (failed.length < 2 && !attempts.hasEarlier) return null;
  const compare = { text: "Compare", href: href(COMPARE), current: shown === COMPARE };
  if (failed.length <= BUTTONS_MAX && !attempts.hasEarlier) {
    const choices = failed.map(({ epoch, attempt }) => ({
      text: `Attempt ${attempt}`,
      href: href(String(epoch)),
      current: shown === String(epoch),
    }));
    return <Seg push label="Attempt" choices={[...choices, compare]} />;
  }
  return (
    <span class="line push attempt-choice">
      {attempts.hasEarlier && (
        <Btn kind="quiet" onClick={attempts.readEarlier}>
          Earlier
        </Btn>
      )}
      <select
        aria-label="Attempt"
        value={shown}
        onChange={(event) => setQuery({ attempt: event.currentTarget.value }, "replace")}
      >
        {failed.toReversed().map(({ epoch, attempt, startedAt, error }) => (
          <option key={epoch} value={String(epoch)}>
            Attempt {attempt}, {f.timeOfDay(startedAt)}
            {error?.step === undefined ? "" : `, ${stepName(error.step)}`}
          </option>
        ))}
        {failed.length > 1 && <option value={COMPARE}>Compare the last two</option>}
      </select>
    </span>
  );
}
