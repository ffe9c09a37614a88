/** A transaction that could not be opened, on a connection that goes on: what was to happen in it does not happen. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { after, before, describe, test } from "node:test";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";

const HOST = "127.0.0.1";
const BEGIN = "begin isolation level";
/** As long, and no statement: the server says so and waits for the next. */
const NO_BEGIN = "begim isolation level";

/** Stands before the server and spoils what opens a transaction, for as long as it is told to. */
class Spoiler implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly url: string;
  spoils = false;
  spoiled = 0;

  private constructor(server: Server, url: string) {
    const target = new URL(url);
    this.#server = server;
    server.on("connection", (client) => this.#take(client, target));
    const parsed = new URL(url);
    parsed.host = `${HOST}:${(server.address() as AddressInfo).port}`;
    this.url = parsed.href;
  }

  static async before(url: string): Promise<Spoiler> {
    const server = createServer().listen(0, HOST);
    await once(server, "listening");
    return new Spoiler(server, url);
  }

  /** What is done meanwhile is refused. */
  async during(act: () => Promise<unknown>): Promise<void> {
    const earlier = this.spoiled;
    this.spoils = true;
    await assert.rejects(act);
    this.spoils = false;
    assert.ok(this.spoiled > earlier);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  #take(client: Socket, { hostname, port }: URL): void {
    const server = connect({ host: hostname, port: Number(port) });
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => [client, server].forEach((other) => other.destroy()));
    }
    client.on("data", (chunk) => server.write(this.#spoil(chunk)));
    server.on("data", (chunk) => client.write(chunk));
  }

  #spoil(chunk: Buffer): Buffer {
    const at = this.spoils ? chunk.indexOf(BEGIN) : -1;
    if (at === -1) return chunk;
    this.spoiled += 1;
    chunk.write(NO_BEGIN, at);
    return chunk;
  }
}

const skip = missing("postgres");

describe("on PostgreSQL, a transaction that the server does not open", { skip }, () => {
  let database: ScratchDatabase;
  let spoiler: Spoiler;
  let holdfast: Holdfast;
  before(async () => {
    database = await scratchDatabase("postgres");
    spoiler = await Spoiler.before(database.url);
    holdfast = await openHoldfast(spoiler.url);
  });
  after(async () => {
    await holdfast?.close();
    await spoiler?.[Symbol.asyncDispose]();
    await database?.drop();
    await assertNothingRuns();
  });

  test("moves no job, and the next one does", async () => {
    const task = defineTask({ name: "later", run: () => null });
    const job = await holdfast.enqueue(task, null, { delay: 1 });
    await until(
      "it is due",
      async () => ((await holdfast.store.jobs.upcoming()).dueInMs ?? 1) <= 0,
    );
    await spoiler.during(() => holdfast.store.jobs.promoteDue({ limit: 9 }));
    assert.equal((await job.get()).status, "scheduled");
    assert.equal(await holdfast.store.jobs.promoteDue({ limit: 9 }), 1);
    assert.equal((await job.get()).status, "pending");
  });

  test("changes no item, and says so", async () => {
    const rules = {
      initial: "open",
      states: { open: {}, done: { final: true } },
      moves: { finish: { from: "open", to: "done" } },
    } as const;
    const order = defineWorkflow({ ...rules, name: "order" });
    const part = defineWorkflow({ ...rules, name: "part", parent: order });
    const above = await holdfast.workflows.start(order, { data: {}, actor: "ada" });
    const item = await holdfast.workflows.start(part, { data: {}, parent: above, actor: "ada" });
    const { revision } = await holdfast.workflows.item(order, above.id);
    await spoiler.during(() => item.move("finish", { actor: "ada" }));
    assert.equal((await holdfast.workflows.item(part, item.id)).status, "open");
    assert.equal((await holdfast.workflows.item(order, above.id)).revision, revision);
    await item.move("finish", { actor: "ada" });
    assert.equal((await holdfast.workflows.item(part, item.id)).status, "done");
  });
});
