/** The protocol's own clients, of both generations, over both transports; and a job that failed, one that is stuck. */
import assert from "node:assert/strict";
import { Client as NewClient, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport as NewStdio } from "@modelcontextprotocol/client/stdio";
import { Client as OldClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as OldStdio } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as OldHttp } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { errorFold } from "../../src/error-kinds/fold.ts";
import type { Holdfast } from "../../src/app/holdfast.ts";
import { sql } from "../../src/database/sql.ts";
import { defineTask } from "../../src/index.ts";
import { launcher } from "../support/package.ts";

/** Of a process that has no settings of Holdfast. */
export function environment(): Record<string, string> {
  const own = Object.entries(process.env).flatMap(([name, value]) =>
    value === undefined || name.startsWith("HOLDFAST_") ? [] : [[name, value] as const],
  );
  return Object.fromEntries(own);
}

/** With a handshake, or with a version in every request. */
export const generations = ["2025-11-25", "2026-07-28"] as const;
export type Generation = (typeof generations)[number];

export interface Called {
  readonly isError: boolean;
  readonly text: string;
  readonly json: any;
}

/** A connected client. */
export class Agent implements AsyncDisposable {
  readonly #client: OldClient | NewClient;

  private constructor(client: OldClient | NewClient) {
    this.#client = client;
  }

  static async stdio(generation: Generation, args: readonly string[]): Promise<Agent> {
    const how = {
      command: process.execPath,
      args: [launcher, "mcp", ...args],
      env: environment(),
      stderr: "ignore" as const,
    };
    return generation === "2026-07-28"
      ? Agent.#new(new NewStdio(how))
      : Agent.#old(new OldStdio(how));
  }

  static async http(generation: Generation, url: string, token?: string): Promise<Agent> {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const options = { requestInit: { headers } };
    const at = new URL(`${url}/mcp`);
    return generation === "2026-07-28"
      ? Agent.#new(new StreamableHTTPClientTransport(at, options))
      : Agent.#old(new OldHttp(at, options));
  }

  static async #old(transport: Parameters<OldClient["connect"]>[0]): Promise<Agent> {
    const client = new OldClient({ name: "inspector", version: "1" });
    await client.connect(transport);
    assert.equal(client.getServerVersion()?.name, "holdfast");
    return new Agent(client);
  }

  static async #new(transport: Parameters<NewClient["connect"]>[0]): Promise<Agent> {
    const info = { name: "inspector", version: "1" };
    const client = new NewClient(info, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
    await client.connect(transport);
    assert.equal(client.getServerVersion()?.name, "holdfast");
    return new Agent(client);
  }

  async tools(): Promise<
    readonly { readonly name: string; readonly annotations: { readonly readOnlyHint: boolean } }[]
  > {
    return (await this.#client.listTools()).tools as never;
  }

  async call(name: string, args: Readonly<Record<string, unknown>> = {}): Promise<Called> {
    const { content, structuredContent, isError } = (await this.#client.callTool({
      name,
      arguments: args,
    })) as any;
    return { isError, text: content[0].text, json: structuredContent };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.close();
  }
}

const charge = defineTask({
  name: "card.charge",
  retry: { maxAttempts: 1 },
  run: ({ card }: { card: string }) => {
    throw new TypeError(`card ${card} was declined`);
  },
});

export interface Troubles {
  readonly failed: string;
  readonly stuck: string;
}

/** One job that failed, whose kind of error is counted, and one that no worker claims. */
export async function troubles(holdfast: Holdfast): Promise<Troubles> {
  const worker = await holdfast.startWorker({ tasks: [charge], name: "till" });
  const failed = await holdfast.enqueue(charge, { card: "4419" });
  await assert.rejects(failed.result({ timeout: "20s" }));
  await worker.stop();
  const stuck = await holdfast.enqueue("mail.send", { to: "ada" }, { queue: "mail" });
  await holdfast.queues.pause("mail", { actor: "ada", reason: "provider is down" });
  const { engine } = holdfast.store.db;
  const minute = Math.floor((await holdfast.store.db.clock()) / 60_000) * 60_000;
  // Each minute is counted once; this one, for each of the agents.
  await engine.run(sql`delete from holdfast.error_minute where minute >= ${minute - 60_000}`);
  await engine.transaction(await errorFold.read(engine, minute - 60_000, minute + 60_000));
  return { failed: failed.id, stuck: stuck.id };
}

/** What a viewer finds out, and what it is refused. */
export async function investigate(agent: Agent, { failed, stuck }: Troubles): Promise<void> {
  const tools = await agent.tools();
  assert.ok(tools.length > 5, "there are tools");
  assert.ok(
    tools.every(({ annotations }) => annotations.readOnlyHint),
    "a viewer is shown no tool that changes anything",
  );
  assert.equal((await agent.call("getStatus")).isError, false);
  const why = await agent.call("explainJob", { id: stuck });
  assert.match(why.text, /paused/, "it explains the stuck job");
  const { json: errors } = await agent.call("listErrors", {
    fields: ["groups.id", "groups.message"],
  });
  assert.deepEqual(errors["groups.message"], ["card … was declined"]);
  const [kind] = errors["groups.id"];
  assert.equal((await agent.call("getError", { id: kind })).json.group.sample.job, failed);
  const refused = await agent.call("retryJob", { id: failed });
  assert.equal(refused.isError, true);
  assert.match(refused.text, /^FORBIDDEN: 'agent:.*role viewer, which is read-only.*operator/);
}

/** What an operator may do, and what the audit log says of it. */
export async function mend(
  agent: Agent,
  holdfast: Holdfast,
  id: string,
): Promise<string | undefined> {
  const tools = await agent.tools();
  assert.ok(tools.some(({ name }) => name === "retryJob"));
  const retried = await agent.call("retryJob", { id, reason: "the card was unblocked" });
  assert.equal(retried.isError, false, retried.text);
  assert.equal((await holdfast.jobs.get(id))?.status, "pending");
  const [line] = await holdfast.audit.list({ subject: `job ${id}` });
  assert.deepEqual([line?.action, line?.reason], ["job.retry", "the card was unblocked"]);
  return line?.actor;
}
