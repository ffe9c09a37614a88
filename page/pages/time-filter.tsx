/** When jobs ended, were enqueued or started, or errors were seen: from one clock time to another, in the time zone of the person who looks. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Clock } from "../clock.tsx";
import * as f from "../format.ts";
import { serverNow } from "../live.ts";
import { Btn } from "../parts.tsx";
import { go, to } from "../router.ts";
import { atOf, isByEnd, spanText, SPANS } from "./job-query.ts";
import "./time-filter.css";

/** What happened in between, with the fields of the address. */
interface Event {
  readonly text: string;
  readonly since: string;
  readonly until: string;
}

function eventOf(name: string, text = name): Event {
  return { text, since: `${name}Since`, until: `${name}Until` };
}

const LISTS = {
  jobs: [eventOf("ended"), eventOf("enqueued", "were enqueued"), eventOf("started")],
  errors: [{ text: "were seen", since: "since", until: "until" }],
} as const;

type List = keyof typeof LISTS;

/** The list of what happened in between; null: no bound. */
function between(
  { list, query }: Shown,
  event: Event,
  [since, until]: readonly [since: string | number | null, until: number | null],
): string {
  const next = new URLSearchParams(query);
  for (const name of [event.since, event.until, "before", "group"]) next.delete(name);
  if (since !== null) next.set(event.since, String(since));
  if (until !== null) next.set(event.until, String(until));
  return to(list, next);
}

function midnight(): number {
  return new Date(serverNow()).setHours(0, 0, 0, 0);
}

interface Shown {
  readonly list: List;
  readonly query: URLSearchParams;
}

export function TimeFilter({
  list = "jobs",
  query,
}: Partial<Shown> & Pick<Shown, "query">): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <div class="when">
      <Btn onClick={() => setOpen(!open)}>Time…</Btn>
      {open && <TimeForm list={list} query={query} close={() => setOpen(false)} />}
    </div>
  );
}

function TimeForm({
  list,
  query,
  close,
}: Shown & {
  readonly close: () => void;
}): JSX.Element {
  const events: readonly Event[] = LISTS[list];
  const given = events.find((one) => query.has(one.since) || query.has(one.until));
  const usual = events[isByEnd(query) ? 0 : 1] ?? LISTS.errors[0];
  const [event, setEvent] = useState<Event>(given ?? usual);
  const [since, setSince] = useState(() => f.clockOf(atOf(query.get(event.since))));
  const [until, setUntil] = useState(() => f.clockOf(atOf(query.get(event.until))));
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => form.current?.querySelector<HTMLElement>("select, button")?.focus(), []);
  const show = (...times: Parameters<typeof between>[2]): void => {
    close();
    go(between({ list, query }, event, times));
  };
  return (
    <form
      class="menu"
      ref={form}
      aria-label="Time"
      onKeyDown={({ key }) => key === "Escape" && close()}
      onSubmit={(submit) => {
        submit.preventDefault();
        show(f.instantIn(since), f.instantIn(until));
      }}
    >
      <label class="line">
        <span>{list === "jobs" ? "Jobs that" : "Errors that"}</span>
        <select
          value={event.text}
          onChange={({ currentTarget }) =>
            setEvent(events.find(({ text }) => text === currentTarget.value) ?? event)
          }
        >
          {events.map(({ text }) => (
            <option key={text} value={text}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <div class="line wrap">
        {SPANS.map((span) => (
          <Btn key={span} onClick={() => show(span, null)}>
            {`Last ${spanText(span)}`}
          </Btn>
        ))}
        <Btn onClick={() => show(midnight(), null)}>Today</Btn>
      </div>
      <label class="field">
        From
        <Clock value={since} set={setSince} />
      </label>
      <label class="field">
        Until, not including
        <Clock value={until} set={setUntil} />
      </label>
      <div class="line">
        <span class="sm faint">{f.zoneName()}</span>
        <Btn push onClick={close}>
          Close
        </Btn>
        <Btn kind="primary" type="submit">
          Show
        </Btn>
      </div>
    </form>
  );
}
