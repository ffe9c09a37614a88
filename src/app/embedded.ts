/** The API in a process without a server of ours: in an application, or for an agent that started the process. */
import { guardedLogger } from "../core/log.ts";
import { App, type Pages } from "../http-kernel/app.ts";
import type { Admission } from "../http-kernel/auth.ts";
import { Once } from "../http-kernel/idempotency.ts";
import { DEFAULT_LIMITS, type Limits } from "../http-kernel/limits.ts";
import type { Route } from "../http-kernel/route.ts";
import type { Reply, Requested } from "../http-kernel/server.ts";
import { Streams } from "../http-kernel/sse.ts";
import { Api, type ApiParts } from "./api.ts";

interface EmbeddedParts extends Pick<ApiParts, "holdfast" | "tasks" | "workflows"> {
  readonly auth: Admission;
  /** Without a slash at its end. */
  readonly basePath?: string;
  readonly pages?: Pages;
  readonly limits?: Partial<Limits>;
}

interface Embedded {
  readonly routes: readonly Route[];
  answer(request: Requested): Promise<Reply>;
  /** Ends open streams and background work. */
  close(): Promise<void>;
}

/** There are no sessions of ours, so no cookie. */
const port = (): null => null;

export function embed({ auth, basePath = "", pages, ...parts }: EmbeddedParts): Embedded {
  const { holdfast } = parts;
  const { store, runtime, redaction } = holdfast;
  const logger = guardedLogger(holdfast.logger);
  const limits: Limits = { ...DEFAULT_LIMITS, ...parts.limits };
  const streams = new Streams(runtime, limits);
  const ask = (request: Requested): Promise<Reply> =>
    app.answer({ ...request, target: `${basePath}${request.target}` });
  const api = new Api({ ...parts, logger }, { auth: null, port, ask, basePath });
  const app = new App({
    routes: api.routes,
    auth,
    once: new Once({ requests: store.requests, runtime, logger, limits }),
    streams,
    limits,
    runtime,
    logger,
    hosts: null,
    ...(pages === undefined ? {} : { pages }),
    basePath,
    port,
    redaction,
  });
  return {
    routes: api.routes,
    answer: (request) => app.answer(request),
    close: async () => {
      streams.closeAll();
      await api.close();
    },
  };
}
