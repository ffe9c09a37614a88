/** A receiver of webhooks on this machine, which answers as it is told and keeps what it got. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";

export interface Got {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export type Answer = number | ((response: ServerResponse) => void);

export class Hook implements AsyncDisposable {
  readonly got: Got[] = [];
  connections = 0;
  readonly #answers: Answer[];
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks).toString("utf8");
      this.got.push({ path: request.url ?? "", headers: request.headers, body });
      const answer = this.#answers.shift() ?? 200;
      if (typeof answer === "number") response.writeHead(answer).end(`this is ${answer}`);
      else answer(response);
    });
  });

  private constructor(answers: readonly Answer[]) {
    this.#answers = [...answers];
    this.#server.on("connection", () => (this.connections += 1));
  }

  /** Answers in this order, then with 200. */
  static async open(...answers: readonly Answer[]): Promise<Hook> {
    const hook = new Hook(answers);
    hook.#server.listen(0, "127.0.0.1");
    await once(hook.#server, "listening");
    return hook;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/T0/s3cret`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, "close");
  }
}
