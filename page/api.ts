/** Requests to the API: a time limit on each, and every refusal as an error that says what to do. */
import { base } from "./router.ts";

const READ_LIMIT_MS = 10_000;
const WRITE_LIMIT_MS = 20_000;

/** A write is sent again after these waits if no answer came; its key makes sure it happens once. */
const WRITE_AGAIN_MS = [1_000, 2_000];

const KEY_BYTES = 16;

/** The server answered, and refused. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly status: number;
  readonly code: string;
  readonly field: string | null;

  constructor(status: number, problem: { detail?: string; code?: string; field?: string }) {
    super(problem.detail ?? `The server answered ${status}.`);
    this.status = status;
    this.code = problem.code ?? "UNKNOWN";
    this.field = problem.field ?? null;
  }
}

/** No answer came, or none from Holdfast itself. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

let unauthorized: (refused: Refused) => void = () => {};

/** Called when the API demands a sign-in, except by an attempt to sign in. */
export function onUnauthorized(listener: (refused: Refused) => void): void {
  unauthorized = listener;
}

export function apiUrl(path: string): string {
  return `${base}api/v1/${path}`;
}

/** The last answer to a read, which the server does not send again while it is the same. */
export interface Known {
  readonly tag: string;
  readonly data: unknown;
}

export async function read(
  path: string,
  signal = new AbortController().signal,
  limitMs = READ_LIMIT_MS,
): Promise<unknown> {
  return (await readAgain(path, null, signal, limitMs)).data;
}

/** Reads what may be known already; the same data is the same object. */
export async function readAgain(
  path: string,
  known: Known | null,
  signal: AbortSignal,
  limitMs = READ_LIMIT_MS,
): Promise<Known> {
  const limit = AbortSignal.timeout(limitMs);
  const headers: Record<string, string> = known === null ? {} : { "if-none-match": known.tag };
  const init = { headers, signal: AbortSignal.any([signal, limit]) };
  const response = await send(path, init, signal);
  if (known !== null && response.status === 304) return known;
  const data = await dataOf(response);
  return { tag: response.headers.get("etag") ?? "", data };
}

/** Sends a change. Without an answer it is sent again under the same key, so it happens once at most. */
export async function write(path: string, body: object): Promise<unknown> {
  const key = newKey();
  for (const waitMs of [...WRITE_AGAIN_MS, null]) {
    try {
      const response = await send(path, {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": key },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(WRITE_LIMIT_MS),
      });
      return await dataOf(response, path === "session");
    } catch (error) {
      if (!(error instanceof Unreachable) || waitMs === null) throw error;
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
  }
  throw new Unreachable("No answer.");
}

async function send(path: string, init: RequestInit, left?: AbortSignal): Promise<Response> {
  try {
    return await fetch(apiUrl(path), { ...init, credentials: "same-origin" });
  } catch (error) {
    if (left?.aborted === true) throw error;
    throw new Unreachable("No answer from Holdfast.", { cause: error });
  }
}

async function dataOf(response: Response, isSigningIn = false): Promise<unknown> {
  const type = response.headers.get("content-type") ?? "";
  if (!type.includes("json")) {
    if (response.status >= 500) throw new Unreachable(`A proxy answered ${response.status}.`);
    throw new Refused(response.status, {
      detail: `The server answered ${response.status} without JSON.`,
    });
  }
  const json: unknown = await response.json().catch((error: unknown) => {
    throw new Unreachable("The answer was cut off.", { cause: error });
  });
  if (response.ok) return json;
  const refused = new Refused(response.status, json as object);
  if (response.status === 401 && !isSigningIn) unauthorized(refused);
  throw refused;
}

/** `crypto.randomUUID` exists only over HTTPS and on the loopback interface. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** What to tell about an error, in a sentence. */
export function sentence(error: unknown): string {
  if (error instanceof Unreachable) return "No connection to Holdfast.";
  return error instanceof Error ? error.message : String(error);
}
