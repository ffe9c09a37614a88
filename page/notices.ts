/** Notices that float above the page: a toast with an undo, and a question before what cannot be undone. */
import type { ComponentChildren } from "preact";
import { Store } from "./store.ts";

const TOAST_MS = 4_000;
const UNDO_MS = 10_000;
const TOASTS_MAX = 3;

export interface Toast {
  readonly id: number;
  readonly text: string;
  readonly bad: boolean;
  readonly undo: (() => Promise<unknown>) | null;
  readonly href: string | null;
  readonly link: string | null;
}

export const toasts = new Store<readonly Toast[]>([]);

let lastId = 0;

export function toast(
  text: string,
  how: {
    readonly bad?: boolean;
    readonly undo?: () => Promise<unknown>;
    readonly href?: string;
    readonly link?: string;
  } = {},
): void {
  lastId += 1;
  const { bad = false, undo = null, href = null, link = null } = how;
  const one: Toast = { id: lastId, text, bad, undo, href, link };
  toasts.set([...toasts.value, one].slice(-TOASTS_MAX));
  setTimeout(() => dropToast(one.id), undo === null && !bad && href === null ? TOAST_MS : UNDO_MS);
}

export function dropToast(id: number): void {
  toasts.set(toasts.value.filter((one) => one.id !== id));
}

/** What a question's fields hold, by name. */
export type Answers = Readonly<Record<string, string | boolean>>;

export interface Field {
  readonly name: string;
  readonly label: string;
  readonly kind?: "text" | "number" | "area" | "check" | "choice" | "instant";
  readonly value?: string | boolean;
  readonly hint?: string;
  readonly choices?: readonly { readonly value: string; readonly text: string }[];
  readonly required?: boolean;
  /** What the browser offers while a text is typed; others may be typed as well. */
  readonly list?: readonly string[];
  /** Stands below the field, and tells what all answers mean while they are typed. */
  readonly told?: (answers: Answers) => ComponentChildren;
}

export interface Question {
  readonly title: string;
  readonly body?: ComponentChildren;
  readonly fields?: readonly Field[];
  /** Asks why; the answer goes to the audit log as `reason`. */
  readonly reason?: boolean;
  /** Names the act and the count. */
  readonly confirm: string;
  /** The same after these fields were changed; null: there is nothing to do. */
  readonly recount?: {
    readonly fields: readonly string[];
    readonly confirm: (answers: Answers) => Promise<string | null>;
  };
  readonly danger?: boolean;
  readonly wide?: boolean;
  /** Throws what was refused; the question stays with all that was written. */
  readonly run: (answers: Answers) => Promise<unknown>;
}

export const question = new Store<Question | null>(null);

export function ask(one: Question): void {
  question.set(one);
}

/** The answer to a choice. */
export function chosen<V extends string>(
  answer: string | boolean | undefined,
  choices: readonly [{ readonly value: V }, ...{ readonly value: V }[]],
): V {
  return (choices.find(({ value }) => value === answer) ?? choices[0]).value;
}

/** The reason among the answers, for the body of a request. */
export function reasonIn(answers: Answers): { readonly reason?: string } {
  const { reason } = answers;
  return typeof reason === "string" && reason.trim() !== "" ? { reason: reason.trim() } : {};
}
