/** The verbs of API tokens. Only a command creates one: an operator of the API must not make further operators. */
import { roles } from "../core/role.ts";
import { systemRuntime } from "../core/runtime.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { type Columns, flexible, listOf, plain, right } from "../operations/show.ts";
import { relative, span } from "../terminal/table.ts";
import { type TokenParts, Tokens } from "./tokens.ts";

const operation = operationsOf<TokenParts>("tokens");

const NO_TOKENS =
  "No tokens. Outside production, any program on this machine can use the API without one.";

const token = s
  .object({
    id: s.text(),
    name: s.text(),
    role: s.choice(roles),
    createdAt: s.instant,
    expiresAt: s.instant.nullable(),
    expiresInMs: s.number().nullable(),
    revokedAt: s.instant.nullable(),
    usedAt: s.instant.nullable(),
  })
  .named("Token", "An API token without its secret.");

const ago = (at: number): string => relative(at, systemRuntime.now());

const TOKENS: Columns<s.TypeOf<typeof token>> = [
  flexible("NAME", ({ name }) => name),
  plain("ROLE", ({ role }) => role),
  right("CREATED", ({ createdAt }) => ago(createdAt)),
  right("USED", ({ usedAt }) => (usedAt === null ? "never" : ago(usedAt))),
  plain("VALID", ({ revokedAt, expiresInMs }, { colors: { dim: paint } }) => {
    if (revokedAt !== null) return { text: "revoked", paint };
    if (expiresInMs === null) return "until revoked";
    return expiresInMs <= 0 ? { text: "expired", paint } : `for ${span(expiresInMs)}`;
  }),
];

export const tokenOperations = {
  list: operation({
    name: "listTokens",
    summary: "List tokens, newest first",
    access: "operator",
    input: { limit: s.pageLimit.optional() },
    returns: "The tokens without their secrets.",
    result: s.object({ tokens: s.list(token) }),
    run: async (app, input) => ({ tokens: await new Tokens(app).list(input) }),
    http: { method: "GET", path: "/api/v1/tokens" },
    cli: {
      command: "tokens list",
      flags: { limit: { about: "maximum number of tokens", initial: 100 } },
      examples: ["tokens list"],
      show: listOf({
        rows: ({ tokens }) => tokens,
        columns: TOKENS,
        none: NO_TOKENS,
        unit: "token",
      }),
    },
  }),

  create: operation({
    name: "createToken",
    summary: "Create a token and print it; it cannot be shown again",
    access: "operator",
    input: { name: s.name, role: s.choice(roles), expires: s.durationText.optional() },
    isAudited: true,
    returns: "The token itself.",
    result: s.object({ name: s.text(), role: s.choice(roles), token: s.text() }),
    run: async (app, input, { by }) => {
      const { name, role } = input;
      return { name, role, token: await new Tokens(app).create(input, by) };
    },
    cli: {
      command: "tokens create",
      flags: {
        name: { about: "the token's name, recorded in the audit log", isRequired: true },
        role: { about: "a viewer can only read, an operator can also act", isRequired: true },
        expires: { about: "the token expires after this long, such as 90d" },
      },
      examples: ["tokens create --name ci --role operator --expires 90d"],
      after: `
Once a token exists, every request needs one, even from this machine:
  curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8080/api/v1/jobs`,
      opensForWork: true,
      // Only the token goes to stdout, so that a script can capture it.
      show: (created, { terminal, notes }) => {
        const { name, role } = created;
        terminal.complain(...notes, `Created token '${name}' (${role}). It is shown only once:`);
        return [created.token];
      },
    },
  }),

  revoke: operation({
    name: "revokeToken",
    summary: "Revoke a token; servers reject it within seconds",
    access: "operator",
    input: { name: s.name },
    isAudited: true,
    returns: "The name of the revoked token.",
    result: s.object({ revoked: s.text() }),
    run: async (app, { name }, { by }) => {
      await new Tokens(app).revoke(name, by);
      return { revoked: name };
    },
    http: { method: "POST", path: "/api/v1/tokens/{name}/revoke", repeatable: true },
    cli: {
      command: "tokens revoke",
      arguments: { name: "the token's name" },
      examples: ["tokens revoke ci"],
      show: ({ revoked }) => [`Revoked token '${revoked}'.`],
    },
  }),
};

export const tokenCommands = {
  name: "tokens",
  about: "manage API tokens",
  parts: Object.values(tokenOperations),
};
