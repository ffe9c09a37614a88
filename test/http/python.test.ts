/** A worker in another language: it drains a queue over HTTP, is killed, and goes on when the server was. */
import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { inCi } from "../../scripts/services/choice.ts";
import { openHoldfast, type Holdfast } from "../../src/app/holdfast.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { ServerProcess } from "./child.ts";
import { until } from "../worker/observe.ts";
import { TestServer, send } from "./client.ts";

const PROGRAM = join(import.meta.dirname, "../../examples/worker.py");
const JOBS = 300;
const LEASE_S = 1.5;
const LIMIT_MS = 60_000;
/** What a frozen process has sent is answered by then. */
const ON_ITS_WAY_MS = 50;
const TOKEN = "a-token-of-the-test-0123456789";

const folder = tempFolder();

/** Loud where it is missing, and a failure on a build machine. */
function missingPython(): string | false {
  if (spawnSync("python3", ["--version"]).status === 0) return false;
  const reason = "python3 is missing: the worker in Python was NOT tested";
  assert.ok(!inCi(process.env), `With CI=true nothing may be left untested. ${reason}`);
  console.error(reason);
  return reason;
}

class PythonWorker implements AsyncDisposable {
  readonly child: ChildProcess;
  readonly ended: Promise<number | null>;
  said = "";

  constructor(api: string, env: Record<string, string> = {}) {
    this.child = spawn("python3", [PROGRAM], {
      env: {
        ...process.env,
        HOLDFAST_API: api,
        HOLDFAST_QUEUES: "py",
        HOLDFAST_TOKEN: TOKEN,
        LEASE_S: String(LEASE_S),
        IDLE_S: "0.1",
        ...env,
      },
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.child.stderr?.setEncoding("utf8").on("data", (text: string) => void (this.said += text));
    this.ended = new Promise((resolve) => void this.child.once("exit", (code) => resolve(code)));
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    this.child.kill(signal);
    return this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) await this.end("SIGKILL");
  }
}

async function untilDone(holdfast: Holdfast, wanted: number): Promise<void> {
  const endAt = performance.now() + LIMIT_MS;
  for (;;) {
    const [queue] = await holdfast.stats();
    if ((queue?.counts.done ?? 0) >= wanted) return;
    assert.ok(performance.now() < endAt, `only ${queue?.counts.done} of ${wanted} were done`);
    await pause(20);
  }
}

test(
  `${JOBS} jobs are done once each, though a worker and the server are killed`,
  { skip: missingPython(), timeout: 120_000 },
  async () => {
    const url = `sqlite:${folder.file(".db")}`;
    const order = { url, token: TOKEN };
    const first = await ServerProcess.start(order);
    const { port } = first;
    const jobs = Array.from({ length: JOBS }, (_, at) => ({
      task: "py.add",
      input: { a: at, b: 1 },
      options: { queue: "py" },
    }));
    const bulk = await send(first, "/api/v1/jobs/bulk", {
      method: "POST",
      body: { jobs },
      token: TOKEN,
    });
    assert.equal(bulk.status, 201, bulk.text);
    await using holdfast = await openHoldfast(url);
    await using killed = new PythonWorker(first.url);
    await untilDone(holdfast, JOBS / 10);
    await killedWhileItWorks(holdfast, killed);
    await using other = new PythonWorker(first.url);
    await untilDone(holdfast, JOBS / 2);
    await first.kill();
    await using second = await ServerProcess.start({ ...order, port });
    await untilDone(holdfast, JOBS);
    assert.equal(second.port, port);
    assert.equal(await other.end("SIGTERM"), 0);
    await assertOnceEach(holdfast, bulk.json.jobs);
  },
);

/** It is frozen first, so that its leases are seen to be left behind: otherwise nothing was proved. */
async function killedWhileItWorks(holdfast: Holdfast, worker: PythonWorker): Promise<void> {
  const endAt = performance.now() + LIMIT_MS;
  for (;;) {
    worker.child.kill("SIGSTOP");
    await pause(ON_ITS_WAY_MS);
    if ((await holdfast.leases.list()).length > 0) break;
    assert.ok(performance.now() < endAt, "it never held a lease");
    worker.child.kill("SIGCONT");
    await pause(Math.random() * ON_ITS_WAY_MS);
  }
  await worker.end("SIGKILL");
}

async function assertOnceEach(holdfast: Holdfast, jobs: readonly { id: string }[]): Promise<void> {
  const results: unknown[] = [];
  let crashed = 0;
  for (const { id } of jobs) {
    const job = await holdfast.jobs.get(id);
    results.push(job?.result);
    crashed += job?.crashes ?? 0;
    const attempts = await holdfast.jobs.attempts(id);
    assert.equal(attempts.filter(({ outcome }) => outcome === "done").length, 1);
  }
  assert.deepEqual(
    results,
    jobs.map((_, at) => at + 1),
  );
  assert.ok(crashed > 0, "the killed worker left nothing behind: the test proved nothing");
}

test(
  "a job that cannot succeed is given up, and one of another worker's task is left alone",
  { skip: missingPython() },
  async () => {
    await using api = await TestServer.open(`sqlite:${folder.file(".db")}`, { token: TOKEN });
    const post = (task: string, input: unknown) =>
      api.post("/api/v1/jobs", { task, input, options: { queue: "py" } }, 201, { token: TOKEN });
    const unknown = await post("py.unknown", null);
    const hopeless = await post("py.add", { a: 1 });
    const wrong = await post("py.add", { a: 1, b: "two" });
    await using worker = new PythonWorker(api.server.url);
    await assert.rejects(
      api.holdfast.jobs.result(hopeless.id, { timeout: "30s" }),
      /failed on attempt 1: py\.add needs a and b/,
    );
    await until("the other is retried", async () => {
      const job = await api.holdfast.jobs.get(wrong.id);
      return job?.status === "retry" && job.lastError?.name === "TypeError";
    });
    const { status, attempts } = (await api.holdfast.jobs.get(unknown.id)) ?? {};
    assert.deepEqual([status, attempts], ["pending", 0]);
    assert.equal(await worker.end("SIGTERM"), 0);
    assert.equal(worker.said, "");
  },
);

test("a missing token is reported in one line", { skip: missingPython() }, async () => {
  await using api = await TestServer.open(`sqlite:${folder.file(".db")}`, { token: TOKEN });
  await using worker = new PythonWorker(api.server.url, { HOLDFAST_TOKEN: "" });
  assert.equal(await worker.ended, 1);
  assert.match(worker.said, /^worker\.py: .*token.*\n$/i);
});

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  test(`${signal} ends it while the server is away`, { skip: missingPython() }, async () => {
    let tries = 0;
    const away = createServer((socket) => {
      tries += 1;
      socket.destroy();
    });
    away.listen(0, "127.0.0.1");
    await once(away, "listening");
    const { port } = away.address() as AddressInfo;
    await using worker = new PythonWorker(`http://127.0.0.1:${port}`, { STOP_S: "0.5" });
    // The rests between its tries double: from here on they are longer than the test waits.
    await until("it has tried for a while", () => tries === 6);
    await new Promise((resolve) => void away.close(resolve));
    const askedAt = performance.now();
    assert.equal(await worker.end(signal), 0);
    assert.ok(performance.now() - askedAt < 3_000, "it did not hear the signal");
    assert.equal(worker.said, "");
  });
}

after(async () => {
  folder[Symbol.dispose]();
  await assertNothingRuns();
});
