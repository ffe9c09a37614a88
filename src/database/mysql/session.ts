/** One connection to the server, with our session settings. */
import { StoreRefusedError, StoreUnavailableError } from "../../core/errors.ts";
import type { Runtime } from "../../core/runtime.ts";
import { importDriver, type Row, type WaitLimits } from "../engine.ts";
import type { Parameter, SqlValue, Statement } from "../sql.ts";
import type { MysqlAddress } from "./address.ts";
import { isLost, isReadOnly, NoAnswer, withoutStatement } from "./errors.ts";

// Statements as text, with the values in place.
//
// The hot statements have hundreds of rows each, and several are sent in one packet: the server parses one long text
// faster than it answers many short ones.

/** Rows or ids in one statement. Range plans of thousands of points exceed the optimizer's memory. */
const ROWS_PER_STATEMENT = 500;

/** The maximum length of one statement in UTF-16 units, unless a single row is longer. */
const UNITS_PER_STATEMENT = 512 * 1024;

/** Text that is SQL, not a value. */
export class RawSql {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export const nothing = new RawSql("");

/** Replaces every `?` of the text, in turn, by one of the values. */
export function fill(text: string, ...values: readonly (SqlValue | RawSql)[]): string {
  const [first = "", ...rest] = text.split("?");
  return rest.reduce((done, part, index) => {
    const value = values[index] ?? null;
    return done + (value instanceof RawSql ? value.text : literal(value)) + part;
  }, first);
}

/** A statement of the shared SQL. */
export function filled({ text, values }: Statement): string {
  return fill(text, ...values.map((value) => (isList(value) ? list(value) : value)));
}

function isList(value: Parameter): value is readonly string[] {
  return Array.isArray(value);
}

export function literal(value: SqlValue): string {
  if (value === null) return "null";
  return typeof value === "number" ? String(value) : quote(value);
}

/**
 * Only these two characters are special with our session settings: utf8mb4, and no NO_BACKSLASH_ESCAPES. Most texts have
 * neither, and checking that is much cheaper than a regular expression that replaces nothing.
 */
function quote(text: string): string {
  const special = text.includes("'") || text.includes("\\");
  return `'${special ? text.replaceAll(SPECIAL, ESCAPED) : text}'`;
}

const SPECIAL = /['\\]/g;

const ESCAPED = String.raw`\$&`;

/** `'a','b'`, for an IN. */
export function list(values: readonly string[]): RawSql {
  return new RawSql(values.map(quote).join(","));
}

/** A JSON array as a literal, for JSON_TABLE. */
export function jsonList(values: readonly string[]): RawSql {
  return new RawSql(quote(JSON.stringify(values)));
}

/** Groups that fit into one statement. */
export function* inGroups<T>(all: readonly T[]): Generator<T[]> {
  for (let at = 0; at < all.length; at += ROWS_PER_STATEMENT) {
    yield all.slice(at, at + ROWS_PER_STATEMENT);
  }
}

/** Insert statements for rows with the same columns. */
export function insertRows(table: string, rows: readonly Row[]): string[] {
  const columns = Object.keys(rows[0] ?? {});
  const names = columns.map((column) => `"${column}"`).join(", ");
  const head = `insert into holdfast_${table} (${names}) values ?`;
  const tuples = rows.map((row) => tuple(columns.map((column) => row[column] ?? null)));
  return [...insertions(head, tuples)];
}

export function tuple(values: readonly SqlValue[]): string {
  return `(${values.map(literal).join(",")})`;
}

/** Insert statements for all rows, each row written as `(…)`. */
export function* insertions(head: string, rows: Iterable<string>): Generator<string> {
  let gathered: string[] = [];
  let units = 0;
  for (const row of rows) {
    const full = gathered.length === ROWS_PER_STATEMENT || units + row.length > UNITS_PER_STATEMENT;
    if (full && gathered.length > 0) {
      yield fill(head, new RawSql(gathered.join(",")));
      gathered = [];
      units = 0;
    }
    gathered.push(row);
    units += row.length;
  }
  if (gathered.length > 0) yield fill(head, new RawSql(gathered.join(",")));
}

/** A statement that takes longer is abandoned together with its connection. */
const ANSWER_MS_MAX = 30_000;

/** How long a statement waits for a row lock, and for a table that is being altered. */
const ROW_WAIT_S = 10;

export const TABLE_WAIT_S = 20;

/** The server disconnects a client that is silent for this long. Idle connections are closed long before. */
const SILENCE_S = 90;

/** The same inside a transaction: the server releases the locks of a process that is frozen there. */
const TX_SILENCE_S = 2;

/** How long an answer may stay unread. */
const UNREAD_S = 10;

/** A user's function may do other things between two statements. */
export const USER_SILENCE_MS = SILENCE_S * 1_000;

/** For both servers; only MariaDB reads the text between the exclamation mark and the star. */
const SET_UP = `
set names utf8mb4 collate utf8mb4_bin;
set session transaction isolation level read committed, read write;
set session sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1,
    sql_safe_updates = 0, innodb_lock_wait_timeout = ${ROW_WAIT_S}, lock_wait_timeout = ${TABLE_WAIT_S},
    wait_timeout = ${SILENCE_S}, net_write_timeout = ${UNREAD_S}
    /*M! , in_predicate_conversion_threshold = 0, idle_transaction_timeout = ${TX_SILENCE_S} */;
select version(), @@max_allowed_packet,
       (select host from information_schema.processlist where id = connection_id())`;

/** A session variable that a transaction sets for itself. */
type Own = readonly [variable: string, own: number, usual: number];

/** MySQL has no limit for silence in transactions alone, so each of them changes the limit of the session. */
function ownLimits({ lockMs, idleMs }: WaitLimits, isMariaDb: boolean): Own[] {
  const silenceS = idleMs === undefined ? TX_SILENCE_S : seconds(idleMs);
  const silence: Own = isMariaDb
    ? ["idle_transaction_timeout", silenceS, TX_SILENCE_S]
    : ["wait_timeout", silenceS, SILENCE_S];
  const waiting: Own[] =
    lockMs === undefined ? [] : [["innodb_lock_wait_timeout", seconds(lockMs), ROW_WAIT_S]];
  return [silence, ...waiting].filter(([, own, usual]) => own !== usual);
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1_000);
}

/** A statement for each, or none: what sets the limits of a transaction, and what restores those of the session. */
export function limitTexts(
  limits: WaitLimits,
  isMariaDb: boolean,
): { readonly set: string[]; readonly restore: string[] } {
  const all = ownLimits(limits, isMariaDb);
  const text = (value: (one: Own) => number): string[] =>
    all.length === 0
      ? []
      : [`set session ${all.map((one) => `${one[0]} = ${value(one)}`).join(", ")}`];
  return { set: text(([, own]) => own), restore: text(([, , usual]) => usual) };
}

export const tableWait = (waitS: number): string => `set session lock_wait_timeout = ${waitS}`;

/** A hook for tests, called before and after every round trip, so that a process can be killed at each of them. */
export type Probe = (point: string) => void;

interface SessionParts {
  readonly driver: Driver;
  readonly address: MysqlAddress;
  readonly runtime: Runtime;
  readonly probe: Probe | null;
}

interface Server {
  readonly version: string;
  readonly isMariaDb: boolean;
  /** The maximum size of a packet. */
  readonly packetBytes: number;
}

/** The answer to a statement: rows, or how many it changed. */
export type Answer = readonly unknown[] | { readonly affectedRows: number };

export class Session {
  readonly id: number;
  readonly server: Server;
  /** Our host and port as the server sees them: with the id, they identify the session even after a server restart. */
  readonly seenAs: string;
  readonly #connection: DriverConnection;
  readonly #runtime: Runtime;
  readonly #probe: Probe | null;
  #usable = true;

