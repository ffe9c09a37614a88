/** What may be done to a job now. */
import type { JSX } from "preact";
import type { Job, JobStory, RerunPlan, Step } from "../api.gen.ts";
import { get, post } from "../client.ts";
import * as f from "../format.ts";
import { refresh } from "../live.ts";
import { type Answers, ask, reasonIn, toast } from "../notices.ts";
import { Act } from "../parts.tsx";
import { go, to } from "../router.ts";
import { askAct, may } from "./job-actions.tsx";
import { parsed } from "./json-text.ts";
import { Mend } from "./mend.tsx";

export async function retryJob(job: Job): Promise<void> {
  await post("jobs/{id}/retry", { id: job.id });
  refresh();
  toast(`${job.task} is pending again.`);
}

export async function runNow(job: Job): Promise<void> {
  await post("jobs/{id}/run-now", { id: job.id });
  refresh();
  toast(`${job.task} can start now.`);
}

export function askCancel(job: Job): void {
  ask({
    title: `Cancel ${job.task}?`,
    body: (
      <p>
        {job.status === "processing"
          ? "Its worker is told to stop it. What it has done so far stays done."
          : "It does not start any more. What it has done so far stays done."}{" "}
        A cancelled job can be retried.
      </p>
    ),
    reason: true,
    danger: true,
    confirm: "Cancel it",
    run: (answers) => post("jobs/{id}/cancel", { id: job.id, ...reasonIn(answers) }),
  });
}

export function JobButtons({ story }: { readonly story: JobStory }): JSX.Element {
  const { job, steps } = story;
  const isEnded = may("delete", job);
  return (
    <div class="acts">
      {may("retry", job) && (
        <Act kind="primary" hint="r" onClick={() => retryJob(job)}>
          Retry
        </Act>
      )}
      {may("runNow", job) && (
        <Act kind="primary" hint="r" onClick={() => runNow(job)}>
          Run now
        </Act>
      )}
      <Mend of={story.explanation} />
      {isEnded && steps.length > 0 && (
        <Act hide="sm" onClick={() => askRerun(story)}>
          Rerun from a step…
        </Act>
      )}
      {may("retry", job) && <Act onClick={() => askEdit(job)}>Edit…</Act>}
      {may("edit", job) && <Act onClick={() => askChange(job)}>Edit…</Act>}
      {isEnded && <Act onClick={() => askReplay(job)}>Replay…</Act>}
      {may("cancel", job) && (
        <Act kind="danger" onClick={() => askCancel(job)}>
          Cancel…
        </Act>
      )}
      {isEnded && (
        <Act kind="danger" hide="sm" onClick={() => askAct("delete", [job], () => go(to("jobs")))}>
          Delete…
        </Act>
      )}
    </div>
  );
}

function payloadField({ input }: Job) {
  const value = JSON.stringify(input, null, 2);
  return { name: "input", label: "Payload (JSON)", kind: "area", value, required: true } as const;
}

/** Nothing, if the payload was left as it is. */
function newInput(job: Job, { input }: Answers): { readonly input?: unknown } {
  const text = String(input);
  return text === payloadField(job).value ? {} : { input: parsed(text) };
}

/** Before it runs. */
function askChange(job: Job): void {
  const timed = job.status !== "waiting";
  ask({
    title: `Change ${job.task}?`,
    body: <p>The task’s schema checks a new payload; the old one stays in the job’s record.</p>,
    wide: true,
    fields: [
      payloadField(job),
      { name: "queue", label: "Queue", value: job.queue, required: true },
      {
        name: "priority",
        label: "Priority",
        kind: "number",
        value: String(job.priority),
        required: true,
      },
      ...(timed ? [{ name: "delay", label: "Start after, such as 10m; empty: as it is" }] : []),
    ],
    reason: true,
    confirm: "Change it",
    run: async (answers) => {
      const queue = String(answers["queue"]);
      const priority = Number(answers["priority"]);
      const delay = String(answers["delay"] ?? "").trim();
      await post("jobs/{id}/edit", {
        id: job.id,
        ...newInput(job, answers),
        ...(queue === job.queue ? {} : { queue }),
        ...(priority === job.priority ? {} : { priority }),
        ...(delay === "" ? {} : { delay }),
        ...reasonIn(answers),
      });
      refresh();
      toast(`${job.task} is changed.`);
    },
  });
}

