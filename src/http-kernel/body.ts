/**
 * Reads a request body within its limits.
 *
 * Bytes are counted as they arrive, and nesting and keys before parsing. A megabyte of JSON can take far more memory once
 * parsed, and deep nesting can overflow the stack.
 */
import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { TEXT } from "../core/name.ts";
import type { Limits } from "./limits.ts";
import { Problem } from "./problem.ts";

export function checkBodyHeaders(headers: {
  readonly "content-encoding": string | undefined;
  readonly "content-type": string | undefined;
}): void {
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity") {
    const detail = "Content-Encoding is not supported. Send the body uncompressed.";
    const accepted = { "Accept-Encoding": "identity" };
    throw new Problem({ status: 415, code: "ENCODED", detail, headers: accepted });
  }
  const [type = "", ...parameters] = (headers["content-type"] ?? "").toLowerCase().split(";");
  const charset = parameters.map((one) => one.trim()).find((one) => one.startsWith("charset="));
  const isUtf8 = charset === undefined || /^charset="?utf-8"?$/.test(charset);
  if (type.trim() === "application/json" && isUtf8) return;
  const detail = "Send JSON in UTF-8 with the header Content-Type: application/json.";
  throw new Problem({ status: 415, code: "NOT_JSON", detail });
}

/** Reads the whole body; throws 413 as soon as it is too large. */
export function readBytes(incoming: IncomingMessage, { bodyBytes }: Limits): Promise<Buffer> {
  const announced = Number(incoming.headers["content-length"] ?? 0);
  if (announced > bodyBytes) return Promise.reject(tooLarge(bodyBytes));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const fail = (error: Error): void => {
      incoming.removeAllListeners("data");
      incoming.pause();
      reject(error);
    };
    incoming.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > bodyBytes) return fail(tooLarge(bodyBytes));
      chunks.push(chunk);
    });
    incoming.once("end", () => resolve(Buffer.concat(chunks)));
    incoming.once("error", () => fail(cutOff()));
    incoming.once("close", () => fail(cutOff()));
  });
}

/** The same of a body that an application passed on; null: there is none. */
export async function readStream(
  body: ReadableStream<Uint8Array> | null,
  { bodyBytes }: Limits,
  announced: number,
): Promise<Buffer> {
  if (announced > bodyBytes) throw tooLarge(bodyBytes);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  const reader = body?.getReader();
  for (;;) {
    const read = await reader?.read().catch(() => {
      throw cutOff();
    });
    const { done = true, value } = read ?? {};
    if (done || value === undefined) return Buffer.concat(chunks);
    bytes += value.length;
    if (bytes > bodyBytes) {
      void reader?.cancel().catch(() => {});
      throw tooLarge(bodyBytes);
    }
    chunks.push(value);
  }
}

function tooLarge(bodyBytes: number): Problem {
  const detail = `The body is larger than ${bodyBytes} bytes. Store large data elsewhere and send a reference.`;
  return new Problem({ status: 413, code: "TOO_LARGE", detail, headers: { Connection: "close" } });
}

function cutOff(): Problem {
  const detail = "The connection ended before the whole body arrived.";
  return new Problem({ status: 400, code: "CUT_OFF", detail });
}

/** The parsed body. An empty body means an empty object. */
export function parseBody(bytes: Buffer, limits: Limits): unknown {
  if (bytes.length === 0) return {};
  checkShape(bytes, limits);
  const text = textOf(bytes);
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own message quotes the input, which may be anything.
    throw unreadable("The body is not valid JSON.");
  }
}

function textOf(bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw unreadable("The body is not valid UTF-8.");
  }
}

