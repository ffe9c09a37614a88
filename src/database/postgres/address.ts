/** The address of a PostgreSQL database, from a URL or a user's pool. */
import { InvalidArgumentError, invalid } from "../../core/errors.ts";
import { importDriver } from "../engine.ts";

export const SCHEMA = "holdfast";

/** Plain data that can be sent to another thread. It may contain a password, so it is never printed. */
export interface PostgresAddress {
  /** Options of the driver. */
  readonly connection: Readonly<Record<string, unknown>>;
  readonly schema: string;
}

/** The part of a `pg` pool that we use. */
export interface PgPool {
  /** Takes a client from the pool. */
  connect(): Promise<PgClient>;
  /** What the pool was made with. */
  readonly options?: object;
  /** A user's pool may not have these. */
  readonly totalCount?: number;
  /** How many of its clients are free. */
  readonly idleCount?: number;
  /** How many callers wait for a client. */
  readonly waitingCount?: number;
}

/** A client of the package `pg`, as far as it is used. */
export interface PgClient {
  /** Runs one statement. */
  query(config: PgQuery): Promise<PgResult>;
  /** Gives it back to the pool; with true or an error it is closed. */
  release(destroy?: boolean | Error): void;
  /** Listens for the end of the connection. */
  on(event: "error", listener: (error: Error) => void): unknown;
  /** How many listen for it. */
  listenerCount(event: "error"): number;
  /** Sends a statement before the previous one is answered. Drivers before 8.23 do not have this. */
  pipeline?: boolean;
}

/** A query of the package `pg`. */
export interface PgQuery {
  /** The statement, with `$1` for the first value. */
  readonly text: string;
  /** The values of its placeholders. */
  readonly values?: unknown[];
  /** Prepares the statement under this name. */
  readonly name?: string;
  /** Rows as arrays, not as objects. */
  readonly rowMode?: "array";
  /** How values are read. */
  readonly types?: unknown;
  /** How long the client waits for the answer, in milliseconds. */
  readonly query_timeout?: number;
}

/** The answer to a query of the package `pg`. */
export interface PgResult {
  /** The rows, in order. */
  readonly rows: unknown[];
  /** How many rows were read or changed; null: the statement has no such number. */
  readonly rowCount: number | null;
}

/** The part of the driver that we use. Declared here, so that our types do not require the driver's. */
export interface Pg {
  readonly Pool: new (config: object) => OwnPool;
  readonly Client: new (config: object) => Line;
}

export interface OwnPool extends PgPool {
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "connect", listener: (client: PgClient) => void): unknown;
  end(): Promise<void>;
}

/** The connection of a listener. */
export interface Line {
  connect(): Promise<unknown>;
  query(text: string): Promise<unknown>;
  on(event: "notification", listener: (note: { payload?: string }) => void): unknown;
  on(event: "error" | "end", listener: () => void): unknown;
  end(): Promise<void>;
  /** To destroy a dead connection. */
  readonly connection?: { readonly stream?: { destroy(): void } };
}

export async function loadDriver(): Promise<Pg> {
  const { default: pg } = (await importDriver("PostgreSQL", "pg")) as { default: Pg };
  return pg;
}

export function checkSchemaName(schema: string): string {
  const isName = typeof schema === "string" && /^[a-z_][a-z0-9_]{0,47}$/.test(schema);
  if (isName && !schema.startsWith("pg_") && schema !== "information_schema") return schema;
  throw invalid(
    "schema",
    `'${schema.slice(0, 60)}' is not a valid schema name. Use lower-case letters, digits and '_', at most 48 characters, not starting with a digit or pg_.`,
  );
}

const URL_OPTIONS = new Set([
  "sslmode",
  "ssl",
  "sslcert",
  "sslkey",
  "sslrootcert",
  "uselibpqcompat",
  "application_name",
  "schema",
  "host",
]);

export function postgresAddress(url: string, schema?: string): PostgresAddress {
  const parsed = parse(url);
  for (const name of parsed.searchParams.keys()) {
    if (URL_OPTIONS.has(name)) continue;
    const problem = `there is no option '${name}'. The options are: ${[...URL_OPTIONS].join(", ")}.`;
    throw invalid("url", problem);
  }
  checkEncryption(parsed.searchParams.get("sslmode"));
  const chosen = schema ?? parsed.searchParams.get("schema") ?? SCHEMA;
  parsed.searchParams.delete("schema");
  return { connection: { connectionString: parsed.href }, schema: checkSchemaName(chosen) };
}

const ENCRYPTIONS = ["disable", "prefer", "require", "verify-ca", "verify-full", "no-verify"];

function checkEncryption(mode: string | null): void {
  if (mode === null || ENCRYPTIONS.includes(mode)) return;
  throw invalid("url", `sslmode=${mode.slice(0, 20)} is not known. Use ${ENCRYPTIONS.join(", ")}.`);
}

/** A password with special characters that are not encoded would end up in another part of the URL, and be shown. */
function parse(url: string): URL {
  try {
    const parsed = new URL(url);
    const isWhole = url.includes("://") && parsed.hash === "" && /^\/[^/@]+$/.test(parsed.pathname);
    const isPlaced = parsed.host !== "" || parsed.searchParams.has("host");
    if (isWhole && isPlaced) return parsed;
  } catch {
    // The error below does not contain the URL, which may have a password.
  }
  throw new InvalidArgumentError({
    field: "url",
    problem:
      "a PostgreSQL URL has the form postgres://user:password@host:5432/database; percent-encode special characters.",
  });
}

/** The connection settings of a user's pool; null: it has settings that cannot be sent to another thread. */
export function addressOfPool(pool: PgPool, schema: string = SCHEMA): PostgresAddress | null {
  const options = (pool.options ?? {}) as Record<string, unknown>;
  const names = ["connectionString", "host", "port", "user", "database", "password", "ssl"];
  const connection: Record<string, unknown> = {};
  for (const name of names) {
    if (options[name] !== undefined && options[name] !== null) connection[name] = options[name];
  }
  try {
    structuredClone(connection); // a password may be a function, a certificate an object of OpenSSL
  } catch {
    return null;
  }
  return { connection, schema: checkSchemaName(schema) };
}

/** The address for log lines, without user and password. */
export function placeOf({ connection, schema }: PostgresAddress): string {
  const suffix = schema === SCHEMA ? "" : `?schema=${schema}`;
  const text = connection["connectionString"];
  if (typeof text === "string") {
    const { host, pathname, searchParams } = new URL(text);
    return `postgres://${searchParams.get("host") ?? host}${pathname}${suffix}`;
  }
  const part = (name: string, otherwise: string): string =>
    typeof connection[name] === "string" || typeof connection[name] === "number"
      ? String(connection[name])
      : otherwise;
  const host = part("host", "localhost");
  return `postgres://${host}:${part("port", "5432")}/${part("database", "")}${suffix}`;
}
