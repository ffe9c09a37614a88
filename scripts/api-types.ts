/**
 * Writes `api.gen.ts`, the types of the API for the dashboard's page, from the OpenAPI document: `node scripts/api-types.ts`.
 *
 * The page is a project with the types of the browser, so it cannot import those of the server. `scripts/floors.ts` compares
 * the file with the document.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { dashboardHandler } from "../src/app/dashboard.ts";
import { operatorActions } from "../src/core/job.ts";
import { openHoldfast } from "../src/index.ts";

export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly required?: readonly string[];
  readonly description?: string;
  readonly default?: unknown;
}

type Content = Readonly<Record<string, { readonly schema: Schema }>>;

export interface Described {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  /** Missing: no token is needed. */
  readonly "x-role"?: string;
  readonly parameters: readonly {
    readonly name: string;
    readonly in: string;
    readonly required: boolean;
    readonly description?: string;
    readonly schema: Schema;
  }[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<
    Record<string, { readonly description: string; readonly content?: Content }>
  >;
}

export interface Document {
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

const NAME = "page/api.gen.ts";
const FILE = join(import.meta.dirname, "..", NAME);

const HEADER = `// The types of the API, written by \`node scripts/api-types.ts\` from the OpenAPI document. Do not edit it, nor merge it by
// hand: write it again.`;

const PREFIX = "/api/v1/";
const STEP = "  ";

export function typeOf(schema: Schema, indent = ""): string {
  if (schema.$ref !== undefined) return schema.$ref.split("/").at(-1) ?? "";
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  const some = schema.anyOf ?? schema.oneOf;
  if (some !== undefined) return some.map((one) => typeOf(one, indent)).join(" | ");
  if (schema.allOf !== undefined)
    return schema.allOf.map((one) => grouped(typeOf(one, indent))).join(" & ");
  if (typeof schema.type === "object")
    return schema.type.map((type) => typeOf({ ...schema, type }, indent)).join(" | ");
  switch (schema.type) {
    case "array":
      return `readonly ${grouped(typeOf(schema.items ?? {}, indent))}[]`;
    case "object":
      return objectOf(schema, indent);
    case "integer":
      return "number";
    case "string":
    case "number":
    case "boolean":
    case "null":
      return schema.type;
    default:
      return "unknown";
  }
}

function grouped(type: string): string {
  return /^[\w.]+$|^\{[^{}]*\}$/.test(type) ? type : `(${type})`;
}

function objectOf(
  { properties, required = [], additionalProperties: more }: Schema,
  indent: string,
): string {
  if (properties === undefined || (Object.keys(properties).length === 0 && more !== false)) {
    return `Readonly<Record<string, ${typeOf(typeof more === "object" ? more : {}, indent)}>>`;
  }
  const fields = Object.entries(properties).map(([name, schema]) => ({
    name,
    required: required.includes(name),
    schema,
  }));
  return fieldsOf(fields, indent);
}

interface Field {
  readonly name: string;
  readonly required: boolean;
  readonly schema: Schema;
}

function fieldsOf(fields: readonly Field[], indent: string): string {
  if (fields.length === 0) return "{}";
  const inner = indent + STEP;
  const lines = fields.flatMap(({ name, required, schema }) => [
    ...commentOn(schema.description, inner),
    `${inner}readonly ${keyOf(name)}${required ? "" : "?"}: ${typeOf(schema, inner)};`,
  ]);
  return ["{", ...lines, `${indent}}`].join("\n");
}

function keyOf(name: string): string {
  return /^[a-z_$][\w$]*$/i.test(name) ? name : JSON.stringify(name);
}

function commentOn(text: string | undefined, indent = ""): string[] {
  return text === undefined ? [] : [`${indent}/** ${text} */`];
}

/** A named list of words is an array too, for those who need every word. The defaults of an object are for forms. */
function namedType([name, schema]: [string, Schema]): string {
  const comment = commentOn(schema.description);
  const value = `${name.slice(0, 1).toLowerCase()}${name.slice(1)}`;
  if (schema.enum !== undefined) {
    return [
      `export const ${value}Values = ${JSON.stringify(schema.enum)} as const;`,
      ...comment,
      `export type ${name} = (typeof ${value}Values)[number];`,
    ].join("\n");
  }
  const defaults = Object.entries(schema.properties ?? {}).flatMap(([field, one]) =>
    one.default === undefined ? [] : [[field, one.default] as const],
  );
  return [
    ...comment,
    `export type ${name} = ${typeOf(schema)};`,
    ...(defaults.length === 0
      ? []
      : [
          `export const ${value}Defaults = ${JSON.stringify(Object.fromEntries(defaults))} as const;`,
        ]),
  ].join("\n");
}

function entryOf(
  path: string,
  { summary, parameters, requestBody }: Described,
  result: Schema,
): string {
  const inner = STEP + STEP;
  const fields = (place: string): Field[] =>
    parameters
      .filter((one) => one.in === place)
      .map(({ description, schema, ...one }) => ({
        ...one,
        schema: { ...schema, ...(description === undefined ? {} : { description }) },
      }));
  const body = requestBody?.content["application/json"]?.schema;
  const places =
    body === undefined
      ? [fieldsOf([...fields("path"), ...fields("query")], inner)]
      : [...fields("path").map((one) => fieldsOf([one], inner)), grouped(typeOf(body))];
  return [
    ...commentOn(`${summary}.`, STEP),
    `${STEP}${keyOf(path.slice(PREFIX.length))}: {`,
    `${inner}input: ${places.join(" & ")};`,
    `${inner}result: ${typeOf(result, inner)};`,
    `${STEP}};`,
  ].join("\n");
}

/** What a request that succeeds answers as JSON. */
function resultOf({ responses }: Described): Schema | undefined {
  const [, good] = Object.entries(responses).find(([status]) => status.startsWith("2")) ?? [];
  return good?.content?.["application/json"]?.schema;
}

function operationsOf({ paths }: Document, name: string, method: string): string {
  const entries = Object.entries(paths).flatMap(([path, { [method]: one }]) => {
    const result = one === undefined ? undefined : resultOf(one);
    if (one === undefined || result === undefined || !path.startsWith(PREFIX)) return [];
    return [entryOf(path, one, result)];
  });
  return `export interface ${name} {\n${entries.join("\n")}\n}`;
}

/** What the page shows a button for: the server refuses the rest. */
function actionsByStatus(): string {
  return [
    "/** In which states an operator may do what to a job. */",
    `export const operatorActions = ${JSON.stringify(operatorActions)} as const;`,
  ].join("\n");
}

export async function readDocument(): Promise<Document> {
  await using holdfast = await openHoldfast("sqlite::memory:");
  const handle = dashboardHandler({ holdfast, principal: () => ({ name: "", role: "viewer" }) });
  try {
    const response = await handle(new Request("http://localhost/api/v1/openapi.json"));
    return (await response.json()) as Document;
  } finally {
    await handle.close();
  }
}

async function apiTypes(): Promise<string> {
  const document = await readDocument();
  const parts = [
    HEADER,
    ...Object.entries(document.components.schemas).map(namedType),
    operationsOf(document, "Reads", "get"),
    operationsOf(document, "Writes", "post"),
    actionsByStatus(),
  ];
  return `${parts.join("\n\n")}\n`;
}

/** What to do if the file does not fit the document; null: it does. */
export async function apiTypesProblem(): Promise<string | null> {
  if (readFileSync(FILE, "utf8") === (await apiTypes())) return null;
  return `${NAME} does not fit the API. Write it again: node scripts/api-types.ts`;
}

if (import.meta.main) writeFileSync(FILE, await apiTypes());
