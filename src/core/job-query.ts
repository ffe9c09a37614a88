/**
 * The fields by which jobs are found, and how a filter is written as text: `status:failed task:mail.send error:"no route"`.
 *
 * Lists, counts, bulk actions, commands, the API and the page of the dashboard have this one table, so a field means the same
 * everywhere. This file imports nothing: the page shares it.
 */

/** How the value of a field is read. */
type JobFieldKind = "status" | "ids" | "tags" | "id" | "name" | "task" | "key" | "text" | "instant";

interface JobField {
  readonly kind: JobFieldKind;
  /** Continues "only jobs …". */
  readonly about: string;
}

export const jobFields = {
  status: { kind: "status", about: "with one of these statuses" },
  queue: { kind: "name", about: "of this queue" },
  task: { kind: "task", about: "of this task, in all versions unless one is given" },
  key: { kind: "key", about: "enqueued with this key" },
  keyPrefix: { kind: "key", about: "whose key begins with this" },
  tag: { kind: "tags", about: "with all of these tags" },
  lane: { kind: "key", about: "of this lane" },
  worker: { kind: "key", about: "that ran or run on this worker" },
  build: { kind: "name", about: "that ran or run on a worker of this build" },
  flow: { kind: "id", about: "of the flow or batch with this id" },
  schedule: { kind: "name", about: "that this schedule enqueued" },
  kind: { kind: "text", about: "that failed, or are to be retried, with this kind of error" },
  code: { kind: "text", about: "whose last error has this code or name" },
  error: {
    kind: "text",
    about: "whose last error has this in its name or message, in upper or lower case",
  },
  input: { kind: "text", about: "whose input, as JSON, has this, in upper or lower case" },
  enqueuedSince: { kind: "instant", about: "enqueued at or after this time" },
  enqueuedUntil: { kind: "instant", about: "enqueued before this time" },
  startedSince: { kind: "instant", about: "whose running or last attempt started since" },
  startedUntil: { kind: "instant", about: "whose running or last attempt started before" },
  endedSince: { kind: "instant", about: "that ended at or after this time" },
  endedUntil: { kind: "instant", about: "that ended before this time" },
  id: { kind: "ids", about: "with one of these ids, or with ids that begin with this one" },
} as const satisfies Readonly<Record<string, JobField>>;

export type JobFieldName = keyof typeof jobFields;

export const jobFieldNames = Object.keys(jobFields) as JobFieldName[];

/** Whether a field may be given several times. */
export function isList(name: JobFieldName): boolean {
  return ["status", "ids", "tags"].includes(jobFields[name].kind);
}

const WORD = /([a-zA-Z]+):(?:"((?:[^"\\]|\\.)*)"|(\S+))|"((?:[^"\\]|\\.)*)"|(\S+)/g;

/** A text as fields and values. Words without a field are part of the error. */
export function wordsOf(text: string): [name: string, value: string][] {
  const free: string[] = [];
  const named: [string, string][] = [];
  for (const [, name, quoted, plain, words, word] of text.matchAll(WORD)) {
    const value = (quoted ?? plain ?? words ?? word ?? "").replaceAll(/\\(.)/g, "$1");
    if (name === undefined) free.push(value);
    else named.push([name, value]);
  }
  return free.length === 0 ? named : [...named, ["error", free.join(" ")]];
}

/** Fields and values as a text, which reads back to the same. */
export function textOf(filter: object): string {
  return Object.entries(filter)
    .flatMap(([name, value]) => [value].flat().map((one) => wordOf(name, String(one))))
    .join(" ");
}

function wordOf(name: string, value: string): string {
  if (/^[^\s"\\]+$/.test(value)) return `${name}:${value}`;
  return `${name}:"${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}
