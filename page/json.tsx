/** A value as JSON: folded, copied, and with what redaction hid marked. Text nodes only. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import * as f from "./format.ts";
import { Copy, Panel } from "./parts.tsx";
import "./json.css";

/** Objects and lists with more entries than this, or deeper than that, begin folded. */
const OPEN_ENTRIES = 30;
const OPEN_DEPTH = 2;
const ENTRIES_MAX = 200;
const TEXT_MAX = 2_000;

/** What the server writes in place of a hidden value. */
const HIDDEN = "[hidden by redaction]";

function Json({ value }: { readonly value: unknown }): JSX.Element {
  return (
    <pre class="code" tabIndex={0}>
      <Value value={value} depth={0} />
    </pre>
  );
}

function Value({ value, depth }: { readonly value: unknown; readonly depth: number }): JSX.Element {
  if (typeof value === "string") return <Text text={value} />;
  if (Array.isArray(value)) {
    return (
      <Fold
        open="["
        close="]"
        entries={value.map((one: unknown) => [null, one])}
        depth={depth}
        many={f.plural(value.length, "item")}
      />
    );
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value);
    return (
      <Fold
        open="{"
        close="}"
        entries={entries}
        depth={depth}
        many={f.plural(entries.length, "field")}
      />
    );
  }
  return <>{value === undefined ? "" : JSON.stringify(value)}</>;
}

function Text({ text }: { readonly text: string }): JSX.Element {
  const [whole, setWhole] = useState(false);
  if (text === HIDDEN) return <span class="hid">hidden by redaction</span>;
  const quoted = JSON.stringify(text);
  if (quoted.length <= TEXT_MAX || whole) return <>{quoted}</>;
  return (
    <>
      {quoted.slice(0, TEXT_MAX)}
      <button type="button" class="foldbtn" onClick={() => setWhole(true)}>
        … {f.count(quoted.length - TEXT_MAX)} more characters
      </button>
    </>
  );
}

interface FoldProps {
  readonly open: string;
  readonly close: string;
  readonly entries: readonly (readonly [string | null, unknown])[];
  readonly depth: number;
  readonly many: string;
}

function Fold({ open, close, entries, depth, many }: FoldProps): JSX.Element {
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH && entries.length <= OPEN_ENTRIES);
  const [most, setMost] = useState(ENTRIES_MAX);
  if (entries.length === 0) return <span class="o">{open + close}</span>;
  if (!isOpen) {
    return (
      <button type="button" class="foldbtn" aria-expanded="false" onClick={() => setOpen(true)}>
        {open} {many} {close}
      </button>
    );
  }
  const pad = "  ".repeat(depth + 1);
  return (
    <>
      <button
        type="button"
        class="foldbtn"
        aria-expanded="true"
        aria-label={`Fold ${many}`}
        onClick={() => setOpen(false)}
      >
        {open}
      </button>
      {entries.slice(0, most).map(([key, one], at) => (
        <span key={at}>
          {"\n"}
          {pad}
          {key !== null && (
            <>
              <span class="k">{JSON.stringify(key)}</span>
              {": "}
            </>
          )}
          <Value value={one} depth={depth + 1} />
          {at < entries.length - 1 && ","}
        </span>
      ))}
      {entries.length > most && (
        <>
          {"\n"}
          {pad}
          <button type="button" class="foldbtn" onClick={() => setMost(most + ENTRIES_MAX)}>
            … {f.count(entries.length - most)} more
          </button>
        </>
      )}
      {"\n"}
      {"  ".repeat(depth)}
      <span class="o">{close}</span>
    </>
  );
}

/** How much a value takes as text. */
function size(text: string): string {
  return f.bytes(new TextEncoder().encode(text).length);
}

export function JsonPanel({
  title,
  value,
  none,
  right,
}: {
  readonly title: string;
  readonly value: unknown;
  /** What to say instead of nothing. */
  readonly none: string;
  readonly right?: JSX.Element | false;
}): JSX.Element {
  if (value === undefined || value === null) {
    return (
      <Panel title={title} right={right}>
        <p class="body dim">{none}</p>
      </Panel>
    );
  }
  const text = JSON.stringify(value, null, 2);
  const hidden = text.split(JSON.stringify(HIDDEN)).length - 1;
  return (
    <Panel
      title={title}
      aside={`${size(text)}${hidden > 0 ? `, ${f.plural(hidden, "field")} hidden` : ""}`}
      right={
        <span class="line push">
          {right}
          <Copy text={text} />
        </span>
      }
    >
      <Json value={value} />
    </Panel>
  );
}

/** Lines that both have, and those that only one has: enough to compare two stacks or payloads. */
function diffLines(
  before: string,
  after: string,
): { readonly look: "" | "add" | "del"; readonly text: string }[] {
  const [a, b] = [before.split("\n").slice(0, 400), after.split("\n").slice(0, 400)];
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const row = table[i] as Uint16Array;
      row[j] =
        a[i] === b[j]
          ? (table[i + 1]?.[j + 1] ?? 0) + 1
          : Math.max(table[i + 1]?.[j] ?? 0, row[j + 1] ?? 0);
    }
  }
  const lines: { look: "" | "add" | "del"; text: string }[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ look: "", text: a[i] ?? "" });
      i += 1;
      j += 1;
    } else if (
      j >= b.length ||
      (i < a.length && (table[i + 1]?.[j] ?? 0) >= (table[i]?.[j + 1] ?? 0))
    ) {
      lines.push({ look: "del", text: a[i] ?? "" });
      i += 1;
    } else {
      lines.push({ look: "add", text: b[j] ?? "" });
      j += 1;
    }
  }
  return lines;
}

export function Diff({
  before,
  after,
}: {
  readonly before: string;
  readonly after: string;
}): JSX.Element {
  return (
    <pre class="code" tabIndex={0}>
      {diffLines(before, after).map(({ look, text }, at) => (
        <span key={at} class={look}>
          {look === "add" ? "+ " : look === "del" ? "- " : "  "}
          {text}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}
