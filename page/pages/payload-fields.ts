/** The fields of a payload, made from the schema of its task. */
import type { Answers, Field } from "../notices.ts";
import { parsed } from "./json-text.ts";

export interface Schema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly enum?: readonly unknown[];
  readonly description?: string;
  readonly default?: unknown;
}

/** Fields for the properties that a form can ask for; null: JSON is better. */
export function fieldsOf(schema: Schema | null): Field[] | null {
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
export function inputOf(schema: Schema, answers: Answers): Record<string, unknown> {
  const entries = Object.entries(schema.properties ?? {}).flatMap(([name, one]) => {
    const value = answers[`input.${name}`];
    if (value === undefined || value === "") return [];
    if (one.enum !== undefined)
      return [[name, one.enum.find((word) => String(word) === value)] as const];
    if (typeof value === "boolean" || one.type === "string") return [[name, value] as const];
    return [[name, parsed(value)] as const];
  });
  return Object.fromEntries(entries);
}

/** What the fields have if they are left as they are. */
export function defaults(fields: readonly Field[]): Answers {
  return Object.fromEntries(
    fields.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])),
  );
}

/** A payload as the fields have it. */
export function answersOf(input: unknown): Answers {
  if (typeof input !== "object" || input === null) return {};
  return Object.fromEntries(
    Object.entries(input).map(([name, value]) => [`input.${name}`, answerOf(value)]),
  );
}

function answerOf(value: unknown): string | boolean {
  if (typeof value === "boolean" || typeof value === "string") return value;
  return JSON.stringify(value);
}
