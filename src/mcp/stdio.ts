/** The protocol over the standard streams: one message a line. The agent's host starts this process, and ends it by closing stdin. */
import { DEFAULT_LIMITS } from "../http-kernel/limits.ts";
import type { Principal } from "../http-kernel/auth.ts";
import { parseBody } from "../http-kernel/body.ts";
import { Problem } from "../http-kernel/problem.ts";
import {
  answerTo,
  failed,
  internal,
  type Message,
  PARSE_ERROR,
  readMessage,
  RpcError,
} from "./protocol.ts";
import type { Tools } from "./tools.ts";

/** A longer message is refused, as over HTTP. */
export const MESSAGE_BYTES_MAX = DEFAULT_LIMITS.bodyBytes;

/** Requests in progress. Beyond this, the next is read when one of them has its answer. */
const AT_ONCE_MAX = 50;

const NEWLINE = 0x0a;

interface StdioParts {
  readonly tools: Tools;
  readonly input: AsyncIterable<Uint8Array>;
  readonly write: (line: string) => void;
  /** The principal of a client that calls itself so. */
  readonly principal: (client: string | null) => Principal;
  /** Called when a request failed by an error of ours. */
  readonly onError: (error: unknown) => void;
}

/** Resolves when the input has ended and the last request has its answer. */
export async function serveStdio(parts: StdioParts): Promise<void> {
  const session = new Session(parts);
  for await (const line of linesOf(parts.input)) await session.take(line);
  await session.rest();
}

class Session {
  readonly #parts: StdioParts;
  readonly #requests = new Map<string | number, { isCancelled: boolean }>();
  readonly #answering = new Set<Promise<void>>();
  /** What a client with a handshake called itself then. */
  #client: string | null = null;

  constructor(parts: StdioParts) {
    this.#parts = parts;
  }

  /** Resolves when the next message may be read. */
  async take(line: Buffer | null): Promise<void> {
    let message: Message | null;
    try {
      message = readMessage(parsed(line));
    } catch (error) {
      this.#write(failed(error).message);
      return;
    }
    if (message === null) return;
    if (message.method === "initialize") this.#client = message.client;
    if (message.method === "notifications/cancelled") this.#cancel(message);
    if (message.id === undefined) return;
    const answering = this.#answer(message, message.id).finally(() =>
      this.#answering.delete(answering),
    );
    this.#answering.add(answering);
    if (this.#answering.size >= AT_ONCE_MAX) await Promise.race(this.#answering);
  }

  async rest(): Promise<void> {
    await Promise.all(this.#answering);
  }

  async #answer(message: Message, id: string | number): Promise<void> {
    const { tools, principal, onError } = this.#parts;
    const request = { isCancelled: false };
    this.#requests.set(id, request);
    try {
      const answer = await answerTo(tools, message, principal(message.client ?? this.#client));
      if (answer !== null && !request.isCancelled) this.#write(answer.message);
    } catch (error) {
      onError(error);
      this.#write(failed(internal(), id).message);
    } finally {
      this.#requests.delete(id);
    }
  }

  /** No answer follows. What the request has begun is completed: half a change would be worse. */
  #cancel({ params }: Message): void {
    const request = this.#requests.get(params["requestId"] as string | number);
    if (request !== undefined) request.isCancelled = true;
  }

  /** JSON has no line breaks outside of texts, where they are escaped. */
  #write(message: object): void {
    this.#parts.write(`${JSON.stringify(message)}\n`);
  }
}

function parsed(line: Buffer | null): unknown {
  if (line === null) {
    const problem = `The message is larger than ${MESSAGE_BYTES_MAX} bytes.`;
    throw new RpcError(PARSE_ERROR, problem);
  }
  try {
    return parseBody(line, DEFAULT_LIMITS);
  } catch (error) {
    if (error instanceof Problem) throw new RpcError(PARSE_ERROR, error.message);
    throw error;
  }
}

/** Lines that are not empty; null: one that is too long. What follows the last line break is no message. */
async function* linesOf(input: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer | null> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  const add = (part: Uint8Array): void => {
    bytes += part.length;
    if (bytes > MESSAGE_BYTES_MAX) parts = [];
    else parts.push(part);
  };
  for await (const chunk of input) {
    let from = 0;
    for (;;) {
      const end = chunk.indexOf(NEWLINE, from);
      add(chunk.subarray(from, end === -1 ? undefined : end));
      if (end === -1) break;
      const line = Buffer.concat(parts);
      if (bytes > MESSAGE_BYTES_MAX) yield null;
      else if (line.toString("latin1").trim() !== "") yield line;
      parts = [];
      bytes = 0;
      from = end + 1;
    }
  }
}