  private constructor(connection: DriverConnection, parts: SessionParts, facts: SetUp) {
    const [version, packetBytes, seenAs] = facts;
    this.#connection = connection;
    this.#runtime = parts.runtime;
    this.#probe = parts.probe;
    this.id = connection.threadId;
    this.server = { version, packetBytes, isMariaDb: namesMariaDb(version) };
    this.seenAs = seenAs ?? "";
    // The only listener for a connection that dies between two statements.
    connection.on("error", () => this.destroy());
    // The server has hung up. The driver has yet to reject the pending queries, so the connection is not destroyed here.
    connection.on("end", () => void (this.#usable = false));
  }

  static async open(parts: SessionParts): Promise<Session> {
    const connection = await connect(parts.driver, parts.address);
    try {
      const asked = { sql: SET_UP, rowsAsArray: true, answerMs: ANSWER_MS_MAX };
      const answers = (await ask(connection, parts.runtime, asked)) as unknown[];
      const [facts] = answers.at(-1) as [SetUp];
      return new Session(connection, parts, facts);
    } catch (error) {
      hangUp(connection);
      throw withoutStatement(error);
    }
  }

  /** False: it was lost, or another connection is a better choice. */
  get usable(): boolean {
    return this.#usable;
  }

  /** For the user's function in a transaction of ours. */
  get client(): unknown {
    return this.#connection;
  }

  /** One statement of the user, with its values. */
  async query(text: string, values: readonly unknown[]): Promise<Answer> {
    const asked = { sql: text, values, rowsAsArray: false, answerMs: ANSWER_MS_MAX };
    return (await ask(this.#connection, this.#runtime, asked)) as Answer;
  }

  /** Sends statements in one packet; each has one answer. */
  async send(
    statements: readonly string[],
    { rows, answerMs = ANSWER_MS_MAX }: { rows: "arrays" | "objects"; answerMs?: number },
  ): Promise<Answer[]> {
    const sql = statements.join(";\n");
    this.#checkSize(sql);
    this.#probe?.(`before ${labelOf(sql)}`);
    try {
      const asked = { sql, rowsAsArray: rows === "arrays", answerMs };
      const answer = await ask(this.#connection, this.#runtime, asked);
      this.#probe?.(`after ${labelOf(sql)}`);
      return statements.length === 1 ? [answer as Answer] : (answer as Answer[]);
    } catch (error) {
      // The server may still be working on the statement, so the connection cannot be used again.
      if (isLost(error) || isReadOnly(error)) this.destroy();
      throw withoutStatement(error);
    }
  }

  /** Whether the session keeps the process alive. An idle session does not. */
  keepProcess(alive: boolean): void {
    const { stream } = this.#connection.connection;
    if (alive) stream.ref();
    else stream.unref();
  }

  async end(): Promise<void> {
    if (!this.#usable) return;
    this.#usable = false;
    this.keepProcess(true);
    await this.#connection.end().catch(() => {});
    hangUp(this.#connection);
  }

  destroy(): void {
    this.#usable = false;
    hangUp(this.#connection);
  }

  /** The server would close the connection without an error. */
  #checkSize(sql: string): void {
    const { packetBytes } = this.server;
    if (sql.length * BYTES_PER_UNIT_MAX < packetBytes) return;
    const bytes = Buffer.byteLength(sql) + PACKET_ROOM_BYTES;
    if (bytes <= packetBytes) return;
    throw new StoreRefusedError({
      problem: `a statement takes ${bytes} bytes and the server's max_allowed_packet is ${packetBytes}. Raise it, or store large payloads elsewhere.`,
    });
  }
}

type SetUp = [version: string, packetBytes: number, seenAs: string | null];

const BYTES_PER_UNIT_MAX = 3;

const PACKET_ROOM_BYTES = 16;

function labelOf(sql: string): string {
  return sql.trim().replaceAll(/\s+/g, " ").slice(0, 60);
}

/**
 * With a timeout of our own: the driver does not clear its timeout when the connection is lost, which keeps the process
 * alive, and never rejects the queries of a destroyed connection.
 */
async function ask(
  connection: DriverConnection,
  runtime: Runtime,
  { answerMs, ...query }: Query & { answerMs: number },
): Promise<unknown> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = runtime.timer(answerMs, () => reject(new NoAnswer(`no answer in ${answerMs} ms`)));
  try {
    const [answer] = await Promise.race([connection.query(query), promise]);
    return answer;
  } finally {
    timer.cancel();
  }
}

/** The driver alone would wait for the server, which may never answer. */
function hangUp(connection: DriverConnection): void {
  connection.destroy();
  connection.connection.stream.destroy();
}

export function rowsOf<T>(answer: Answer | undefined): T[] {
  return Array.isArray(answer) ? (answer as T[]) : [];
}

/** The rows of several answers. */
export function allRows<T>(answers: readonly Answer[]): T[] {
  const [first, ...more] = answers;
  return more.length === 0 ? rowsOf<T>(first) : answers.flatMap((answer) => rowsOf<T>(answer));
}

/** The number in the only row; null: none. */
export function numberIn(answer: Answer | undefined): number | null {
  const [row] = rowsOf<[number | null]>(answer);
  return row?.[0] ?? null;
}

export function changesOf(answer: Answer | undefined): number {
  return answer !== undefined && "affectedRows" in answer ? answer.affectedRows : 0;
}

// The part of the driver that we use. Declared here, so that our types do not require the driver's.

const CONNECT_MS_MAX = 10_000;

const KEEP_ALIVE_AFTER_MS = 10_000;

interface Driver {
  createConnection(config: object): Promise<DriverConnection>;
  format(text: string, values: unknown): string;
}

interface Query {
  readonly sql: string;
  readonly rowsAsArray: boolean;
  readonly values?: readonly unknown[];
}

interface DriverConnection {
  readonly threadId: number;
  query(query: Query): Promise<[unknown, unknown]>;
  on(event: "error" | "end", listener: () => void): unknown;
  end(): Promise<void>;
  destroy(): void;
  /** The connection under the promise API. */
  readonly connection: { readonly stream: { destroy(): void; ref(): void; unref(): void } };
}

export async function loadDriver(): Promise<Driver> {
  return (await importDriver("MySQL and MariaDB", "mysql2/promise")) as Driver;
}

function connect(driver: Driver, address: MysqlAddress): Promise<DriverConnection> {
  const { host, port, user, password, database, socket } = address;
  return driver.createConnection({
    ...(socket === null ? { host, port } : { socketPath: socket }),
    user,
    password,
    database,
    ...tlsConfig(address),
    charset: "UTF8MB4_BIN",
    connectTimeout: CONNECT_MS_MAX,
    enableKeepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_AFTER_MS,
    multipleStatements: true,
    decimalNumbers: true, // a count or a sum is a number, not a text
    // Our own statements have their values in the text, so they must not be searched for placeholders.
    queryFormat: (text: string, values?: unknown) =>
      values === undefined || values === null ? text : driver.format(text, values),
    // An UPDATE counts the rows it found, not those it changed; and the server must not read our files.
    flags: ["FOUND_ROWS", "-LOCAL_FILES"],
  });
}

function tlsConfig({ tls }: MysqlAddress): object {
  if (tls === null) return {};
  const { verify, authorities } = tls;
  return {
    ssl: {
      rejectUnauthorized: verify !== "nothing",
      verifyIdentity: verify === "identity",
      ...(authorities === null ? {} : { ca: authorities }),
    },
  };
}

// The differences between the two servers.

interface Flavour {
  readonly name: string;
  /** Compares texts as bytes, including trailing blanks. */
  readonly collation: string;
  readonly oldest: readonly [number, number, number];
}

const MARIADB: Flavour = { name: "MariaDB", collation: "utf8mb4_nopad_bin", oldest: [10, 11, 0] };

const MYSQL: Flavour = { name: "MySQL", collation: "utf8mb4_0900_bin", oldest: [8, 0, 17] };

function namesMariaDb(version: string): boolean {
  return /mariadb/i.test(version);
}

export function flavourOf(version: string, store: string): Flavour {
  const flavour = namesMariaDb(version) ? MARIADB : MYSQL;
  const parts = version.split(/[.-]/, 3).map(Number);
  const first = flavour.oldest.findIndex((oldest, index) => parts[index] !== oldest);
  if (first === -1 || (parts[first] ?? 0) > (flavour.oldest[first] ?? 0)) return flavour;
  throw new StoreUnavailableError({
    problem: `${store} runs ${flavour.name} ${version}.`,
    remedy: `Holdfast needs ${flavour.name} ${flavour.oldest.join(".")} or later.`,
  });
}
