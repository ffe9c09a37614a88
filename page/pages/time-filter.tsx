/** When jobs ended, were enqueued or started: from one clock time to another, in the time zone of the person who looks. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Clock } from "../clock.tsx";
import * as f from "../format.ts";
import { serverNow } from "../live.ts";
import { Btn } from "../parts.tsx";
import { go, to } from "../router.ts";
import { atOf, isByEnd, spanText, SPANS } from "./job-query.ts";
import "./time-filter.css";

const EVENTS = ["ended", "enqueued", "started"] as const;
type Event = (typeof EVENTS)[number];

/** The list of what happened in between; null: no bound. */
function between(
  query: URLSearchParams,
  event: Event,
  [since, until]: readonly [since: string | number | null, until: number | null],
): string {
  const next = new URLSearchParams(query);
  for (const name of [`${event}Since`, `${event}Until`, "before"]) next.delete(name);
  if (since !== null) next.set(`${event}Since`, String(since));
  if (until !== null) next.set(`${event}Until`, String(until));
  return to("jobs", next);
}

function midnight(): number {
  return new Date(serverNow()).setHours(0, 0, 0, 0);
}

export function TimeFilter({ query }: { readonly query: URLSearchParams }): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <div class="when">
      <Btn onClick={() => setOpen(!open)}>Time…</Btn>
      {open && <TimeForm query={query} close={() => setOpen(false)} />}
    </div>
  );
}

function TimeForm({
  query,
  close,
}: {
  readonly query: URLSearchParams;
  readonly close: () => void;
}): JSX.Element {
  const given = EVENTS.find((one) => query.has(`${one}Since`) || query.has(`${one}Until`));
  const [event, setEvent] = useState<Event>(given ?? (isByEnd(query) ? "ended" : "enqueued"));
  const [since, setSince] = useState(() => f.clockOf(atOf(query.get(`${event}Since`))));
  const [until, setUntil] = useState(() => f.clockOf(atOf(query.get(`${event}Until`))));
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => form.current?.querySelector("select")?.focus(), []);
  const show = (...times: Parameters<typeof between>[2]): void => {
    close();
    go(between(query, event, times));
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
        <span>Jobs that</span>
        <select
          value={event}
          onChange={({ currentTarget }) => setEvent(currentTarget.value as Event)}
        >
          {EVENTS.map((one) => (
            <option key={one} value={one}>
              {one === "enqueued" ? "were enqueued" : one}
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
