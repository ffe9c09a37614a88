/** The button that ends what holds a job. */
import type { JSX } from "preact";
import type { JobExplanation, WaitsForEventFacts } from "../api.gen.ts";
import { post } from "../client.ts";
import * as f from "../format.ts";
import { ask, reasonIn, toast } from "../notices.ts";
import { Act, Btn } from "../parts.tsx";
import { to } from "../router.ts";
import { parsed } from "./json-text.ts";
import { askResumeLane } from "./queue-lanes.tsx";
import { askResume } from "./verdict.tsx";

export function Mend({ of }: { readonly of: JobExplanation | null }): JSX.Element | null {
  switch (of?.reason) {
    case "paused": {
      const { queue, lane } = of.facts;
      return lane === null ? (
        <Act onClick={() => askResume(queue, null)}>Resume {queue}…</Act>
      ) : (
        <Act onClick={() => askResumeLane(queue, lane, null)}>Resume lane {lane}…</Act>
      );
    }
    case "workers-paused": {
      const { workers } = of.facts;
      return <Act onClick={() => askResumeWorkers(workers)}>Resume {nameOf(workers)}…</Act>;
    }
    case "waits-for-event": {
      const { events } = of.facts;
      return <Act onClick={() => askEmit(events)}>Emit the event…</Act>;
    }
    case "concurrency-limit":
    case "rate-limit":
      return <Btn href={to(["queues", of.facts.queue])}>Limits of {of.facts.queue}</Btn>;
    case "no-worker":
      return <Btn href={to("workers")}>Workers</Btn>;
    default:
      return null;
  }
}

function nameOf(workers: readonly string[]): string {
  const [only = ""] = workers;
  return workers.length === 1 ? f.workerName(only) : f.plural(workers.length, "worker");
}

function askResumeWorkers(workers: readonly string[]): void {
  const name = nameOf(workers);
  ask({
    title: `Resume ${name}?`,
    body: <p>{workers.length === 1 ? "It takes jobs again." : "They take jobs again."}</p>,
    reason: true,
    confirm: `Resume ${name}`,
    run: async (answers) => {
      for (const id of workers) await post("workers/{id}/resume", { id, ...reasonIn(answers) });
    },
  });
}

/** For every job that waits for it, and only the first time counts. */
function askEmit(events: WaitsForEventFacts["events"]): void {
  const named = events.map(({ name, key }) => ({
    value: `${name} ${key}`,
    text: `${name}, ${key}`,
  }));
  const [first] = named;
  ask({
    title: "Emit the event by hand?",
    body: (
      <p>
        Every job that waits for it goes on with this payload. Emitting it again, also by your
        program, changes nothing.
      </p>
    ),
    fields: [
      {
        name: "event",
        label: "Event and key",
        kind: "choice",
        value: first?.value ?? "",
        choices: named,
      },
      { name: "payload", label: "Payload (JSON)", kind: "area", value: "null", required: true },
    ],
    confirm: "Emit it",
    run: async (answers) => {
      const event = events.find(({ name, key }) => `${name} ${key}` === answers["event"]);
      if (event === undefined) return;
      const { first: isFirst, woken } = await post("events", {
        ...event,
        payload: parsed(String(answers["payload"])),
      });
      const text = isFirst
        ? `Emitted: ${f.plural(woken, "job")} went on.`
        : "It was emitted before, and keeps its first payload.";
      toast(text);
    },
  });
}
