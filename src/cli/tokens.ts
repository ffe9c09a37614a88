/** `holdfast tokens`: who may come over HTTP. A token is printed once, when it is made. */
import { Command, Option } from "commander";
import { systemRuntime } from "../core/runtime.ts";
import { Tokens, type TokenView } from "../server/tokens.ts";
import { roles, type Role } from "../store/access.ts";
import { actorName, reasonOption, type ReasonOptions } from "./actor.ts";
import { duration, wholeNumber } from "./arguments.ts";
import { BadUsage } from "./failure.ts";
import { openForLooking, openForWork, urlOption, type DatabaseOptions } from "./database.ts";
import { table, type Cell } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { counted, relative, span } from "./words.ts";

interface CreateOptions extends DatabaseOptions, ReasonOptions {
  readonly name?: string;
  readonly role?: Role;
  readonly expires?: string;
}

interface ListOptions extends DatabaseOptions {
  readonly limit: number;
}

const LIMIT_DEFAULT = 100;
const NO_TOKENS = "No tokens. Outside production, every program on this machine may use the API.";
const EXAMPLE = "holdfast tokens create --name ci --role operator --expires 90d";

export function tokensCommand(terminal: Terminal): Command {
  const command = new Command("tokens").description("say who may come over HTTP");
  command.addCommand(listCommand(terminal), { isDefault: true });
  command.addCommand(createCommand(terminal));
  command.addCommand(revokeCommand(terminal));
  return command;
}

function listCommand(terminal: Terminal): Command {
  return new Command("list")
    .description("list tokens, those that were made last first")
    .addOption(urlOption())
    .option("--limit <n>", "how many at most", wholeNumber, LIMIT_DEFAULT)
    .action((options: ListOptions) => list(terminal, options));
}

function createCommand(terminal: Terminal): Command {
  return new Command("create")
    .description("make a token, and print it: it cannot be shown again")
    .addOption(urlOption())
    .option("--name <name>", "who it is for: the audit calls them so; needed")
    .addOption(
      new Option("--role <role>", "a viewer looks, an operator also acts; needed").choices(roles),
    )
    .option("--expires <duration>", "after so long it counts no more, such as 90d", duration)
    .addOption(reasonOption())
    .addHelpText(
      "after",
      `
Such as
  ${EXAMPLE}
From the first token on nobody comes without one, from this machine neither. Use it as
  curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8080/api/v1/jobs`,
    )
    .action((options: CreateOptions) => create(terminal, options));
}

function revokeCommand(terminal: Terminal): Command {
  return new Command("revoke")
    .description("let a token count no more; servers notice within seconds")
    .argument("<name>", "the token's name")
    .addOption(urlOption())
    .addOption(reasonOption())
    .action((name: string, options: DatabaseOptions & ReasonOptions) =>
      revoke(terminal, name, options),
    );
}

async function list(terminal: Terminal, { url, limit }: ListOptions): Promise<void> {
  await using holdfast = await openForLooking(url);
  const tokens = await new Tokens(holdfast).list({ limit });
  if (terminal.json) terminal.printJson({ tokens });
  else if (tokens.length === 0) terminal.print(NO_TOKENS);
  else {
    const words = terminal.colors.dim(counted(tokens.length, "token"));
    terminal.print(...tokenTable(tokens, terminal), "", words);
  }
}

function tokenTable(tokens: readonly TokenView[], { columns, colors }: Terminal): string[] {
  const now = systemRuntime.now();
  return table({
    columns: [
      { title: "NAME", flexible: true },
      { title: "ROLE" },
      { title: "MADE", align: "right" },
      { title: "USED", align: "right" },
      { title: "COUNTS" },
    ],
    rows: tokens.map((token): (string | Cell)[] => [
      token.name,
      token.role,
      relative(token.createdAt, now),
      token.usedAt === null ? "never" : relative(token.usedAt, now),
      standing(token, colors.dim),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

function standing(
  { revokedAt, expiresInMs }: TokenView,
  dim: (text: string) => string,
): string | Cell {
  if (revokedAt !== null) return { text: "revoked", paint: dim };
  if (expiresInMs === null) return "until revoked";
  return expiresInMs <= 0 ? { text: "expired", paint: dim } : `for ${span(expiresInMs)}`;
}

async function create(terminal: Terminal, options: CreateOptions): Promise<void> {
  const { url, name, role, expires, ...reason } = options;
  if (name === undefined || role === undefined) {
    throw new BadUsage(
      `Say who the token is for with --name, and what they may do with --role (${roles.join(" or ")}): '${EXAMPLE}'.`,
    );
  }
  const notes: string[] = [];
  await using holdfast = await openForWork(url, (line) => notes.push(line));
  const by = { actor: actorName(), ...reason };
  const terms = { name, role, ...(expires === undefined ? {} : { expires }) };
  const token = await new Tokens(holdfast).create(terms, by);
  if (terminal.json) {
    terminal.printJson({ name, role, token });
    return;
  }
  // The token alone goes to stdout, so that a script can catch it.
  terminal.complain(...notes, `Made the token '${name}' (${role}). It is shown only now:`);
  terminal.print(token);
}

async function revoke(
  terminal: Terminal,
  name: string,
  { url, ...reason }: DatabaseOptions & ReasonOptions,
): Promise<void> {
  await using holdfast = await openForLooking(url);
  await new Tokens(holdfast).revoke(name, { actor: actorName(), ...reason });
  if (terminal.json) terminal.printJson({ revoked: name });
  else terminal.print(`The token '${name}' counts no more.`);
}
