/** A day and a time, in the time zone of the person who looks. */
import type { JSX } from "preact";

export function Clock({
  value,
  set,
  ...given
}: {
  readonly value: string;
  readonly set: (value: string) => void;
  readonly id?: string;
  readonly autofocus?: boolean;
  readonly required?: boolean;
  readonly "aria-describedby"?: string | undefined;
}): JSX.Element {
  return (
    <input
      {...given}
      type="datetime-local"
      step={1}
      list={undefined}
      value={value}
      onInput={({ currentTarget }) => set(currentTarget.value)}
    />
  );
}
