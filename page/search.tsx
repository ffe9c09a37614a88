/** The box on top: finds things by id, key, tag or name, goes to pages, and acts on what is named. */
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { FindResponse } from "./api.gen.ts";
import { get } from "./client.ts";
import { allCommands, beginsWith, type Command, commandsFor, type NamedPage } from "./commands.ts";
import * as f from "./format.ts";
import { Icon } from "./icons.tsx";
import { useKeys } from "./keys.ts";
import { useMay, useRead } from "./live.ts";
import { go, to, usePlace } from "./router.ts";
import "./search.css";

const WAIT_MS = 150;

type Found = FindResponse["hits"][number];

/** Beside what was found: lists of jobs whose key begins with the text, or whose input or error has it. */
type Hit = Omit<Found, "kind"> & { readonly kind: Found["kind"] | Search };

type Search = "keys" | "input" | "error";

/** Where each kind of hit leads. */
const PLACES: Readonly<Record<Hit["kind"], (id: string) => string>> = {
  job: (id: string) => to(["jobs", id]),
  item: (id: string) => to(["items", id]),
  flow: (id: string) => to(["flows", id]),
  worker: (id: string) => to(["workers", id]),
  queue: (id: string) => to(["queues", id]),
  schedule: (id: string) => to(["schedules", id]),
  workflow: (id: string) => to(["workflows", id]),
  bulk: (id: string) => to(["bulk", id]),
  task: (id: string) => to(["tasks", id.split("@")[0] ?? id]),
  key: (id: string) => to("jobs", { key: id }),
  tag: (id: string) => to("jobs", { tag: id }),
  build: (id: string) => to(["builds", id]),
  lock: (id: string) => to("locks", { key: id }),
  keys: (id: string) => to("jobs", { keyPrefix: id }),
  input: (id: string) => to("jobs", { input: id }),
  error: (id: string) => to("jobs", { error: id }),
};

const WHOLE_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** What a hit says: what was typed, and what it belongs to. */
function told({ kind, id, text }: Hit, typed: string): string {
  if (kind === "key") return `${id} · ${text}`;
  if (kind === "item") return `${typed} · ${text}`;
  return kind === "lock" ? `${id} · held by ${text}` : text;
}

/** What was found, and for which text. */
interface Answer {
  readonly text: string;
  readonly hits: readonly Hit[];
}

async function answerTo(text: string, signal: AbortSignal): Promise<Answer> {
  const { hits } = await get("find", { text }, { signal });
  return { text, hits };
}

type Offer = Hit | Command;

/** Pages and actions that begin with a text stand above what is found, others below; searches stand last. */
function offersFor(answer: Answer, commands: readonly Command[]): readonly Offer[] {
  const { text } = answer;
  const fitting = commandsFor(text, commands);
  const [above, below] = [true, false].map((wanted) =>
    fitting.filter((one) => beginsWith(one, text) === wanted),
  );
  const hits = hitsFor(answer);
  const found = hits.filter(({ kind }) => !SEARCHES.has(kind));
  const searches = hits.filter(({ kind }) => SEARCHES.has(kind));
  return [...(above ?? []), ...found, ...(below ?? []), ...searches];
}

/** What is found for a text, the most exact first. */
function hitsFor({ text, hits }: Answer): readonly Hit[] {
  // A whole id is a job's, if nothing else has it: its page says whether there is one.
  if (WHOLE_ID.test(text)) {
    const id = text.toLowerCase();
    if (hits.some((hit) => hit.id === id)) return hits;
    return [...hits, { kind: "job", id, text: "Open the job with this id" }];
  }
  const isBegin = hits.some(({ kind, id }) => kind === "key" && id !== text);
  const searches: Hit[] = [
    { kind: "input", id: text, text: `Jobs whose input has “${text}”` },
    { kind: "error", id: text, text: `Jobs whose error says “${text}”` },
  ];
  return [
    ...hits,
    ...(isBegin
      ? [{ kind: "keys" as const, id: text, text: `Jobs whose key begins with “${text}”` }]
      : []),
    // A number of an order is in the input; a sentence is of an error.
    ...(IS_NUMBERED.test(text) ? searches : searches.toReversed()),
  ];
}