function askReplay(job: Job): void {
  ask({
    title: `Replay ${job.task}?`,
    body: (
      <p>
        A new job with this payload, in the same queue. It repeats everything that this one did, and
        does not take over its key.
      </p>
    ),
    wide: true,
    fields: [payloadField(job)],
    reason: true,
    confirm: "Replay it",
    run: async (answers) => {
      const input = newInput(job, answers);
      const { id } = await post("jobs/{id}/replay", { id: job.id, ...input, ...reasonIn(answers) });
      go(to(["jobs", id]));
      toast(`${job.task} is enqueued as a new job.`);
    },
  });
}

function askEdit(job: Job): void {
  ask({
    title: `Retry ${job.task} with another payload?`,
    body: <p>The task’s schema checks it. The payload as it was stays in the job’s record.</p>,
    wide: true,
    fields: [payloadField(job)],
    reason: true,
    confirm: "Retry with this payload",
    run: async (answers) => {
      const input = parsed(String(answers["input"]));
      await post("jobs/{id}/retry", { id: job.id, input, ...reasonIn(answers) });
      toast(`${job.task} is pending again, with another payload.`);
    },
  });
}

function askRerun({ job, steps }: JobStory): void {
  const sorted = steps.toSorted((a, b) => a.position - b.position);
  ask({
    title: `Rerun ${job.task} from where?`,
    body: (
      <p>Steps before it keep their results. The next question names what would happen again.</p>
    ),
    fields: [
      {
        name: "from",
        label: "From",
        kind: "choice",
        value: `${sorted.at(-1)?.name} ${sorted.at(-1)?.occurrence}`,
        choices: [
          { value: "", text: "the beginning" },
          ...sorted.map(({ name, occurrence, kind }) => ({
            value: `${name} ${occurrence}`,
            text: `${name}${occurrence > 1 ? ` ${occurrence}` : ""} (${kind})`,
          })),
        ],
      },
    ],
    confirm: "See what would happen",
    run: async (answers) => {
      const chosen = sorted.find(
        ({ name, occurrence }) => `${name} ${occurrence}` === answers["from"],
      );
      const from = chosen === undefined ? {} : { from: chosen.name, occurrence: chosen.occurrence };
      const plan = await get("jobs/{id}/rerun-plan", { id: job.id, ...from });
      askPlanned(job, chosen, plan);
    },
  });
}

function names(list: readonly { readonly name: string }[]): string {
  return f.listed(
    list.map(({ name }) => name),
    6,
  );
}

function askPlanned(job: Job, from: Step | undefined, plan: RerunPlan): void {
  ask({
    title: `Rerun ${job.task} from ${from?.name ?? "the beginning"}?`,
    body: (
      <>
        <p>
          {plan.keeps.length === 0
            ? "No step keeps its result."
            : `Kept, and not done again: ${names(plan.keeps)}.`}
        </p>
        <p>
          {plan.repeats.length === 0
            ? "No step runs again."
            : `Runs again: ${names(plan.repeats)}.`}
        </p>
        {plan.confirm.length > 0 && (
          <p class="failed strong">
            These change something outside, and would do so again: {f.listed(plan.confirm, 6)}.
          </p>
        )}
      </>
    ),
    reason: true,
    danger: plan.confirm.length > 0,
    confirm:
      plan.confirm.length > 0
        ? `Rerun, and repeat ${f.plural(plan.confirm.length, "effect")}`
        : "Rerun",
    run: async (answers) => {
      const start = from === undefined ? null : { name: from.name, occurrence: from.occurrence };
      await post("jobs/{id}/rerun", {
        id: job.id,
        from: start,
        confirm: plan.confirm,
        ...reasonIn(answers),
      });
      toast(`${job.task} is pending again.`);
    },
  });
}

/** Two buttons: it happened, it did not. */
export function resolveEffect(job: Job, step: Step): JSX.Element {
  const decide = (done: boolean): void =>
    ask({
      title: done ? `“${step.name}” happened?` : `“${step.name}” did not happen?`,
      body: (
        <p>
          {done
            ? "The job goes on after it, with the result you give. It is not done again."
            : "The job does it now."}
        </p>
      ),
      fields: done
        ? [{ name: "result", label: "Its result (JSON)", kind: "area", value: "null" }]
        : [],
      reason: true,
      confirm: done ? "It happened" : "It did not: do it",
      run: (answers) =>
        post("jobs/{id}/resolve", {
          id: job.id,
          name: step.name,
          occurrence: step.occurrence,
          done,
          ...(done ? { result: parsed(String(answers["result"])) } : {}),
          ...reasonIn(answers),
        }),
    });
  return (
    <>
      <Act onClick={() => decide(true)}>It happened…</Act>
      <Act onClick={() => decide(false)}>It did not…</Act>
    </>
  );
}
