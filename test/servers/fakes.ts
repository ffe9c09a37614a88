/** Servers that speak just enough of a protocol to be refused: old ones, and one that changes its mind at once. */
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";

export interface Fake extends AsyncDisposable {
  readonly port: number;
}

async function listen(serve: (socket: Socket) => void): Promise<Fake> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}); // "close" follows
    socket.on("close", () => sockets.delete(socket));
    serve(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** Says something that is no answer to anything, and hangs up. */
export function fakeStranger(): Promise<Fake> {
  return listen((socket) => socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"));
}

// ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────────────

const SSL_REQUEST = 80_877_103;

function pgMessage(type: string, ...parts: readonly (string | number | Buffer)[]): Buffer {
  const body = Buffer.concat(parts.map(pgPart));
  const head = Buffer.alloc(5);
  head.write(type, "latin1");
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

/** A text ends in a zero; a number has four bytes. */
function pgPart(part: string | number | Buffer): Buffer {
  if (typeof part === "string") return Buffer.from(`${part}\0`);
  if (typeof part !== "number") return part;
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(part);
  return bytes;
}

function pgShort(value: number): Buffer {
  return Buffer.from([value >> 8, value & 0xff]);
}

const READY = pgMessage("Z", Buffer.from("I"));

function pgError(severity: string, code: string, words: string): Buffer {
  return pgMessage("E", `S${severity}`, `V${severity}`, `C${code}`, `M${words}`, Buffer.from([0]));
}

function pgWelcome(version: string): Buffer {
  return Buffer.concat([
    pgMessage("R", 0),
    pgMessage("S", "server_version", version),
    pgMessage("K", 4_711, 0),
    READY,
  ]);
}

/** One row, each value as text; `types` are the numbers of the columns' types. */
function pgRow(row: Readonly<Record<string, string>>, types: Readonly<Record<string, number>>) {
  const names = Object.keys(row);
  const columns = names.flatMap((name) => [
    pgPart(name),
    Buffer.alloc(6),
    pgPart(types[name] ?? 25),
    pgShort(0xff_ff),
    pgPart(-1),
    pgShort(0),
  ]);
  const values = Object.values(row).flatMap((value) => [
    pgPart(Buffer.byteLength(value)),
    Buffer.from(value),
  ]);
  return {
    description: pgMessage("T", pgShort(names.length), ...columns),
    data: Buffer.concat([
      pgMessage("D", pgShort(names.length), ...values),
      pgMessage("C", "SELECT 1"),
    ]),
  };
}

function majorOf(version: string): number {
  return Number(version.split(".")[0]);
}

/** What it says about itself, whatever it is asked. */
function pgFacts(version: string) {
  const major = majorOf(version);
  const number = major < 10 ? version.replace(".", "0") : `${major}00`;
  const facts = {
    number: `${number}02`,
    version,
    replica: "f",
    readOnly: "off",
    isolation: "read committed",
    mode: major < 12 ? "auto" : "force_generic_plan",
  };
  return pgRow(facts, { number: 23, replica: 16 });
}

/** A PostgreSQL of another time. Before version 12 it does not know what we say at the start. */
export function fakePostgres(version: string): Promise<Fake> {
  const { description, data } = pgFacts(version);
  const knowsPlans = majorOf(version) >= 12;
  return listen((socket) => {
    let started = false;
    socket.on("data", (chunk: Buffer) => {
      if (!started && chunk.readInt32BE(4) === SSL_REQUEST) return void socket.write("N");
      if (!started) {
        started = true;
        if (knowsPlans || !chunk.includes("plan_cache_mode"))
          return void socket.write(pgWelcome(version));
        const words = 'unrecognized configuration parameter "plan_cache_mode"';
        return void socket.end(pgError("FATAL", "42704", words));
      }
      const type = chunk.toString("latin1", 0, 1);
      if (type === "X") return void socket.end();
      const parsed = [pgMessage("1"), pgMessage("2")];
      socket.write(Buffer.concat([...(type === "Q" ? [] : parsed), description, data, READY]));
    });
  });
}

/** A PostgreSQL that lets a client in and ends the session with the same breath, as it does when it shuts down. */
export function fakePostgresAtItsEnd(): Promise<Fake> {
  return listen((socket) => {
    socket.once("data", () => {
      const words = "terminating connection due to administrator command";
      socket.end(Buffer.concat([pgWelcome("15.2"), pgError("FATAL", "57P01", words)]));
    });
  });
}

// ── MySQL and MariaDB ────────────────────────────────────────────────────────────────────────────────────────

/** Protocol 4.1, a database at the start, passwords the old way, several statements in one packet. */
const CAPABILITIES = 0x00_0b_82_09;
const MORE_RESULTS = 0x08;
const VAR_STRING = 0xfd;

function u16(value: number): Buffer {
  return Buffer.from([value & 0xff, value >> 8]);
}

function counted(text: string): Buffer {
  return Buffer.concat([Buffer.from([text.length]), Buffer.from(text)]);
}

function mysqlHandshake(version: string): Buffer {
  return Buffer.concat([
    Buffer.from([10]),
    Buffer.from(`${version}\0`),
    Buffer.from([1, 0, 0, 0]),
    Buffer.from("12345678\0"),
    u16(CAPABILITIES & 0xff_ff),
    Buffer.from([33]),
    u16(2),
    u16(CAPABILITIES >> 16),
    Buffer.from([21]),
    Buffer.alloc(10),
    Buffer.from("123456789012\0"),
    Buffer.from("mysql_native_password\0"),
  ]);
}

const mysqlOk = (status: number): Buffer => Buffer.from([0, 0, 0, status, 0, 0, 0]);
const MYSQL_EOF = Buffer.from([0xfe, 0, 0, 2, 0]);

function mysqlColumn(name: string): Buffer {
  const places = ["def", "", "", "", name, name].map(counted);
  const facts = Buffer.from([12, 33, 0, 255, 0, 0, 0, VAR_STRING, 0, 0, 0, 0, 0]);
  return Buffer.concat([...places, facts]);
}

/** A MySQL or MariaDB that greets every session with its version, once as it must and once when it is asked. */
export function fakeMysql(version: string): Promise<Fake> {
  // MariaDB pretends in its greeting, for clients that cannot count to ten.
  const said = version.replace(/^5\.5\.5-/, "");
  const row = Buffer.concat([said, "16777216", "127.0.0.1:1"].map(counted));
  const facts = [
    mysqlOk(MORE_RESULTS),
    mysqlOk(MORE_RESULTS),
    mysqlOk(MORE_RESULTS),
    Buffer.from([3]),
    ...["version", "packet", "host"].map(mysqlColumn),
    MYSQL_EOF,
    row,
    MYSQL_EOF,
  ];
  return listen((socket) => {
    const send = (first: number, payloads: readonly Buffer[]): void => {
      for (const [index, payload] of payloads.entries()) {
        const head = Buffer.from([payload.length, payload.length >> 8, 0, first + index]);
        socket.write(Buffer.concat([head, payload]));
      }
    };
    let greeted = false;
    send(0, [mysqlHandshake(version)]);
    socket.on("data", (chunk: Buffer) => {
      if (!greeted) send(2, [mysqlOk(2)]);
      else if (chunk[4] === 3) send(1, facts);
      else socket.end();
      greeted = true;
    });
  });
}