const IS_NUMBERED = /^\S*\d\S*$/;

const SEARCHES: ReadonlySet<Offer["kind"]> = new Set(["keys", "input", "error"]);

/** What is found for a text, a moment after the last key, and at once when it is asked for. */
function useAnswer(text: string): { answer: Answer | null; now: () => Promise<Answer | null> } {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const asking = useRef<{ text: string; promise: Promise<Answer | null> } | null>(null);
  const abort = useRef(new AbortController());
  const ask = (): Promise<Answer | null> => {
    if (asking.current?.text === text) return asking.current.promise;
    const { signal } = abort.current;
    const promise = answerTo(text, signal)
      .catch((): Answer => ({ text, hits: [] }))
      .then((one) => {
        // The text was changed since: the answer is to another question.
        if (signal.aborted) return null;
        setAnswer(one);
        return one;
      });
    asking.current = { text, promise };
    return promise;
  };
  useLayoutEffect(() => {
    abort.current = new AbortController();
    asking.current = null;
    const timer = text === "" ? undefined : setTimeout(() => void ask(), WAIT_MS);
    return () => {
      clearTimeout(timer);
      abort.current.abort();
    };
  }, [text]);
  return { answer: answer?.text === text ? answer : null, now: ask };
}

export function Find({ pages }: { readonly pages: readonly NamedPage[] }): JSX.Element {
  const { path } = usePlace();
  const box = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const wanted = text.trim();
  const { answer, now } = useAnswer(wanted);
  const isJobs = path[0] === "jobs" && path.length === 1;
  useKeys(isJobs ? {} : { "/": () => box.current?.focus() });
  useControlK(() => box.current?.focus());
  const { data: overview } = useRead("overview");
  const { operator } = useMay();
  const commands = allCommands(pages, { overview, operator });
  const all = wanted === "" ? [] : offersFor(answer ?? { text: wanted, hits: [] }, commands);
  const open = (offer: Offer | undefined): void => {
    if (offer === undefined) return;
    setText("");
    box.current?.blur();
    if ("run" in offer) offer.run();
    else go(PLACES[offer.kind](offer.id));
  };
  /** What stands on top may change until the answer to this text is there. */
  const openChosen = async (): Promise<void> => {
    if (wanted === "") return;
    const chosen = all[at];
    if (chosen !== undefined && "run" in chosen && beginsWith(chosen, wanted)) {
      open(chosen);
      return;
    }
    const found = answer ?? (await now());
    if (found !== null) open(offersFor(found, commands)[answer === null ? 0 : at]);
  };
  /** A person who came back in the meantime is writing. */
  const clear = (): void => {
    if (document.activeElement !== box.current) setText("");
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setAt(Math.min(all.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter") void openChosen();
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
          onBlur={() => setTimeout(clear, 200)}
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
        {all.map((offer, index) => (
          <li
            key={"run" in offer ? offer.text : `${offer.kind} ${offer.id}`}
            id={`hit-${index}`}
            role="option"
            aria-selected={index === at}
            onPointerDown={() => open(offer)}
          >
            <Icon name={SEARCHES.has(offer.kind) ? "search" : "right"} />
            <span class="clip">{"run" in offer ? offer.text : told(offer, wanted)}</span>
            <span class="push">{SEARCHES.has(offer.kind) ? "search" : offer.kind}</span>
            {offer.kind === "job" && <span class="mono faint hide-sm">{f.shortId(offer.id)}</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Works while single keys are off, and on the list of jobs, whose own box has `/`. */
function useControlK(focus: () => void): void {
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.key !== "k" || !(event.ctrlKey || event.metaKey)) return;
      if (document.querySelector("dialog[open]") !== null) return;
      event.preventDefault();
      focus();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
