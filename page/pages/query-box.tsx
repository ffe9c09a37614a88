/** The search of jobs: chips for what is filtered, completion for what can be. */
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { type JobFieldName, jobFieldNames, jobFields } from "../../src/core/job-query.ts";
import type { Names } from "../api.gen.ts";
import { Icon } from "../icons.tsx";
import { useKeys } from "../keys.ts";
import { useRead } from "../live.ts";
import { go, to } from "../router.ts";
import {
  type Chip,
  chipsOf,
  FIELDS,
  instantText,
  isInstant,
  labelOf,
  SPANS,
  withFilter,
  without,
  withWords,
} from "./job-query.ts";
import "./query-box.css";

const NAMES_EVERY_MS = 60_000;
const SHOWN_MAX = 9;

const LISTS: Readonly<Record<string, keyof Names>> = {
  queue: "queues",
  task: "tasks",
  tag: "tags",
  worker: "workers",
  build: "builds",
  schedule: "schedules",
};

/** One line of the completion. */
interface Offer {
  readonly text: string;
  readonly note: string;
  /** Where it leads; a text goes on in the box instead. */
  readonly href?: string;
  readonly fill?: string;
}

const ID = /^[0-9a-f]{8}-?[0-9a-f-]{0,28}$/i;
const WHOLE_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** What is offered for a text. */
function offersFor(text: string, query: URLSearchParams, names: Names | undefined): Offer[] {
  const wanted = text.trim();
  if (wanted === "") return FIELDS.map(offerOf);
  if (WHOLE_ID.test(wanted))
    return [{ text: wanted, note: "open this job", href: to(["jobs", wanted.toLowerCase()]) }];
  const colon = wanted.indexOf(":");
  const field = FIELDS.find((name) => name === wanted.slice(0, colon));
  const several = withWords(query, wanted);
  if (field !== undefined && !/\s/.test(wanted))
    return valuesOf(field, wanted.slice(colon + 1).trim(), query, names);
  if (several !== null) return [{ text: wanted, note: "these fields", href: several }];
  const low = wanted.toLowerCase();
  const fields = FIELDS.filter((name) => name.toLowerCase().startsWith(low)).map(offerOf);
  const known = Object.keys(LISTS).flatMap((name) =>
    valuesOf(name, wanted, query, names, 3).filter(({ note }) => note !== "as written"),
  );
  const texts = (["key", "error", "input"] as const).map((name) => ({
    text: wanted,
    note: labelOf(name),
    href: withFilter(query, name, wanted),
  }));
  const id =
    ID.test(wanted) && wanted.length >= 8
      ? [{ text: wanted, note: "id begins with", href: withFilter(query, "id", wanted) }]
      : [];
  return [...id, ...known, ...fields, ...texts].slice(0, SHOWN_MAX);
}

function offerOf(name: JobFieldName): Offer {
  return { text: `${name}:`, note: jobFields[name].about, fill: `${name}:` };
}

function valuesOf(
  name: string,
  begin: string,
  query: URLSearchParams,
  names: Names | undefined,
  most = SHOWN_MAX,
): Offer[] {
  if (isInstant(name)) {
    const spans = SPANS.map((value) => ({
      text: instantText(value),
      note: name,
      href: withFilter(query, name, value),
    }));
    const written = { text: begin, note: "as written", href: withFilter(query, name, begin) };
    return begin === "" ? spans : [written];
  }
  const list = LISTS[name];
  const low = begin.toLowerCase();
  const known = list === undefined ? [] : (names?.[list] ?? []);
  const fitting = known.filter((one) => one.toLowerCase().includes(low)).slice(0, most);
  const offers = fitting.map((one) => ({
    text: one,
    note: name,
    href: withFilter(query, name, one),
  }));
  if (begin === "" || fitting.includes(begin)) return offers;
  return [...offers, { text: begin, note: "as written", href: withFilter(query, name, begin) }];
}

export function QueryBox({ query }: { readonly query: URLSearchParams }): JSX.Element {
  const box = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const { data: names } = useRead("names", open ? {} : null, NAMES_EVERY_MS);
  const chips = chipsOf(query);
  const offers = offersFor(text, query, names);
  const unknown = /^(\w+):/.exec(text)?.[1];
  const isUnknown = unknown !== undefined && !jobFieldNames.some((name) => name === unknown);
  useKeys({ "/": () => box.current?.focus() });
  const choose = (offer: Offer | undefined): void => {
    if (offer === undefined) return;
    setAt(0);
    if (offer.fill !== undefined) return setText(offer.fill);
    setText("");
    if (offer.href !== undefined) go(offer.href);
  };
  const press = (event: KeyboardEvent): void => {
    const last = chips.at(-1);
    if (event.key === "ArrowDown") setAt(Math.min(offers.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter") choose(offers[at]);
    else if (event.key === "Escape") box.current?.blur();
    else if (event.key === "Backspace" && text === "" && last !== undefined)
      go(without(query, last));
    else return;
    event.preventDefault();
  };
  return (
    <div class="querybox">
      <div class="query" role="search" onClick={() => box.current?.focus()}>
        <Icon name="search" />
        {chips.map((chip) => (
          <ChipView key={`${chip.name} ${chip.value}`} chip={chip} query={query} />
        ))}
        <input
          ref={box}
          type="text"
          role="combobox"
          list={undefined}
          aria-label="Search jobs"
          aria-expanded={open}
          aria-controls="job-offers"
          aria-autocomplete="list"
          aria-activedescendant={open && offers.length > 0 ? `offer-${at}` : undefined}
          aria-invalid={isUnknown || undefined}
          autocomplete="off"
          spellcheck={false}
          placeholder={
            chips.length === 0 ? "queue, task, key, tag, error, input … or paste an id" : ""
          }
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={press}
          onFocus={() => setOpen(true)}
          onBlur={() => setTimeout(() => setOpen(false), 150)}
        />
        <kbd class="hide-sm">/</kbd>
      </div>
      <ul
        class="menu offers"
        id="job-offers"
        role="listbox"
        aria-label="Filters"
        hidden={!open || offers.length === 0}
      >
        {isUnknown && (
          <li class="failed" role="option" aria-selected="false">
            “{unknown}” is no filter. There are: {jobFieldNames.join(", ")}.
          </li>
        )}
        {offers.map((offer, index) => (
          <li
            key={`${offer.note}${offer.text}`}
            id={`offer-${index}`}
            role="option"
            aria-selected={index === at}
            onPointerDown={(event) => {
              event.preventDefault();
              choose(offer);
            }}
          >
            <span class="clip">{offer.text}</span>
            <span class="push">{offer.note}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function ChipView({
  chip,
  query,
}: {
  readonly chip: Chip;
  readonly query: URLSearchParams;
}): JSX.Element {
  return (
    <span class="chip">
      <span>{chip.label}</span>
      <b>{chip.text}</b>
      <button type="button" title="Remove" onClick={() => go(without(query, chip))}>
        <Icon name="close" />
        <span class="sr">
          Remove {chip.label} {chip.text}
        </span>
      </button>
    </span>
  );
}
