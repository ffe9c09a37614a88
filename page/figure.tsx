/** A large figure with its name, in a row of six: `<dl class="figs">`. */
import type { JSX } from "preact";
import type { Children } from "./parts.tsx";
import "./figure.css";

export function Figure({
  name,
  value,
  unit,
  more,
  warn = false,
}: {
  readonly name: string;
  readonly value: string;
  readonly unit?: string;
  readonly more: Children;
  readonly warn?: boolean;
}): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="v">
        {value}
        {unit !== undefined && <small>{unit}</small>}
      </dd>
      <dd class={warn ? "d warn" : "d"}>{more}</dd>
    </div>
  );
}
