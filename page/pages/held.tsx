/** What keeps pending jobs from starting: a limit, or workers that run as many jobs as they may. */
import type { JSX } from "preact";
import type { BusyFacts, Explanation, JobSummary } from "../api.gen.ts";
import * as f from "../format.ts";
import { useRead } from "../live.ts";
import { WorkerLink } from "../parts.tsx";
import { Why } from "./why.tsx";

/** Each explanation takes a few statements, and what holds jobs changes slowly. */
const EVERY_MS = 5_000;

/** Explanations that one list asks for; the jobs of other lanes are just pending. */
const ASKED_MAX = 10;

/** Reasons that hold all pending jobs of a queue, lane and task. */
const HOLDS: ReadonlySet<Explanation["reason"]> = new Set([
  "paused",
  "no-worker",
  "workers-paused",
  "concurrency-limit",
  "rate-limit",
]);

/** Which job each pending one is explained by: the first of the list that has the same queue, lane and task. */
export function explainedBy(jobs: readonly JobSummary[]): ReadonlyMap<string, string> {
  const pending = jobs.filter(({ status }) => status === "pending");
  const alike = Map.groupBy(pending, ({ queue, lane, task }) =>
    JSON.stringify([queue, lane, task]),
  );
  const asked = [...alike.values()].slice(0, ASKED_MAX);
  return new Map(
    asked.flatMap((group) => group.map(({ id }) => [id, group[0]?.id ?? id] as const)),
  );
}

/** Of a pending job whose queue is open and served. */
export function Held({ by }: { readonly by: string | null }): JSX.Element {
  const { data } = useRead("jobs/{id}/explanation", by === null ? null : { id: by }, EVERY_MS);
  if (data === undefined) return <>Pending</>;
  if (HOLDS.has(data.reason)) return <Why of={data} ofJob />;
  const busy = busyIn(data);
  return busy === null ? <>Pending</> : <BusyText {...busy} />;
}

function busyIn(why: Explanation): BusyFacts | null {
  if (why.reason === "workers-busy") return why.facts;
  return why.reason === "behind" ? why.facts.busy : null;
}

function BusyText({ workers, places }: BusyFacts): JSX.Element {
  const [only] = workers;
  if (workers.length > 1 || only === undefined)
    return (
      <>
        All {workers.length} workers that could run it run {f.plural(places, "job")}, as many as
        they may
      </>
    );
  return (
    <>
      Worker <WorkerLink id={only} /> runs {f.plural(places, "job")}, as many as it may
    </>
  );
}
