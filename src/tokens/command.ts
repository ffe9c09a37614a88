/** `holdfast tokens`: manages API tokens. A token is printed once, when it is created. */
import { Command, Option } from "commander";
import { anyOperator, type OperatorOptions } from "../audit/entry.ts";
import { type Duration, toMs } from "../core/duration.ts";
import { HoldfastError, InvalidArgumentError } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import { checkLabel, checkName, NAME_LENGTH_MAX } from "../core/name.ts";
import { checkKnown, checkWhole } from "../core/options.ts";
import { type Runtime, systemRuntime } from "../core/runtime.ts";
import { hashOf, type Role, roles, type TokenRecord } from "../http-kernel/auth.ts";
import {
  actorName,
  duration,
  reasonOption,
  type ReasonOptions,
  wholeNumber,
} from "../terminal/arguments.ts";
import { BadUsageError } from "../terminal/failure.ts";
import { type Cell, counted, relative, span, table } from "../terminal/table.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import type { TokensStore } from "./store.ts";

type Kit = CommandKit<TokenParts>;

interface CreateOptions extends DatabaseOptions, ReasonOptions {
  readonly name?: string;
  readonly role?: Role;
  readonly expires?: string;
}

interface ListOptions extends DatabaseOptions {
  readonly limit: number;
}

const LIMIT_DEFAULT = 100;
const NO_TOKENS =
  "No tokens. Outside production, any program on this machine can use the API without one.";

const EXAMPLE = "holdfast tokens create --name ci --role operator --expires 90d";

export function tokensCommand(kit: Kit): Command {
  const command = new Command("tokens").description("manage API tokens");
  command.addCommand(listCommand(kit), { isDefault: true });
  command.addCommand(createCommand(kit));
  command.addCommand(revokeCommand(kit));
  return command;
}

function listCommand(kit: Kit): Command {
  return new Command("list")
    .description("list tokens, newest first")
    .addOption(urlOption())
    .option("--limit <n>", "maximum number of tokens", wholeNumber, LIMIT_DEFAULT)
    .action((options: ListOptions) => list(kit, options));
}

function createCommand(kit: Kit): Command {
  return new Command("create")
    .description("create a token and print it; it cannot be shown again")
    .addOption(urlOption())
    .option("--name <name>", "the token's name, recorded in the audit log (required)")
    .addOption(
      new Option(
        "--role <role>",
        "a viewer can only read, an operator can also act (required)",
      ).choices(roles),
    )
    .option("--expires <duration>", "the token expires after this long, such as 90d", duration)
    .addOption(reasonOption())
    .addHelpText(
      "after",
      `
Once a token exists, every request needs one, even from this machine:
  curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8080/api/v1/jobs`,
    )
    .action((options: CreateOptions) => create(kit, options));
}

function revokeCommand(kit: Kit): Command {
  return new Command("revoke")
    .description("revoke a token; servers reject it within seconds")
    .argument("<name>", "the token's name")
    .addOption(urlOption())
    .addOption(reasonOption())
    .action((name: string, options: DatabaseOptions & ReasonOptions) => revoke(kit, name, options));
}

async function list({ terminal, open }: Kit, { url, limit }: ListOptions): Promise<void> {
  await using holdfast = await open(url);
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
      { title: "CREATED", align: "right" },
      { title: "USED", align: "right" },
      { title: "VALID" },
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

async function create({ terminal, openForWork }: Kit, options: CreateOptions): Promise<void> {
  const { url, name, role, expires, ...reason } = options;
  if (name === undefined || role === undefined) {
    throw new BadUsageError(
      `--name and --role (${roles.join(" or ")}) are required. Example: '${EXAMPLE}'.`,
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
  // Only the token goes to stdout, so that a script can capture it.
  terminal.complain(...notes, `Created token '${name}' (${role}). It is shown only once:`);
  terminal.print(token);
}

async function revoke(
  { terminal, open }: Kit,
  name: string,
  { url, ...reason }: DatabaseOptions & ReasonOptions,
): Promise<void> {
  await using holdfast = await open(url);
  await new Tokens(holdfast).revoke(name, { actor: actorName(), ...reason });
  if (terminal.json) terminal.printJson({ revoked: name });
  else terminal.print(`Revoked token '${name}'.`);
}

// API tokens.
//
// A token has 256 random bits and is shown once, when it is created; only its SHA-256 is stored. A slow hash protects passwords
// that people choose; 256 random bits cannot be guessed.

const TOKEN_BYTES = 32;

/** Lets people and secret scanners recognise a token. */
const PREFIX = "hft_";
const LIST_MAX = 1_000;
const LIST_DEFAULT = 100;

/** In the audit log the actor is `token <name>`, which must fit the limit of a name. */
const NAME_MAX = NAME_LENGTH_MAX - "token ".length;
const CREATE_OPTIONS = new Set(["name", "role", "expires"]);

interface TokenOptions {
  /** Who it is given to; the audit log shows this name. */
  readonly name: string;
  readonly role: Role;
  /** When it expires. Default: never. */
  readonly expires?: Duration;
}

/** A token without its hash. */
type TokenView = Omit<TokenRecord, "hash">;

export class TokenNotFoundError extends HoldfastError {
  constructor(name: string) {
    super("TOKEN_NOT_FOUND", `Token '${name}' does not exist. To list tokens: holdfast tokens`);
  }
}

interface TokenParts {
  readonly store: { readonly tokens: TokensStore };
  readonly runtime: Runtime;
}

export class Tokens {
  readonly #tokens: TokensStore;
  readonly #runtime: Runtime;
  readonly #newId: () => string;

  constructor({ store, runtime }: TokenParts) {
    this.#tokens = store.tokens;
    this.#runtime = runtime;
    this.#newId = makeIds(runtime);
  }

  /** Returns the token itself, which cannot be retrieved later. */
  async create(options: TokenOptions, by: OperatorOptions = {}): Promise<string> {
    checkKnown(options, CREATE_OPTIONS);
    const { name, role, expires } = options;
    if (!roles.includes(role)) {
      const problem = `must be one of ${roles.join(", ")}; got '${role as string}'.`;
      throw new InvalidArgumentError({ field: "role", problem });
    }
    const forMs = expires === undefined ? null : toMs("expires", expires, { min: 1 });
    const token = newToken(this.#runtime);
    const row = {
      id: this.#newId(),
      name: checkLabel("name", name, NAME_MAX),
      role,
      hash: hashOf(token),
    };
    const created = await this.#tokens.create({ ...row, forMs }, anyOperator(by, this.#newId));
    if (created) return token;
    const problem = `token '${name}' already exists. Revoke it first, or choose another name.`;
    throw new InvalidArgumentError({ field: "name", problem });
  }

  async list({ limit = LIST_DEFAULT }: { readonly limit?: number } = {}): Promise<TokenView[]> {
    checkWhole("limit", limit, { least: 1, most: LIST_MAX });
    const records = await this.#tokens.list({ limit });
    return records.map(({ hash: _hash, ...view }) => view);
  }

  async revoke(name: string, by: OperatorOptions = {}): Promise<void> {
    const operator = anyOperator(by, this.#newId);
    const revoked = await this.#tokens.revoke(checkName("name", name), operator);
    if (!revoked) throw new TokenNotFoundError(name);
  }
}

/** The system runtime uses the operating system's secure random source. */
function newToken(runtime: Runtime): string {
  const bytes = new Uint8Array(TOKEN_BYTES);
  runtime.fillRandom(bytes);
  return PREFIX + Buffer.from(bytes).toString("base64url");
}
