/** Fewer bytes for what is read again and again: nothing for an answer that the client has, and a packed one otherwise. */
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import type { Sender } from "./guards.ts";
import type { Reply } from "./server.ts";

/** A shorter answer fits into a packet or two as it is. */
const PACKED_FROM_BYTES = 1_024;

/** Answers are packed while a person waits: each level above takes twice as long for a few percent. */
const BROTLI_QUALITY = 4;
const GZIP_LEVEL = 4;

const packBrotli = promisify(brotliCompress);
const packGzip = promisify(gzip);

const PACKERS: readonly (readonly [string, (bytes: Buffer) => Promise<Uint8Array>])[] = [
  [
    "br",
    (bytes) =>
      packBrotli(bytes, {
        params: {
          [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY,
          [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
          [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
        },
      }),
  ],
  ["gzip", (bytes) => packGzip(bytes, { level: GZIP_LEVEL })],
];

/** Only texts that were read: streams go out as they come, and files have their own packed forms. */
export async function thrifty(
  reply: Reply,
  { method, sender }: { readonly method: string; readonly sender: Sender },
): Promise<Reply> {
  const { status, body } = reply;
  if (method !== "GET" || status !== 200 || typeof body !== "string") return reply;
  const bytes = Buffer.from(body);
  const tag = `W/"${createHash("sha1").update(bytes).digest("base64url")}"`;
  const headers = { ...reply.headers, ETag: tag, Vary: "Accept-Encoding" };
  if (sender.header("if-none-match") === tag) return { status: 304, headers, body: null };
  const accepted = accepts(sender.header("accept-encoding"));
  const packer = PACKERS.find(([name]) => accepted.has(name));
  if (packer === undefined || bytes.length < PACKED_FROM_BYTES) return { ...reply, headers };
  const [encoding, pack] = packer;
  return {
    status,
    headers: { ...headers, "Content-Encoding": encoding },
    body: await pack(bytes),
  };
}

/** What is named with a weight of zero is refused. */
function accepts(header = ""): ReadonlySet<string> {
  const named = header.split(",").map((one) => one.trim());
  return new Set(
    named.filter((one) => !/;q=0(?:\.0*)?$/.test(one)).map((one) => one.split(";")[0] ?? ""),
  );
}
