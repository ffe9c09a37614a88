/** Enqueueing a job by a form made from its task's schema, or by JSON. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { EnqueueOptions, TaskInfo } from "../api.gen.ts";
import { sentence } from "../api.ts";
import { post } from "../client.ts";
import { useMay, useRead } from "../live.ts";
import { FieldView } from "../notice-view.tsx";
import { type Answers, type Field, toast } from "../notices.ts";
import { Crumbs, Empty, Head, Note, Panel, Seg, Shown, Tag } from "../parts.tsx";
import { go, to, usePlace } from "../router.ts";
import { parsed } from "./json-text.ts";

interface Schema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly enum?: readonly unknown[];
  readonly description?: string;
  readonly default?: unknown;
}

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

/** Fields for the properties that a form can ask for; null: JSON is better. */
function fieldsOf(schema: Schema | null): Field[] | null {
  if (schema === null || schema.type !== "object" || schema.properties === undefined) return null;
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties).map(([name, one]) => {
    const base = {
      name: `input.${name}`,
      label: name,
      required: required.has(name),
      ...(one.description === undefined ? {} : { hint: one.description }),
    };
    const given =
      typeof one.default === "string" || typeof one.default === "number" ? String(one.default) : "";
    if (one.enum !== undefined)
      return {
        ...base,
        kind: "choice",
        value: String(one.default ?? one.enum[0]),
        choices: one.enum.map((value) => ({ value: String(value), text: String(value) })),
      };
    if (one.type === "boolean") return { ...base, kind: "check", value: one.default === true };
    if (one.type === "number" || one.type === "integer")
      return {
        ...base,
        kind: "number",
        value: given,
      };
    if (one.type === "string") return { ...base, value: given };
    return {
      ...base,
      kind: "area",
      hint: "JSON",
      value: one.default === undefined ? "" : JSON.stringify(one.default),
    };
  });
}

/** The input that the fields describe: numbers are numbers, and what is empty is left out. */
function inputOf(schema: Schema, answers: Answers): Record<string, unknown> {
  const entries = Object.entries(schema.properties ?? {}).flatMap(([name, one]) => {
    const value = answers[`input.${name}`];
    if (value === undefined || value === "") return [];
    if (typeof value === "boolean" || one.type === "string" || one.enum !== undefined)
      return [[name, value] as const];
    return [[name, parsed(value)] as const];
  });
  return Object.fromEntries(entries);
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
  const [name, setName] = useState(query.get("task") ?? tasks[0]?.name ?? "");
  const task = tasks.find((one) => one.name === name);
  const fields = fieldsOf(task?.schema ?? null);
  const asJson = fields === null || query.get("as") === "json";
  const [answers, setAnswers] = useState<Answers>({});
  const [problem, setProblem] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const set = (field: string, value: string | boolean): void =>
    setAnswers({ ...answers, [field]: value });
  const send = async (): Promise<void> => {
    if (busy) return;
    setBusy(true);
    try {
      const text = String(answers["json"] ?? NO_INPUT);
      const input = asJson
        ? parsed(text)
        : inputOf(task?.schema ?? {}, { ...defaults(fields ?? []), ...answers });
      const job = await post("jobs", {
        task: name,
        input,
        options: optionsOf(answers),
      });
      if (job.warning !== undefined) toast(job.warning, { bad: true });
      else
        toast(
          job.added ? "The job is enqueued." : "A job with this key exists already: here it is.",
        );
      go(to(["jobs", job.id]));
    } catch (error) {
      setProblem(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      class="cols-side"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <Panel
        title="Task and payload"
        right={
          fields === null ? undefined : (
            <Seg
              push
              label="How"
              choices={[
                { text: "Form", href: to("enqueue", { task: name }), current: !asJson },
                { text: "JSON", href: to("enqueue", { task: name, as: "json" }), current: asJson },
              ]}
            />
          )
        }
      >
        <div class="body stack tight">
          <div class="field">
            <label for="task">Task</label>
            <input
              id="task"
              type="text"
              list="tasks"
              required
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
              {task === undefined
                ? "No live worker is known to run it."
                : `${task.workers === 1 ? "1 worker runs" : `${task.workers} workers run`} it`}
              {task?.queue !== null && task?.queue !== undefined && <>, in queue {task.queue}</>}{" "}
              {task?.hasSchema === true && <Tag>schema</Tag>}
            </span>
          </div>
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
          {problem !== null && <Note tone="bad">{sentence(problem)}</Note>}
          <div class="line">
            <button type="submit" class={busy ? "btn primary busy" : "btn primary"}>
              Enqueue
            </button>
          </div>
        </div>
      </Panel>
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

function defaults(fields: readonly Field[]): Answers {
  return Object.fromEntries(
    fields.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])),
  );
}
