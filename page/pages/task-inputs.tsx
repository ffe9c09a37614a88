/** What the last jobs of a task were enqueued with: an example to begin with. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ListTaskInputsResponse, TaskInput } from "../api.gen.ts";
import { get } from "../client.ts";
import { Glyph, wordOf } from "../icons.tsx";
import { Ago, Bones, Btn, JobLink, Panel } from "../parts.tsx";
import "./task-inputs.css";

const SHOWN = 3;

/** A request looks at as many jobs as it can in a moment; of a rare task, further ones go on from there. */
const REQUESTS_MAX = 20;

const PREVIEW_MAX = 200;

/** The name may still be typed. */
const TYPED_MS = 250;

async function newest(task: string, signal: AbortSignal): Promise<readonly TaskInput[]> {
  const found: TaskInput[] = [];
  let before: string | null = null;
  for (let requests = 0; requests < REQUESTS_MAX; requests += 1) {
    const place = before === null ? {} : { before };
    const limit = SHOWN - found.length;
    const page: ListTaskInputsResponse = await get(
      "tasks/{task}/inputs",
      { task, limit, ...place },
      { signal },
    );
    found.push(...page.inputs);
    before = page.next;
    if (before === null || found.length >= SHOWN) break;
  }
  return found;
}

/** Nothing, while nothing is found: the task is new, or is still being typed. */
export function TaskInputs({
  task,
  use,
}: {
  readonly task: string;
  readonly use: (input: unknown) => void;
}): JSX.Element | null {
  const [found, setFound] = useState<readonly TaskInput[] | null>(null);
  useEffect(() => {
    const left = new AbortController();
    const show = (inputs: readonly TaskInput[]): void => {
      if (!left.signal.aborted) setFound(inputs);
    };
    const timer = setTimeout(
      // The form works without examples.
      () => void newest(task, left.signal).then(show, () => show([])),
      TYPED_MS,
    );
    return () => {
      clearTimeout(timer);
      left.abort();
    };
  }, [task]);
  if (found === null) return <Bones rows={2} />;
  if (found.length === 0) return null;
  return (
    <Panel title="Last payloads">
      <ul class="rows">
        {found.map((one) => (
          <li key={one.id} class="task-input">
            <span title={wordOf(one.status)}>
              <Glyph status={one.status} />
            </span>
            <div class="grow">
              <JobLink id={one.id}>{one.key ?? undefined}</JobLink>{" "}
              <span class="faint sm">
                <Ago at={one.enqueuedAt} word=" ago" />
              </span>
              <p class="mono sm dim clip" title={preview(one.input)}>
                {preview(one.input)}
              </p>
            </div>
            <Btn kind="quiet" onClick={() => use(one.input)}>
              Use
            </Btn>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function preview(input: unknown): string {
  const text = JSON.stringify(input) ?? "null";
  return text.length > PREVIEW_MAX ? `${text.slice(0, PREVIEW_MAX)}…` : text;
}
