/**
 * Answers for agents: whole if they are short, else cut field by field.
 *
 * A model pays for every character and reads all of it. So long texts are shortened and long lists end early, the answer says
 * where, and the caller gets the rest of a field by its address: `attempts.0.error.stack@4000`.
 */

/** Characters of JSON: about 6,000 tokens. */
export const ANSWER_CHARS_MAX = 24_000;

/** Tried one after the other, until the answer is short enough. */
const STEPS: readonly Limits[] = [
  { chars: 16_000, entries: 500 },
  { chars: 4_000, entries: 100 },
  { chars: 1_000, entries: 30 },
  { chars: 200, entries: 10 },
  { chars: 60, entries: 3 },
];

/** Objects have more fields than lists need entries. */
const FIELDS_MIN = 40;

/** Fields that are named as cut. */
const NOTES_MAX = 20;

const HOW =
  "Call the tool again with `fields`: the rest of a field by its address here, or any other parts of the answer, " +
  "such as job.status.";

interface Limits {
  readonly chars: number;
  readonly entries: number;
}

/** A field that is not whole. */
interface Note {
  readonly field: string;
  /** Characters, entries or fields. */
  readonly shown: number;
  readonly of: number;
  /** The address of the rest. */
  readonly rest: string;
  /** How many other entries of the same list are cut at this field. */
  others: number;
}

type Json = Readonly<Record<string, unknown>>;

/** The answer, or what is left of it with `cut`, which says what is missing and how to get it. */
export function cut(answer: Json, most = ANSWER_CHARS_MAX): Json {
  if (lengthOf(answer) <= most) return answer;
  for (const limits of STEPS) {
    const notes = new Map<string, Note>();
    const cutting = new Cutting(limits, notes);
    const shown = {
      ...(cutting.value(answer, []) as Json),
      cut: { fields: [...notes.values()].slice(0, NOTES_MAX), how: HOW },
    };
    if (lengthOf(shown) <= most) return shown;
  }
  // Only an answer of many levels gets here.
  const text = JSON.stringify(answer).slice(0, most / 2);
  return { text, cut: { fields: [], how: `${HOW} It has: ${Object.keys(answer).join(", ")}.` } };
}

const lengthOf = (value: unknown): number => JSON.stringify(value).length;

class Cutting {
  readonly #limits: Limits;
  readonly #notes: Map<string, Note>;

  constructor(limits: Limits, notes: Map<string, Note>) {
    this.#limits = limits;
    this.#notes = notes;
  }

  value(value: unknown, path: readonly string[]): unknown {
    const { chars, entries } = this.#limits;
    if (typeof value === "string") {
      if (value.length <= chars) return value;
      this.#note(path, chars, value.length);
      return `${value.slice(0, chars).toWellFormed()}…`;
    }
    if (Array.isArray(value)) {
      if (value.length > entries) this.#note(path, entries, value.length);
      const shown: unknown[] = value.slice(0, entries);
      return shown.map((entry, index) => this.value(entry, [...path, String(index)]));
    }
    if (typeof value !== "object" || value === null) return value;
    const all = Object.entries(value);
    const most = path.length === 0 ? all.length : Math.max(entries, FIELDS_MIN);
    if (all.length > most) this.#note(path, most, all.length);
    return Object.fromEntries(
      all.slice(0, most).map(([name, field]) => [name, this.value(field, [...path, name])]),
    );
  }

  /** One note for the same field of all entries of a list. */
  #note(path: readonly string[], shown: number, of: number): void {
    const kind = path.map((name) => (INDEX.test(name) ? "*" : name)).join(".");
    const note = this.#notes.get(kind);
    if (note !== undefined) {
      note.others += 1;
      return;
    }
    const field = path.join(".");
    const { address, from } = addressOf(field);
    this.#notes.set(kind, { field, shown, of, rest: `${address}@${from + shown}`, others: 0 });
  }
}

const INDEX = /^\d+$/;

/** `error.stack@4000`: the stack from its 4,000th character on. */
function addressOf(field: string): { readonly address: string; readonly from: number } {
  const [, address = field, from = "0"] = /^(.+)@(\d{1,9})$/.exec(field) ?? [];
  return { address, from: Number(from) };
}

/** Only these fields of an answer, by their addresses. Null: the answer has none at the address that is returned. */
export function pick(
  answer: Json,
  fields: readonly string[],
): { readonly picked: Json } | { readonly missing: string } {
  const picked: [string, unknown][] = [];
  for (const field of fields) {
    const { address, from } = addressOf(field);
    const value = valueAt(answer, address.split("."));
    if (value === undefined) return { missing: field };
    const isCut = from > 0 && (typeof value === "string" || Array.isArray(value));
    picked.push([field, isCut ? value.slice(from) : value]);
  }
  return { picked: Object.fromEntries(picked) };
}

/** In a list, a number is an entry, and a name is that field of all entries. */
function valueAt(answer: unknown, names: readonly string[]): unknown {
  let value = answer;
  for (const name of names) {
    if (!Array.isArray(value)) value = fieldOf(value, name);
    else if (INDEX.test(name)) value = value[Number(name)];
    else {
      const found: unknown[] = value.map((entry) => fieldOf(entry, name));
      if (found.length > 0 && found.every((one) => one === undefined)) return undefined;
      value = found.map((one) => one ?? null);
    }
  }
  return value;
}

function fieldOf(value: unknown, name: string): unknown {
  const isThere = typeof value === "object" && value !== null && Object.hasOwn(value, name);
  return isThere ? (value as Json)[name] : undefined;
}
