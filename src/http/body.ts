/**
 * Reads a request body within its limits.
 *
 * Bytes are counted as they arrive, and nesting and keys before parsing. A megabyte of JSON can take far more memory once
 * parsed, and deep nesting can overflow the stack.
 */
import type { IncomingMessage } from "node:http";
import type { Limits } from "./limits.ts";
import { Problem } from "./problem.ts";

export function checkBodyHeaders(headers: {
  readonly "content-encoding": string | undefined;
  readonly "content-type": string | undefined;
}): void {
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity") {
    const detail = "Content-Encoding is not supported. Send the body uncompressed.";
    throw new Problem({
      status: 415,
      code: "ENCODED",
      detail,
      headers: { "Accept-Encoding": "identity" },
    });
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
  return new Problem({
    status: 400,
    code: "CUT_OFF",
    detail: "The connection ended before the whole body arrived.",
  });
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
