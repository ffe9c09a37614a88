/** Where agents reach the API: a route beside the dashboard. The protocol is loaded with the first message. */
import { z } from "zod";
import { type Answer, type Call, route, type Route } from "../http-kernel/route.ts";
import type { Ask } from "../mcp/tools.ts";

type AnyCall = Call<unknown, unknown, unknown>;

const SPECIFICATION = "https://modelcontextprotocol.io/specification/2026-07-28";

const message = z
  .unknown()
  .meta({ id: "McpMessage", description: `A JSON-RPC 2.0 message. See ${SPECIFICATION}.` });

export function mcpRoute(routes: () => readonly Route[], ask: Ask): Route {
  let loading: Promise<(call: AnyCall) => Promise<Answer>> | null = null;
  const load = async (): Promise<(call: AnyCall) => Promise<Answer>> => {
    const { Tools } = await import("../mcp/tools.ts");
    const { answerPost } = await import("../mcp/http.ts");
    const tools = new Tools({ routes: routes(), ask });
    return (call) => answerPost(tools, call);
  };
  return route({
    method: "POST",
    path: "/mcp",
    name: "mcp",
    tag: "agents",
    summary: "Tools for agents: the Model Context Protocol",
    access: "viewer",
    body: message,
    answers: {
      200: { description: "The answer to a request.", schema: message },
      202: { description: "A notification was accepted." },
      400: {
        description: "It is no message, or its headers or its version do not fit.",
        schema: message,
      },
      404: { description: "There is no such method.", schema: message },
    },
    // The request of the tool's call is checked for hidden values, and its answer is redacted.
    isWhole: true,
    restores: true,
    unsaved: true,
    run: async (call) => {
      loading ??= load();
      return (await loading)(call);
    },
  });
}