/** Checks nesting and number of keys in one pass. In UTF-8 these bytes never occur inside another character. */
export function checkShape(bytes: Uint8Array, { jsonDepth, jsonKeys }: Limits): void {
  let depth = 0;
  let keys = 0;
  let inString = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (inString) {
      if (byte === BACKSLASH) at += 1;
      else if (byte === QUOTE) inString = false;
    } else if (byte === QUOTE) inString = true;
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1;
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1;
    else if (byte === COLON) keys += 1;
    if (depth > jsonDepth) throw unreadable(`The body is nested deeper than ${jsonDepth} levels.`);
    if (keys > jsonKeys) throw unreadable(`The body has more than ${jsonKeys} keys.`);
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

function unreadable(detail: string): Problem {
  return new Problem({ status: 400, code: "UNREADABLE", detail });
}

// Validation messages: which field is wrong, what it must be, and what it was.
//
// The validator reports one bound; the message names both, and the other allowed values. They come from the same JSON Schema
// that the OpenAPI document shows.

type Issue = z.core.$ZodIssue;
type Node = z.core.JSONSchema.BaseSchema;

const PATH_SHOWN_MAX = 100;
const TEXT_SHOWN_MAX = 40;
const NAMES_SHOWN_MAX = 20;

interface Refused {
  readonly field: string;
  readonly detail: string;
}

/** `depth`: how much of the path to a value its name has. */
export function refused(schema: z.ZodType, issue: Issue, depth?: number): Refused {
  const root = describedBy(schema);
  const at = (path: readonly PropertyKey[]): Node[] => nodesAt(root, path);
  if (issue.code === "unrecognized_keys") return unknownField(issue, at(issue.path));
  const field = shown(issue.path.slice(0, depth));
  const what = field === "" ? "The body" : field;
  const given = givenTo(issue);
  if (given === undefined) return { field, detail: `${what} is required and ${asked()}.` };
  return { field, detail: `${what} ${asked()}; got ${got(given)}.` };

  function asked(): string {
    return `must ${demand(issue, at(issue.path))}`;
  }
}

/** Built on first use and cached, so invalid requests stay cheap. */
const descriptions = new WeakMap<z.ZodType, Node>();

function describedBy(schema: z.ZodType): Node {
  const description =
    descriptions.get(schema) ?? z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  descriptions.set(schema, description);
  return description;
}

/** For a discriminated union the input is the whole object; only the discriminator is reported. */
function givenTo(issue: Issue): unknown {
  if (issue.code !== "invalid_union" || !("discriminator" in issue)) return issue.input;
  return (issue.input as Record<string, unknown>)[String(issue.discriminator)];
}

function shown(path: readonly PropertyKey[]): string {
  return path.map(String).join(".").slice(0, PATH_SHOWN_MAX).toWellFormed();
}

function unknownField(issue: z.core.$ZodIssueUnrecognizedKeys, nodes: readonly Node[]): Refused {
  const field = shown([...issue.path, issue.keys[0] ?? ""]);
  const known = nodes.flatMap(({ properties = {} }) => Object.keys(properties));
  const names = [...new Set(known)].slice(0, NAMES_SHOWN_MAX).join(", ");
  const there = names === "" ? "This object has no fields." : `Allowed: ${names}.`;
  return { field, detail: `Unknown field '${field}'. ${there}` };
}

/** The words after "must". */
function demand(issue: Issue, nodes: readonly Node[]): string {
  const values = valuesOf(nodes);
  if (values.length > 0) return `be one of ${values.join(", ")}`;
  if (issue.code === "too_small" || issue.code === "too_big") return withinBounds(issue, nodes);
  const description = nodes.find((node) => node.description !== undefined)?.description;
  if (issue.code === "invalid_format" && issue.pattern === String(TEXT)) {
    return "contain no control characters";
  }
  if (issue.code === "invalid_type" && issue.expected in KINDS) {
    return `be ${kind(issue.expected, nodes)}`;
  }
  if (description !== undefined) return `be ${sentenceEnd(description)}`;
  return "match the OpenAPI document";
}

function kind(expected: string, nodes: readonly Node[]): string {
  const isWhole = nodes.some(({ type }) => type === "integer");
  const named = KINDS[isWhole ? "int" : expected] ?? "";
  const { least, most } = boundsOf(nodes);
  const isBounded = isWhole && least !== null && most !== null;
  return isBounded ? `${named} between ${least} and ${most}` : named;
}

const KINDS: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
};

const UNITS: Readonly<Record<string, string>> = { string: " characters", array: " entries" };

function withinBounds(
  issue: z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig,
  nodes: readonly Node[],
): string {
  const unit = UNITS[issue.origin] ?? "";
  const verb = unit === "" ? "be" : "have";
  const { least, most } = boundsOf(nodes);
  if (least !== null && most !== null) return `${verb} between ${least} and ${most}${unit}`;
  if (issue.code === "too_small") return `${verb} at least ${issue.minimum}${unit}`;
  return `${verb} at most ${issue.maximum}${unit}`;
}

function boundsOf(nodes: readonly Node[]): { least: number | null; most: number | null } {
  return {
    least: bound(nodes, ["minimum", "minLength", "minItems"]),
    most: bound(nodes, ["maximum", "maxLength", "maxItems"]),
  };
}

/** The range of safe integers applies to every integer, so it is not worth naming. */
function bound(nodes: readonly Node[], names: readonly (keyof Node)[]): number | null {
  const values = nodes.flatMap((node) => names.map((name) => node[name]));
  const found = values.find((value) => typeof value === "number");
  return found === undefined || Math.abs(found) >= Number.MAX_SAFE_INTEGER ? null : found;
}

function valuesOf(nodes: readonly Node[]): string[] {
  const values = nodes.flatMap((node) => ("const" in node ? [node.const] : (node.enum ?? [])));
  return [...new Set(values.map(String))];
}

function sentenceEnd(description: string): string {
  const [first = ""] = description;
  return first.toLowerCase() + description.slice(1).replace(/\.$/, "");
}

function got(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "object" && value !== null) return "an object";
  if (typeof value !== "string") return String(value);
  if (value.length > TEXT_SHOWN_MAX) return `a string of ${value.length} characters`;
  return JSON.stringify(value.toWellFormed());
}

/** The schema nodes at a path; several where the schema is a union. */
function nodesAt(root: Node, path: readonly PropertyKey[]): Node[] {
  let nodes = choicesOf(root, root);
  for (const step of path) {
    nodes = nodes.flatMap((node) => choicesOf(root, childOf(node, step)));
  }
  return nodes;
}

function childOf({ properties = {}, items }: Node, step: PropertyKey): unknown {
  if (typeof step === "number") return Array.isArray(items) ? items[step] : items;
  return Object.hasOwn(properties, step) ? properties[String(step)] : undefined;
}

function choicesOf(root: Node, node: unknown): Node[] {
  if (typeof node !== "object" || node === null) return [];
  const { $ref, anyOf = [], oneOf = [] } = node as Node;
  const name = $ref?.replace("#/$defs/", "");
  const named = name === undefined ? [] : choicesOf(root, root.$defs?.[name]);
  const chosen = [...anyOf, ...oneOf].flatMap((one) => choicesOf(root, one));
  return [node as Node, ...named, ...chosen];
}
