/** Routes of a person's session: who am I, sign in with a token, sign out. */
import { z } from "zod";
import { BEARER_LENGTH_MAX } from "../config/kind.ts";
import { roles } from "../core/role.ts";
import { type Auth, cookieFor, type Principal } from "../http-kernel/auth.ts";
import { notFound } from "../http-kernel/problem.ts";
import { route, type Route } from "../http-kernel/route.ts";

const TAG = "session";

const sessionSchema = z
  .object({
    principal: z.object({
      name: z.string(),
      role: z.enum(roles),
      via: z.enum(["token", "cookie", "open", "app"]).meta({
        description:
          "A token in the request, the cookie of a session, no token at all because none exists yet, or the application that serves the dashboard.",
      }),
    }),
    canSignOut: z.boolean(),
    version: z.string().meta({ description: "The version of Holdfast." }),
    build: z.string().meta({ description: "The build of the application that runs the server." }),
    engine: z.enum(["sqlite", "postgres", "mysql"]),
    database: z.string().meta({ description: "The database's kind and version, for people." }),
    site: z.string().nullable().meta({ description: "The database's name." }),
    latencyMs: z.number().nullable().meta({ description: "A round trip to the database." }),
    now: z.number().meta({ description: "The database's clock; the server's, if it is unknown." }),
    redacts: z.boolean().meta({ description: "Whether redaction rules hide parts of data." }),
  })
  .meta({ id: "Session", description: "Who sent the request, and to which server." });

/** What the server says about itself. */
export type ServerFacts = Omit<z.output<typeof sessionSchema>, "principal" | "canSignOut">;

interface SessionParts {
  readonly facts: () => Promise<ServerFacts>;
  /** Null: the application decides who is signed in. */
  readonly auth: Pick<Auth, "signIn" | "signOut"> | null;
  /** The port that is part of the cookie's name. */
  readonly port: () => number | null;
}

export function sessionRoutes({ facts, auth, port }: SessionParts): Route[] {
  const session = async ({ name, role, via }: Principal): Promise<object> => ({
    principal: { name, role, via },
    canSignOut: via === "cookie",
    ...(await facts()),
  });
  const cookie = (secret: string | null, origin: string | undefined): Record<string, string> => {
    const isSecure = origin?.startsWith("https://") === true;
    return { "Set-Cookie": cookieFor(secret, port() ?? 0, isSecure) };
  };
  return [
    route({
      method: "GET",
      path: "/api/v1/session",
      name: "getSession",
      tag: TAG,
      summary: "Who sent this request, with which role",
      access: "viewer",
      answers: { 200: { description: "The session.", schema: sessionSchema } },
      run: async ({ principal }) => ({ status: 200, json: await session(principal) }),
    }),
    route({
      method: "POST",
      path: "/api/v1/session",
      name: "signIn",
      tag: TAG,
      summary: "Sign in with a token: the response sets a cookie",
      access: "public",
      body: z.strictObject({ token: z.string().min(1).max(BEARER_LENGTH_MAX) }),
      answers: { 200: { description: "The session.", schema: sessionSchema } },
      problems: [401, 403],
      unsaved: true,
      run: async ({ body, credentials, headers: { origin } }) => {
        if (auth === null) throw notFound("sign-in here: the application signs people in");
        const { secret, principal } = await auth.signIn(body.token, credentials.address);
        return { status: 200, json: await session(principal), headers: cookie(secret, origin) };
      },
    }),
    route({
      method: "POST",
      path: "/api/v1/session/end",
      name: "signOut",
      tag: TAG,
      summary: "Sign out",
      access: "viewer",
      body: z.strictObject({}),
      answers: { 200: { description: "The session is over.", schema: z.object({}) } },
      unsaved: true,
      run: async ({ credentials: { session: secret }, headers: { origin } }) => {
        if (secret !== null) await auth?.signOut(secret);
        return { status: 200, json: {}, headers: cookie(null, origin) };
      },
    }),
  ];
}
