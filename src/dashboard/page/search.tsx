/** The box on top: finds pages of things by id, key, tag or name. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { read } from "./api.ts";
import * as f from "./format.ts";
import { Glyph, Icon } from "./icons.tsx";
import { useKeys } from "./keys.ts";
import { go, to, usePlace } from "./router.ts";

const WAIT_MS = 150;

interface Hit {
  readonly kind: string;
  readonly id: string;
  readonly text: string;
  readonly status?: string | null;
}

const PLACES: Readonly<Record<string, (id: string) => string>> = {
  job: (id) => to(["jobs", id]),
  item: (id) => to(["items", id]),
  flow: (id) => to(["flows", id]),
  worker: (id) => to(["workers", id]),
  queue: (id) => to(["queues", id]),
  schedule: (id) => to(["schedules", id]),
  workflow: (id) => to(["workflows", id]),
  bulk: (id) => to(["bulk", id]),
  task: (id) => to("jobs", { task: id }),
  key: (id) => to("jobs", { key: id }),
  tag: (id) => to("jobs", { tag: id }),
  lock: (id) => to("locks", { key: id }),
};

function placeOf({ kind, id }: Hit): string {
  return PLACES[kind]?.(id) ?? to("jobs", { error: id });
}

/** What is found for a text, a moment after the last key. */
function useHits(text: string): readonly Hit[] {
  const [hits, setHits] = useState<readonly Hit[]>([]);
  useEffect(() => {
    const wanted = text.trim();
    if (wanted === "") {
      setHits([]);
      return undefined;
    }
    const asking = new AbortController();
    const timer = setTimeout(() => {
      read<{ hits: readonly Hit[] }>(`find?text=${encodeURIComponent(wanted)}`, asking.signal)
        .then(({ hits: found }) => setHits(found))
        .catch(() => setHits([]));
    }, WAIT_MS);
    return () => {
      clearTimeout(timer);
      asking.abort();
    };
  }, [text]);
  return hits;
}

export function Find(): JSX.Element {
  const { path } = usePlace();
  const box = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const hits = useHits(text);
  const isJobs = path[0] === "jobs" && path.length === 1;
  useKeys(isJobs ? {} : { "/": () => box.current?.focus() });
  const all: readonly Hit[] =
    text.trim() === ""
      ? []
      : [
          ...hits,
          { kind: "error", id: text.trim(), text: `Jobs whose error says “${text.trim()}”` },
        ];
  const open = (hit: Hit | undefined): void => {
    if (hit === undefined) return;
    setText("");
    box.current?.blur();
    go(placeOf(hit));
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setAt(Math.min(all.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter") open(all[at]);
    else if (event.key === "Escape") {
      setText("");
      box.current?.blur();
    } else return;
    event.preventDefault();
  };
  return (
    <div class="findbox">
      <label class="find">
        <Icon name="search" />
        <span class="sr">Search</span>
        <input
          ref={box}
          type="search"
          role="combobox"
          list={undefined}
          aria-expanded={all.length > 0}
          aria-controls="find-hits"
          aria-autocomplete="list"
          aria-activedescendant={all.length > 0 ? `hit-${at}` : undefined}
          autocomplete="off"
          spellcheck={false}
          placeholder="Search, or paste an id, key or tag"
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={press}
          onBlur={() => setTimeout(() => setText(""), 200)}
        />
        {!isJobs && <kbd class="hide-sm">/</kbd>}
      </label>
      <ul
        class="menu hits"
        id="find-hits"
        role="listbox"
        aria-label="Found"
        hidden={all.length === 0}
      >
        {all.map((hit, index) => (
          <li
            key={`${hit.kind} ${hit.id}`}
            id={`hit-${index}`}
            role="option"
            aria-selected={index === at}
            onPointerDown={() => open(hit)}
          >
            {hit.status !== undefined && hit.status !== null ? (
              <Glyph status={hit.status} />
            ) : (
              <Icon name={hit.kind === "error" ? "search" : "right"} />
            )}
            <span class="clip">{hit.text}</span>
            <span class="push">{hit.kind === "error" ? "search" : hit.kind}</span>
            {hit.kind === "job" && <span class="mono faint hide-sm">{f.shortId(hit.id)}</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}
