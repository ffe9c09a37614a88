/** The dashboard mounted in each framework, as the guide says; its tests and the processes that they start share this. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { Module } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import fastify from "fastify";
import { Hono } from "hono";
import { type DashboardHandler, toNodeListener } from "../../src/app/dashboard.ts";

export const BASE = "/admin/jobs";

type Listener = (incoming: IncomingMessage, outgoing: ServerResponse) => unknown;

export interface Served {
  readonly url: string;
  close(): Promise<void>;
}

async function listening(listener: Listener): Promise<Served> {
  const server = createServer((incoming, outgoing) => void listener(incoming, outgoing));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** An Express application; the published types are not needed for this. */
interface ExpressApp {
  use(path: string | Listener, listener?: Listener): void;
}

/** Both versions that applications use; they come without types. */
type ExpressVersion = "express" | "express4";

async function serveExpress(
  version: ExpressVersion,
  dashboard: DashboardHandler,
  { parses = false } = {},
): Promise<Served> {
  const name: string = version;
  const { default: express } = (await import(name)) as {
    default: (() => ExpressApp) & { json(): Listener };
  };
  const app = express();
  if (parses) app.use(express.json());
  app.use(BASE, toNodeListener(dashboard));
  return listening(app as unknown as Listener);
}

/** How each framework serves the handler, as the guide says. */
export const frameworks: Readonly<
  Record<string, (dashboard: DashboardHandler) => Promise<Served>>
> = {
  async Hono(dashboard) {
    const app = new Hono();
    app.all(BASE, (ctx) => dashboard(ctx.req.raw));
    app.all(`${BASE}/*`, (ctx) => dashboard(ctx.req.raw));
    return listening(getRequestListener(app.fetch));
  },
  "no framework": (dashboard) => listening(toNodeListener(dashboard)),
  Express: (dashboard) => serveExpress("express", dashboard),
  // What many applications do before they mount anything.
  "Express with parsed bodies": (dashboard) => serveExpress("express", dashboard, { parses: true }),
  "Express 4": (dashboard) => serveExpress("express4", dashboard),
  async Fastify(dashboard) {
    const app = fastify();
    const listener = toNodeListener(dashboard);
    void app.register(async (scope) => {
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser("*", (_request, _payload, done) => done(null));
      const serve = (
        request: { raw: IncomingMessage },
        reply: { raw: ServerResponse; hijack(): unknown },
      ): Promise<void> => {
        reply.hijack();
        return listener(request.raw, reply.raw);
      };
      scope.all(BASE, serve);
      scope.all(`${BASE}/*`, serve);
    });
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    return {
      url,
      close: async () => {
        app.server.closeAllConnections();
        await app.close();
      },
    };
  },
  /** A route handler in the shape of app/admin/jobs/[[...path]]/route.ts: Next calls it with a standard Request. */
  async "Next.js"(dashboard) {
    const route = { GET: dashboard, POST: dashboard };
    const serve = async (request: Request): Promise<Response> => {
      const handler = route[request.method as keyof typeof route];
      return handler === undefined ? new Response(null, { status: 405 }) : handler(request);
    };
    return listening(getRequestListener(serve));
  },
  async NestJS(dashboard) {
    const root = class AppModule {
      readonly name = "app";
    };
    Module({})(root);
    const app = await NestFactory.create(root, { logger: false });
    app.use(BASE, toNodeListener(dashboard));
    await app.listen(0, "127.0.0.1");
    return {
      url: await app.getUrl(),
      close: async () => {
        (app.getHttpServer() as ReturnType<typeof createServer>).closeAllConnections();
        await app.close();
      },
    };
  },
};

/** The application's own login: a header stands for its cookie. */
export function principal(request: Request): { name: string; role: "viewer" | "operator" } | null {
  const user = request.headers.get("x-user");
  if (user === null) return null;
  return { name: user, role: user === "ada" ? "operator" : "viewer" };
}
