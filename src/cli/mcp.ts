/** `holdfast mcp`: tools for an agent over stdio. The agent's host starts this process and ends it. */
import { Command, Option } from "commander";
import { embed } from "../app/embedded.ts";
import { checkName } from "../core/name.ts";
import { type Role, roles } from "../core/role.ts";
import type { Principal } from "../http-kernel/auth.ts";
import { serveStdio } from "../mcp/stdio.ts";
import { Tools } from "../mcp/tools.ts";
import { type CommandKit, listenForSignals, type Terminal } from "../terminal/terminal.ts";
import { openForAgent } from "./database.ts";
import { openLog, processLog } from "./log.ts";
import { addFlags, readSettings } from "./settings.ts";
import { loadTasks, loadWorkflows } from "./tasks.ts";

interface McpOptions {
  readonly role: Role;
  readonly agent?: string;
}

export function mcpCommand({ terminal }: CommandKit<unknown>): Command {
  const command = new Command("mcp").description("serve tools for an AI agent over stdio (MCP)");
  return addFlags(command, ["url", "schema", "tasks", "logLevel", "config"])
    .addOption(
      new Option("--role <role>", "a viewer can only read, an operator can also act")
        .choices(roles)
        .default("viewer"),
    )
    .option("--agent <name>", "the agent's name in the audit log (default: what its client says)")
    .addHelpText(
      "after",
      `
The host of the agent starts it, with a configuration such as:
  {"mcpServers": {"holdfast": {"command": "npx",
    "args": ["holdfast", "mcp", "--url", "sqlite:/path/to/holdfast.db"]}}}
Messages go over stdin and stdout, the log goes to stderr. A running server
offers the same tools at /mcp; there the token decides on the role.`,
    )
    .action((options: McpOptions) => serve(terminal, options));
}

async function serve(terminal: Terminal, { role, agent, ...flags }: McpOptions): Promise<void> {
  if (agent !== undefined) checkName("agent", actorOf(agent));
  const write = takeStdout(); // the settings may be a module, which may print
  const { settings } = await readSettings(flags);
  const logger = openLog(terminal, { level: settings.logLevel });
  processLog.listen();
  processLog.use(logger);
  using signals = listenForSignals();
  const { tasks: module } = settings;
  const known =
    module === null
      ? {}
      : { tasks: await loadTasks(module), workflows: await loadWorkflows(module) };
  await using holdfast = await openForAgent(settings, logger);
  const api = embed({ ...known, holdfast, auth: NOT_ASKED });
  const { stdin, stdout } = process;
  const stop = (): void => void stdin.destroy();
  void signals.first.then(stop);
  stdout.on("error", stop); // the host is gone
  logger.info({ event: "mcp:ready", role }, `serving tools for an agent that is ${role}`);
  const tools = new Tools({ routes: api.routes, ask: (request) => api.answer(request) });
  try {
    await serveStdio({
      tools,
      write,
      input: stdin,
      principal: (client) => principalOf(agent ?? client ?? "unnamed", role),
      onError: (error) => logger.error({ event: "mcp:failed", err: error }, "a request failed"),
    });
  } catch (error) {
    if (!stdin.destroyed) throw error;
  } finally {
    await api.close();
  }
}

/** As in the audit log. */
const actorOf = (name: string): string => `agent:${name}`;

function principalOf(name: string, role: Role): Principal {
  return { id: "agent", name: actorOf(name), role, via: "stdio" };
}

/** Only tool calls reach the API here, and they bring their principal. */
const NOT_ASKED = {
  admit: (): Promise<never> => Promise.reject(new Error("a request without its principal")),
  isStillAdmitted: async (): Promise<boolean> => false,
};

/** What anything else in this process prints would break the protocol: it goes to stderr. */
function takeStdout(): (line: string) => void {
  const { stdout, stderr } = process;
  const write = stdout.write.bind(stdout);
  stdout.write = stderr.write.bind(stderr);
  return (line) => void write(line);
}
