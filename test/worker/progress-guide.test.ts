/** The guide's handler of server-sent events, run as it is printed. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { within } from "../support/waiting.ts";

const ENDED_MS_MAX = 10_000;

type Handler = (id: string, request: IncomingMessage, response: ServerResponse) => Promise<void>;

async function handlerOf(holdfast: Holdfast): Promise<Handler> {
  const guide = readFileSync(new URL("../../docs/guide/progress.md", import.meta.url), "utf8");
  const code = /```ts\n(import type \{ IncomingMessage[^]*?)```/.exec(guide)?.[1];
  assert.ok(code !== undefined);
  using folder = tempFolder();
  const file = folder.file(".mts");
  writeFileSync(file, `${code}\nconst { holdfast } = globalThis;\nexport { stream };`);
  Object.assign(globalThis, { holdfast });
  return ((await import(file)) as { stream: Handler }).stream;
}

test("the handler sends every entry with its number, resumes, and ends", async () => {
  await using holdfast = await openHoldfast("sqlite::memory:");
  const stream = await handlerOf(holdfast);
  const task = defineTask({
    name: "report",
    run: (_: null, ctx) => {
      ctx.log("first");
      ctx.log("second");
    },
  });
  await holdfast.startWorker({ tasks: [task] });
  const job = await holdfast.enqueue(task, null);
  await job.result({ timeout: "10s" });
  const server = createServer((request, response) => void stream(job.id, request, response));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const read = async (headers: Record<string, string>): Promise<string> => {
    const response = await fetch(`http://127.0.0.1:${port}/`, { headers });
    assert.equal(response.headers.get("content-type"), "text/event-stream");
    return response.text();
  };
  const all = await read({});
  assert.match(all, /^id: \d+\ndata: \{.*first.*\}\n\n[^]*second[^]*event: end\ndata:\n\n$/);
  const first = /^id: (\d+)\n.*first/.exec(all)?.[1] ?? "";
  const rest = await read({ "last-event-id": first });
  assert.ok(!rest.includes("first") && rest.includes("second"), rest);
  server.close();
  server.closeAllConnections();
});

test("a browser that leaves ends the handler, though the job goes on", async () => {
  await using holdfast = await openHoldfast("sqlite::memory:");
  const stream = await handlerOf(holdfast);
  const job = await holdfast.enqueue("nothing.runs", null);
  const left = Promise.withResolvers<"ended">();
  const server = createServer((request, response) => {
    void stream(job.id, request, response).then(() => left.resolve("ended"));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const leaving = new AbortController();
  const response = await fetch(`http://127.0.0.1:${port}/`, { signal: leaving.signal });
  const reader = response.body?.getReader();
  assert.match(Buffer.from((await reader?.read())?.value ?? []).toString(), /pending/);
  leaving.abort();
  assert.equal(await within(ENDED_MS_MAX, left.promise), "ended");
  assert.equal((await job.get()).status, "pending");
  server.close();
  server.closeAllConnections();
});

after(assertNothingRuns);
