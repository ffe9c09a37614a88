/**
 * The protocol over HTTP: every message is one POST, and its answer is one JSON object. There are no sessions and no streams.
 *
 * A proxy may route by the headers, so they must say what the body says.
 */
import type { Answer, Call } from "../http-kernel/route.ts";
import {
  agentOf,
  answerTo,
  failed,
  HEADER_MISMATCH,
  type Message,
  MODERN,
  readMessage,
  RpcError,
  unsupported,
  VERSIONS,
} from "./protocol.ts";
import type { Tools } from "./tools.ts";

type Headers = Call<unknown, unknown, unknown>["headers"];

export async function answerPost(
  tools: Tools,
  { body, headers, principal }: Call<unknown, unknown, unknown>,
): Promise<Answer> {
  let message: Message | null = null;
  try {
    message = readMessage(body);
    if (message?.id === undefined) return { status: 202 };
    checkHeaders(message, headers);
  } catch (error) {
    const { status, message: json } = failed(error, message?.id);
    return { status, json };
  }
  const answer = await answerTo(tools, message, agentOf(principal, message.client));
  if (answer === null) return { status: 202 };
  return { status: answer.status, json: answer.message };
}

function checkHeaders({ version, method, params }: Message, headers: Headers): void {
  const said = headers["mcp-protocol-version"];
  if (version === null) {
    if (said === undefined) return; // before 2025-06-18 there was no such header
    if (!VERSIONS.includes(said)) throw unsupported(said);
    if (MODERN.includes(said)) throw mismatch("MCP-Protocol-Version", said, "no version");
    return;
  }
  const wanted: readonly (readonly [name: string, given: string | undefined, wanted: unknown])[] = [
    ["MCP-Protocol-Version", said, version],
    ["Mcp-Method", headers["mcp-method"], method],
    ...(method === "tools/call"
      ? ([["Mcp-Name", decoded(headers["mcp-name"]), params["name"]]] as const)
      : []),
  ];
  for (const [name, given, value] of wanted) {
    if (given !== value) throw mismatch(name, given, JSON.stringify(value));
  }
}

function mismatch(name: string, given: string | undefined, wanted: string): RpcError {
  const problem = given === undefined ? "is missing" : `is '${given}'`;
  return new RpcError(HEADER_MISMATCH, `The header ${name} ${problem}; the body has ${wanted}.`);
}

/** `=?base64?…?=` stands for what a header cannot hold. */
function decoded(value: string | undefined): string | undefined {
  const coded = /^=\?base64\?([\w+/=]*)\?=$/.exec(value ?? "")?.[1];
  return coded === undefined ? value : Buffer.from(coded, "base64").toString();
}
