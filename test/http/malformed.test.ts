/** Malformed requests to an application that mounts the dashboard: each gets an answer, and none ends the process. */
import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { within } from "../support/waiting.ts";
import { BASE, frameworks } from "./mounts.ts";

after(assertNothingRuns);

const PROGRAM = join(import.meta.dirname, "mount-process.ts");

const JOBS = `${BASE}/api/v1/jobs`;

/** An answer takes milliseconds; a process that hangs takes forever. */
const ANSWERED_MS_MAX = 20_000;

const REFUSED = /^HTTP\/1\.1 (?:400|401|403|404|405|408|413|415|417|421|431) /;

interface Malformed {
  readonly text: string;
  /** Default: one. */
  readonly answers?: number;
  /** It has a body that is not read. */
  readonly unread?: true;
  /** The client leaves instead of waiting for an answer. */
  readonly leaves?: true;
  /** Node's server has no answer to it, and closes the connection; a framework never hears of it. */
  readonly closes?: true;
}

function request(first: string, ...headers: string[]): string {
  return [first, ...headers, "Connection: close", "", ""].join("\r\n");
}

const get = (target: string, ...headers: string[]): string =>
  request(`GET ${target} HTTP/1.1`, ...headers);

const requests: Readonly<Record<string, Malformed>> = {
  TRACE: { text: request(`TRACE ${JOBS} HTTP/1.1`, "Host: x") },
  CONNECT: { text: request(`CONNECT x:80 HTTP/1.1`, "Host: x"), closes: true },
  "CONNECT with a path": { text: request(`CONNECT ${JOBS} HTTP/1.1`, "Host: x"), closes: true },
  QUERY: { text: request(`QUERY ${JOBS} HTTP/1.1`, "Host: x", "Content-Length: 0") },
  PROPFIND: { text: request(`PROPFIND ${JOBS} HTTP/1.1`, "Host: x") },
  "OPTIONS *": { text: request("OPTIONS * HTTP/1.1", "Host: x") },
  "an unknown method": { text: request(`HOLD ${JOBS} HTTP/1.1`, "Host: x") },
  "a host that is no name": { text: get(JOBS, "Host: [") },
  "a host with a user": { text: get(JOBS, "Host: a@b") },
  "a host with a password": { text: get(JOBS, "Host: a:b@c") },
  "a host with a path": { text: get(JOBS, `Host: x${BASE}/health?`) },
  "a host with a fragment": { text: get(JOBS, "Host: x#y") },
  "a host with a bad port": { text: get(JOBS, "Host: x:99999999") },
  "an empty host": { text: get(JOBS, "Host:") },
  "two hosts": { text: get(JOBS, "Host: x", "Host: [") },
  "no host": { text: get(JOBS) },
  "no host, HTTP/1.0": { text: request(`GET ${JOBS} HTTP/1.0`) },
  "an odd host, HTTP/1.0": { text: request(`GET ${JOBS} HTTP/1.0`, "Host: a:b@c") },
  "an absolute target": { text: get(`http://evil.example${JOBS}`, "Host: x") },
  "an absolute target without a name": { text: get("http://", "Host: x") },
  "a target without a slash": { text: get("admin/jobs/api/v1/jobs", "Host: x") },
  "a target with backslashes": { text: get(`${BASE}\\api\\v1\\jobs`, "Host: x") },
  "a target with two slashes": { text: get(`//evil.example${JOBS}`, "Host: x") },
  "a target with two slashes and an odd host": { text: get(`//[${JOBS}`, "Host: [") },
  "a target with dots": { text: get(`${BASE}/../../api/v1/jobs`, "Host: x") },
  "a target with bad escapes": { text: get(`${JOBS}/%zz%E0%A4%A?a=%zz`, "Host: x") },
  "a target with a null": { text: get(`${JOBS}/%00`, "Host: x") },
  "a target with bytes above ASCII": { text: get(`${JOBS}/ÿþ`, "Host: x") },
  "a header with bytes above ASCII": { text: get(JOBS, "Host: x", "X-A: ÿþ", "Cookie: ÿ") },
  "huge headers": { text: get(JOBS, "Host: x", `X-A: ${"a".repeat(100_000)}`) },
  "a long target": { text: get(`${JOBS}?${"a".repeat(14_000)}`, "Host: x") },
  "a header without a name": { text: get(JOBS, "Host: x", ": a") },
  "a body that is not announced": {
    text: request(`POST ${JOBS} HTTP/1.1`, "Host: x", "Content-Type: application/json"),
  },
  "a body that is too large": {
    text: `${request(
      `POST ${JOBS} HTTP/1.1`,
      "Host: x",
      "X-User: ada",
      "Content-Type: application/json",
      "Content-Length: 3000000",
    )}${"[".repeat(3_000_000)}`,
  },
  "a body that is not read": {
    unread: true,
    text: `${request(
      `POST ${JOBS} HTTP/1.1`,
      "Host: [",
      "Content-Type: application/json",
      "Content-Length: 3000000",
    )}${"[".repeat(3_000_000)}`,
  },
  "two requests, the first with a body that is not read": {
    unread: true,
    answers: 2,
    text: `POST ${JOBS} HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n${"a".repeat(900_000)}${get(JOBS, "Host: x")}`,
  },
  "a body in bad chunks": {
    text: `${request(
      `POST ${JOBS} HTTP/1.1`,
      "Host: x",
      "X-User: ada",
      "Content-Type: application/json",
      "Transfer-Encoding: chunked",
    )}zz\r\n{}\r\n0\r\n\r\n`,
  },
  "an expectation": { text: get(JOBS, "Host: x", "Expect: tea") },
  "an upgrade": {
    text: `GET ${JOBS} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n`,
  },
  "a body that ends early": {
    leaves: true,
    text: `${request(
      `POST ${JOBS} HTTP/1.1`,
      "Host: x",
      "X-User: ada",
      "Content-Type: application/json",
      "Content-Length: 1000",
    )}{"task":`,
  },
  "a body that ends early, without a login": {
    leaves: true,
    text: `${request(`POST ${JOBS} HTTP/1.1`, "Host: x", "Content-Length: 1000")}{`,
  },
  "a body in chunks that ends early": {
    leaves: true,
    text: `${request(
      `POST ${JOBS} HTTP/1.1`,
      "Host: [",
      "X-User: ada",
      "Content-Type: application/json",
      "Transfer-Encoding: chunked",
    )}400\r\n{`,
  },
  "a stream without a reader": {
    leaves: true,
    text: get(`${BASE}/api/v1/stream`, "Host: [", "X-User: ada"),
  },
};

