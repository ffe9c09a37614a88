/** Toasts and questions, drawn above the page. */
import { Fragment, type JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Clock } from "./clock.tsx";
import { refresh } from "./live.ts";
import {
  type Answers,
  dropToast,
  type Field,
  type Question,
  question,
  toast,
  type Toast,
  toasts,
} from "./notices.ts";
import { Btn } from "./parts.tsx";
import { useStore } from "./store.ts";
import { Problem, SubmitButton, useSubmit } from "./submit.tsx";
import "./notice-view.css";

export function Toasts(): JSX.Element {
  const all = useStore(toasts);
  return (
    <div class="toasts" role="status">
      {all.map((one) => (
        <ToastView key={one.id} one={one} />
      ))}
    </div>
  );
}

function ToastView({ one }: { readonly one: Toast }): JSX.Element {
  const { id, text, bad, undo, href, link } = one;
  const takeBack = async (): Promise<void> => {
    dropToast(id);
    await undo?.();
    refresh();
    toast("Taken back.");
  };
  return (
    <div class={bad ? "toast bad" : "toast"}>
      <span>{text}</span>
      {undo !== null && <Btn onClick={takeBack}>Undo</Btn>}
      {href !== null && <Btn href={href}>{link ?? "Open"}</Btn>}
      <Btn kind="quiet" icon="close" label="Close" onClick={() => dropToast(id)} />
    </div>
  );
}

export function QuestionView(): JSX.Element | null {
  const one = useStore(question);
  return one === null ? null : <Asked key={one.title} one={one} />;
}

function leave(): void {
  question.set(null);
}

function initial({ fields = [] }: Question): Answers {
  return Object.fromEntries(
    fields.map(({ name, value, kind }) => [name, value ?? (kind === "check" ? false : "")]),
  );
}

const RECOUNT_MS = 300;

/**
 * What the button says, counted again a moment after an answer on which the count depends was changed. Null: there is nothing
 * to do; undefined: it is being counted.
 */
function useConfirm({ confirm, recount }: Question, answers: Answers): string | null | undefined {
  const given = recount?.fields.map((name) => answers[name]).join("\n");
  const [counted, setCounted] = useState<{ given: string | undefined; text: string | null }>({
    given,
    text: confirm,
  });
  useEffect(() => {
    if (recount === undefined || counted.given === given) return undefined;
    let isOver = false;
    const timer = setTimeout(async () => {
      const text = await recount.confirm(answers).catch(() => confirm);
      if (!isOver) setCounted({ given, text });
    }, RECOUNT_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [given]);
  return counted.given === given ? counted.text : undefined;
}

function Asked({ one }: { readonly one: Question }): JSX.Element {
  const { title, body, fields = [], reason = false, danger = false, wide = false } = one;
  const box = useRef<HTMLDialogElement>(null);
  const [answers, setAnswers] = useState<Answers>(() => initial(one));
  const confirm = useConfirm(one, answers);
  const isOff = confirm === null || confirm === undefined;
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    box.current?.showModal();
    return () => before?.focus();
  }, []);
  const set = (name: string, value: string | boolean): void =>
    setAnswers({ ...answers, [name]: value });
  const submission = useSubmit(async () => {
    if (isOff) return;
    await one.run(answers);
    if (question.value === one) leave();
    refresh();
  });
  const all = reason ? [...fields, REASON] : fields;
  return (
    <dialog
      class={wide ? "ask modal wide" : "ask modal"}
      ref={box}
      aria-labelledby="ask-h"
      onClose={leave}
    >
      <form class="stack tight" onSubmit={submission.submit}>
        <h2 id="ask-h" class="vh">
          {title}
        </h2>
        {body !== undefined && <div class="dim stack tight">{body}</div>}
        {all.map((field, at) => (
          <Fragment key={field.name}>
            <FieldView field={field} value={answers[field.name] ?? ""} set={set} first={at === 0} />
            {field.told !== undefined && <div aria-live="polite">{field.told(answers)}</div>}
          </Fragment>
        ))}
        <Problem of={submission} />
        <div class="line acts-r">
          <Btn onClick={leave}>Leave it</Btn>
          <SubmitButton of={submission} danger={danger} off={isOff} autofocus={all.length === 0}>
            {confirm === undefined ? "Counting …" : (confirm ?? "No job matches")}
          </SubmitButton>
        </div>
      </form>
    </dialog>
  );
}

const REASON: Field = { name: "reason", label: "Why", hint: "It goes to the audit log." };

export function FieldView({
  field,
  value,
  set,
  first = false,
}: {
  readonly field: Field;
  readonly value: string | boolean;
  readonly set: (name: string, value: string | boolean) => void;
  readonly first?: boolean;
}): JSX.Element {
  const { name, label, kind = "text", hint, choices = [], required = false, list } = field;
  if (kind === "check") {
    return (
      <label class="line">
        <input
          class="box"
          type="checkbox"
          checked={value === true}
          autofocus={first}
          onChange={(event) => set(name, event.currentTarget.checked)}
        />
        <span>{label}</span>
      </label>
    );
  }
  const text = String(value);
  const described = hint === undefined ? undefined : `hint-${name}`;
  const common = { id: `field-${name}`, required, autofocus: first, "aria-describedby": described };
  return (
    <div class="field">
      <label for={`field-${name}`}>
        {label}
        {required && <span class="faint"> (required)</span>}
      </label>
      {kind === "area" && (
        <textarea
          {...common}
          rows={6}
          class="mono"
          spellcheck={false}
          value={text}
          onInput={(event) => set(name, event.currentTarget.value)}
        />
      )}
      {kind === "choice" && (
        <select {...common} value={text} onChange={(event) => set(name, event.currentTarget.value)}>
          {choices.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.text}
            </option>
          ))}
        </select>
      )}
      {kind === "instant" && <Clock {...common} value={text} set={(clock) => set(name, clock)} />}
      {kind === "number" && (
        <input
          {...common}
          type="number"
          value={text}
          onInput={(event) => set(name, event.currentTarget.value)}
        />
      )}
      {kind === "text" && (
        <input
          {...common}
          type="text"
          list={list === undefined ? undefined : `list-${name}`}
          value={text}
          autocomplete="off"
          onInput={(event) => set(name, event.currentTarget.value)}
        />
      )}
      {list !== undefined && (
        <datalist id={`list-${name}`}>
          {list.map((offered) => (
            <option key={offered} value={offered} />
          ))}
        </datalist>
      )}
      {hint !== undefined && (
        <span class="sm faint" id={`hint-${name}`}>
          {hint}
        </span>
      )}
    </div>
  );
}
