/**
 * Refusals without a request to answer, only a socket: input that Node cannot parse, slow requests, and unsupported protocols.
 *
 * Ending our half is not enough. A client that keeps its own half open would keep its connection, so the socket is destroyed
 * soon after.
 */
import type { Socket } from "node:net";
import type { Runtime } from "../core/runtime.ts";
import { SECURITY_HEADERS } from "./guards.ts";

/** How long the client may keep sending before it is cut off. An immediate reset could overtake the refusal. */
const LINGER_MS = 500;

const REFUSALS: Readonly<Record<string, { status: string; detail: string }>> = {
  HPE_HEADER_OVERFLOW: {
    status: "431 Request Header Fields Too Large",
    detail: "The headers are too large.",
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: "408 Request Timeout",
    detail: "The client sent the request too slowly.",
  },
};

const REFUSAL = { status: "400 Bad Request", detail: "The request is malformed." };

export function refuseRaw(
  { code = "" }: { readonly code?: string | undefined },
  socket: Socket,
  runtime: Runtime,
): void {
  if (!socket.writable || code === "ECONNRESET") return void socket.destroy();
  // After an upgrade node no longer listens for errors, and an error without a listener ends the process.
  socket.on("error", () => {});
  // Further input is read and dropped without being parsed.
  socket.removeAllListeners("data").on("data", () => {});
  const timer = runtime.timer(LINGER_MS, () => socket.destroy(), "background");
  socket.once("close", () => timer.cancel());
  socket.end(textOf(REFUSALS[code] ?? REFUSAL));
}

/** Carries the same headers as every other response. */
function textOf({ status, detail }: { status: string; detail: string }): string {
  const body = JSON.stringify({
    type: "urn:holdfast:problem:unreadable",
    title: status.slice(4),
    status: Number(status.slice(0, 3)),
    detail,
    code: "UNREADABLE",
    requestId: "none",
  });
  const headers = {
    ...SECURITY_HEADERS,
    "Content-Type": "application/problem+json; charset=utf-8",
    "Content-Length": String(Buffer.byteLength(body)),
    Connection: "close",
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return `HTTP/1.1 ${status}\r\n${lines.join("\r\n")}\r\n\r\n${body}`;
}