class Application implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  readonly #ports: Readonly<Record<string, number>>;
  /** What its process wrote, such as the error that ended it. */
  readonly #said: Buffer[];

  private constructor(child: ChildProcess, ports: Record<string, number>, said: Buffer[]) {
    this.#child = child;
    this.#ended = once(child, "exit");
    this.#ports = ports;
    this.#said = said;
  }

  static async start(): Promise<Application> {
    const child = fork(PROGRAM, { stdio: ["ignore", "ignore", "pipe", "ipc"] });
    const said: Buffer[] = [];
    child.stderr?.on("data", (data: Buffer) => said.push(data));
    const gone = once(child, "exit").then(() => [null]);
    const [ports] = (await Promise.race([once(child, "message"), gone])) as [
      Record<string, number> | null,
    ];
    assert.ok(ports !== null, Buffer.concat(said).toString());
    return new Application(child, ports, said);
  }

  assertLives(last: string): void {
    const { exitCode, signalCode } = this.#child;
    const said = Buffer.concat(this.#said).toString();
    assert.ok(exitCode === null && signalCode === null, `it ended after ${last}: ${said}`);
  }

  /** All that comes back until the connection closes; null: it stays open. */
  async send(
    framework: string,
    { text, leaves = false }: { readonly text: string; readonly leaves?: boolean },
  ): Promise<string | null> {
    const socket = connect(this.#ports[framework] ?? 0, "127.0.0.1");
    let got = "";
    socket.setEncoding("latin1").on("data", (data: string) => void (got += data));
    socket.on("error", () => {});
    const closed = new Promise((resolve) => void socket.once("close", () => resolve(true)));
    await new Promise<void>((resolve) => socket.write(text, "latin1", () => resolve()));
    if (leaves) socket.destroy();
    const ended = await within(ANSWERED_MS_MAX, closed);
    socket.destroy();
    return ended === null ? null : got;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    if (this.#child.exitCode === null && this.#child.signalCode === null) await this.#ended;
  }
}

/** They make the request themselves: an odd host is refused there, and an unread body ends the connection. */
const ADAPTERS = new Set(["Hono", "Next.js"]);

describe("an application that mounts the dashboard", () => {
  let application: Application;

  before(async () => {
    application = await Application.start();
  });

  after(() => application[Symbol.asyncDispose]());

  for (const framework of Object.keys(frameworks)) {
    const isAdapted = ADAPTERS.has(framework);

    test(`behind ${framework}: each malformed request gets an answer, and none ends the process`, async () => {
      const check = async ([name, malformed]: [string, Malformed]): Promise<void> => {
        const got = await application.send(framework, malformed);
        application.assertLives(name);
        assert.ok(got !== null, `${name}: no answer`);
        const { leaves, closes, unread, answers: expected = 1 } = malformed;
        if (leaves || (closes && got === "") || (unread && isAdapted)) return;
        const answers = got.split(/(?=^HTTP\/1\.1 \d{3} )/m);
        assert.equal(answers.length, expected, `${name}: ${got}`);
        for (const answer of answers) assert.match(answer, REFUSED, name);
      };
      await Promise.all(Object.entries(requests).map(check));
    });

    test(`behind ${framework}: the Host header decides neither who may ask nor what`, async () => {
      const answer = async (...lines: Parameters<typeof get>): Promise<string> =>
        (await application.send(framework, { text: get(...lines) })) ?? "";
      const odd = isAdapted ? /^HTTP\/1\.1 400 / : /^HTTP\/1\.1 401 [^]*"NO_PRINCIPAL"/;
      assert.match(await answer(JOBS, "Host: x"), /^HTTP\/1\.1 401 [^]*"NO_PRINCIPAL"/);
      assert.match(await answer(JOBS, "Host: ["), odd, "the login is asked");
      assert.match(await answer(JOBS, "Host: x", "X-User: eve"), /^HTTP\/1\.1 200 /);
      const elsewhere = await answer(`${BASE}/zzz`, `Host: x${JOBS}?`, "X-User: eve");
      assert.match(elsewhere, isAdapted ? /^HTTP\/1\.1 400 / : /^HTTP\/1\.1 404 /);
      application.assertLives("the last request");
    });
  }
});
