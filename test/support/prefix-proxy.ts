/** A proxy that serves one server below a prefix, and nothing else: what a page asks for beside the prefix is an error. */
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";

export interface PrefixProxy extends AsyncDisposable {
  /** With the prefix and a slash. */
  readonly url: string;
  /** What was asked for beside the prefix. */
  readonly strays: readonly string[];
}

/** It keeps the prefix, or cuts it off. */
export async function prefixProxy(
  to: string,
  { prefix, keeps }: { readonly prefix: string; readonly keeps: boolean },
): Promise<PrefixProxy> {
  const strays: string[] = [];
  const server = createServer((incoming, outgoing) => {
    const { url = "", method, headers } = incoming;
    if (!url.startsWith(`${prefix}/`)) {
      strays.push(url);
      return void outgoing.writeHead(404).end();
    }
    const path = keeps ? url : url.slice(prefix.length);
    const passed = request(`${to}${path}`, { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      outgoing.flushHeaders();
      answer.pipe(outgoing);
    });
    passed.on("error", () => outgoing.destroy());
    outgoing.on("close", () => passed.destroy());
    incoming.pipe(passed);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${prefix}/`,
    strays,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
