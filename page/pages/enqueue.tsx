/** Enqueueing a job by a form made from its task's schema, or by JSON. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { EnqueueOptions, TaskInfo } from "../api.gen.ts";
import { post } from "../client.ts";
import * as f from "../format.ts";
import { useMay, useRead } from "../live.ts";
import { FieldView } from "../notice-view.tsx";
import { type Answers, type Field, toast } from "../notices.ts";
import { Crumbs, Empty, Head, Panel, Seg, Shown, Tag } from "../parts.tsx";
import { go, to, usePlace } from "../router.ts";
import { Problem, SubmitButton, useSubmit } from "../submit.tsx";
import { parsed } from "./json-text.ts";
import { answersOf, defaults, fieldsOf, inputOf } from "./payload-fields.ts";
import { TaskInputs } from "./task-inputs.tsx";

/** What the box has for JSON at first. */
const NO_INPUT = "{}";

const OPTIONS: readonly (Field & { readonly name: keyof EnqueueOptions })[] = [
  { name: "key", label: "Key", hint: "two jobs with the same key are one" },
  { name: "queue", label: "Queue", hint: "empty: the task’s own" },
  { name: "delay", label: "Start in", hint: "such as 10m; empty: now" },
  { name: "priority", label: "Priority", kind: "number", hint: "higher goes first" },
  { name: "maxAttempts", label: "Attempts", kind: "number" },
  { name: "tags", label: "Tags", hint: "separated by commas" },
];

export function EnqueuePage(): JSX.Element {
  const from = useRead("tasks", {}, 30_000);
  const { operator } = useMay();
  return (
    <>
      <Crumbs>{[<a href={to("jobs")}>Jobs</a>, "Enqueue"]}</Crumbs>
      <Head title="Enqueue a job" say="It is stored durably before this page says so." />
      {operator ? (
        <Shown from={from}>{({ tasks }) => <Form tasks={tasks} />}</Shown>
      ) : (
        <section class="panel">
          <Empty title="You may look, but not enqueue.">
            Ask for a token with the role operator.
          </Empty>
        </section>
      )}
    </>
  );
}

function optionsOf(answers: Answers): EnqueueOptions {
  const text = (name: keyof EnqueueOptions): string => String(answers[name] ?? "").trim();
  const has = (name: keyof EnqueueOptions): boolean => text(name) !== "";
  return {
    ...(has("key") && { key: text("key") }),
    ...(has("queue") && { queue: text("queue") }),
    ...(has("delay") && { delay: text("delay") }),
    ...(has("priority") && { priority: Number(text("priority")) }),
    ...(has("maxAttempts") && { maxAttempts: Number(text("maxAttempts")) }),
    ...(has("tags") && {
      tags: text("tags")
        .split(",")
        .map((tag) => tag.trim()),
    }),
  };
}

function Form({ tasks }: { readonly tasks: readonly TaskInfo[] }): JSX.Element {
  const { query } = usePlace();
  const [name, setName] = useState(query.get("task") ?? "");
  const task = tasks.find((one) => one.name === name);
  const fields = fieldsOf(task?.schema ?? null);
  const asJson = fields === null || query.get("as") === "json";
  const [answers, setAnswers] = useState<Answers>({});
  const set = (field: string, value: string | boolean): void =>
    setAnswers({ ...answers, [field]: value });
  const use = (input: unknown): void =>
    setAnswers({ ...answers, json: JSON.stringify(input, null, 2), ...answersOf(input) });
  const submission = useSubmit(async () => {
    const input = asJson
      ? parsed(String(answers["json"] ?? NO_INPUT))
      : inputOf(task?.schema ?? {}, { ...defaults(fields ?? []), ...answers });
    await enqueue(name, input, optionsOf(answers));
  });
  return (
    <form class="cols-side" onSubmit={submission.submit}>
      <div class="stack">
        <Panel
          title="Task and payload"
          right={fields === null ? undefined : <How task={name} asJson={asJson} />}
        >
          <div class="body stack tight">
            <TaskField tasks={tasks} name={name} setName={setName} />
            {asJson ? (
              <FieldView
                field={{ name: "json", label: "Payload (JSON)", kind: "area", required: true }}
                value={answers["json"] ?? NO_INPUT}
                set={set}
              />
            ) : (
              (fields ?? []).map((field) => (
                <FieldView
                  key={field.name}
                  field={field}
                  value={answers[field.name] ?? field.value ?? ""}
                  set={set}
                />
              ))
            )}
            <Problem of={submission} />
            <div class="line">
              <SubmitButton of={submission}>Enqueue</SubmitButton>
            </div>
          </div>
        </Panel>
        {name !== "" && <TaskInputs key={name} task={name} use={use} />}
      </div>
      <Panel title="Options">
        <div class="body stack tight">
          {OPTIONS.map((field) => (
            <FieldView key={field.name} field={field} value={answers[field.name] ?? ""} set={set} />
          ))}
        </div>
      </Panel>
    </form>
  );
}

async function enqueue(task: string, input: unknown, options: EnqueueOptions): Promise<void> {
  const { id, added, warning } = await post("jobs", { task, input, options });
  if (warning !== undefined) toast(warning, { bad: true });
  else toast(added ? "The job is enqueued." : "A job with this key exists already: here it is.");
  go(to(["jobs", id]));
}

function How({ task, asJson }: { readonly task: string; readonly asJson: boolean }): JSX.Element {
  return (
    <Seg
      push
      label="How"
      choices={[
        { text: "Form", href: to("enqueue", { task }), current: !asJson },
        { text: "JSON", href: to("enqueue", { task, as: "json" }), current: asJson },
      ]}
    />
  );
}

function TaskField({
  tasks,
  name,
  setName,
}: {
  readonly tasks: readonly TaskInfo[];
  readonly name: string;
  readonly setName: (name: string) => void;
}): JSX.Element {
  const task = tasks.find((one) => one.name === name);
  return (
    <div class="field">
      <label for="task">Task</label>
      <input
        id="task"
        type="text"
        list="tasks"
        required
        autofocus={name === ""}
        autocomplete="off"
        spellcheck={false}
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
      />
      <datalist id="tasks">
        {tasks.map((one) => (
          <option key={one.name} value={one.name} />
        ))}
      </datalist>
      <span class="sm dim">
        {name === ""
          ? `One of ${f.plural(tasks.length, "task")}, or any other name.`
          : task === undefined
            ? "No live worker is known to run it."
            : `${task.workers === 1 ? "1 worker runs" : `${task.workers} workers run`} it`}
        {task?.queue !== null && task?.queue !== undefined && <>, in queue {task.queue}</>}{" "}
        {task?.hasSchema === true && <Tag>schema</Tag>}
      </span>
    </div>
  );
}
