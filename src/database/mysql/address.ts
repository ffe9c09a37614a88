/** The address of a MySQL or MariaDB database, from a URL. */
import { readFileSync } from "node:fs";
import { InvalidArgumentError } from "../../core/errors.ts";

/** Plain data that can be sent to another thread. It may contain a password, so it is never printed. */
export interface MysqlAddress {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  /** A local socket file, instead of host and port. */
  readonly socket: string | null;
  readonly tls: Tls | null;
}

interface Tls {
  /** Only encrypt; check the certificate's authority; or also check that it is for this host. */
  readonly verify: "nothing" | "authority" | "identity";
  /** Further certificates of authorities, as text. */
  readonly authorities: string | null;
}

const PORT = 3306;

const URL_OPTIONS = ["ssl-mode", "ssl-ca", "ssl", "socket"] as const;

type UrlOption = (typeof URL_OPTIONS)[number];

export function mysqlAddress(url: string): MysqlAddress {
  const parsed = parse(url);
  const options = urlOptions(parsed.searchParams);
  return {
    host: decoded(parsed.hostname).replace(/^\[(.*)\]$/, "$1"),
    port: parsed.port === "" ? PORT : Number(parsed.port),
    user: decoded(parsed.username),
    password: decoded(parsed.password),
    database: decoded(parsed.pathname.slice(1)),
    socket: options.get("socket") ?? null,
    tls: tlsOf(options),
  };
}

/** The address for log lines, without user and password. */
export function placeOf({ host, port, database, socket }: MysqlAddress): string {
  const server = host.includes(":") ? `[${host}]` : host;
  if (socket !== null) return `mysql://${server}/${database}?socket=${socket}`;
  return `mysql://${server}:${port}/${database}`;
}

function parse(url: string): URL {
  try {
    const parsed = new URL(url);
    // More than a name in the path comes from a password with a slash in it.
    if (parsed.hostname !== "" && /^\/[^/@]+$/.test(parsed.pathname)) return parsed;
  } catch {
    // The error below does not contain the URL, which may have a password.
  }
  throw invalidUrl();
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw invalidUrl();
  }
}

function invalidUrl(): InvalidArgumentError {
  return wrong(
    "a MySQL URL has the form mysql://user:password@host:3306/database; percent-encode special characters.",
  );
}

function urlOptions(given: URLSearchParams): ReadonlyMap<UrlOption, string> {
  const known: readonly string[] = URL_OPTIONS;
  for (const name of given.keys()) {
    if (known.includes(name)) continue;
    throw wrong(`there is no option '${name}'. The options are: ${known.join(", ")}.`);
  }
  return new Map([...given] as [UrlOption, string][]);
}

/** The values of `ssl-mode`, as MySQL's own clients name them. */
const MODES: Readonly<Record<string, Tls["verify"] | null>> = {
  disabled: null,
  required: "nothing",
  verify_ca: "authority",
  verify_identity: "identity",
};

/** The notation of other clients. */
const SSL: Readonly<Record<string, keyof typeof MODES>> = {
  true: "verify_identity",
  false: "disabled",
  '{"rejectUnauthorized":true}': "verify_identity",
  '{"rejectUnauthorized":false}': "required",
};

function tlsOf(options: ReadonlyMap<UrlOption, string>): Tls | null {
  const file = options.get("ssl-ca");
  const verify = verification(options) ?? (file === undefined ? null : "authority");
  if (verify === null) return null;
  return { verify, authorities: file === undefined ? null : readAuthorities(file) };
}

function verification(options: ReadonlyMap<UrlOption, string>): Tls["verify"] | null {
  const ssl = options.get("ssl");
  const short = ssl === undefined ? undefined : SSL[ssl.replaceAll(/\s/g, "")];
  if (ssl !== undefined && short === undefined) {
    throw wrong(`ssl=${ssl} is not known. Write ssl=true, or one of ${modes()}.`);
  }
  const mode = options.get("ssl-mode") ?? short;
  if (mode === undefined) return null;
  const verify = MODES[mode.toLowerCase()];
  if (verify === undefined) {
    throw wrong(`ssl-mode=${mode} is not known. Write one of ${modes()}.`);
  }
  return verify;
}

function modes(): string {
  const names = Object.keys(MODES).map((mode) => `ssl-mode=${mode}`);
  return names.join(", ");
}

function readAuthorities(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw wrong(`the file of ssl-ca, ${file}, cannot be read.`, error);
  }
}

function wrong(problem: string, cause?: unknown): InvalidArgumentError {
  return new InvalidArgumentError({ field: "url", problem }, cause);
}
