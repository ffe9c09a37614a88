/** Operations as routes: their shapes become zod schemas, which check requests and describe them. */
import { z } from "zod";
import { auditedBy, route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import type { Operation } from "./operation.ts";
import { type Node, nodesOf, reason, type Shape, status as anyStatus } from "./shape.ts";

/** A status is the same schema in routes that are written by hand: the document defines it once. */
const known = new WeakMap<Node, z.ZodType>([[anyStatus.node, s.status]]);

/** The same shape is the same schema, so a named one is defined once. */
export function zodOf<T>({ node }: Pick<Shape<T, boolean>, "node">): z.ZodType<T> {
  return zodOfNode(node) as z.ZodType<T>;
}

function zodOfNode(node: Node): z.ZodType {
  const made = known.get(node) ?? newZod(node);
  known.set(node, made);
  return made;
}

function newZod(node: Node): z.ZodType {
  switch (node.kind) {
    case "text": {
      const bounded = ranged(z.string(), node);
      return node.pattern === undefined ? bounded : bounded.regex(node.pattern);
    }
    case "integer":
      return ranged(z.int(), node);
    case "number":
      return ranged(z.number(), node);
    case "boolean":
      return z.boolean();
    case "anything":
      return z.unknown();
    case "choice":
      return z.enum(node.values as [string, ...string[]]);
    case "constant":
      return z.literal(node.value);
    case "list":
      return ranged(z.array(zodOfNode(node.of)), node);
    case "map":
      return z.record(zodOfNode(node.key) as z.ZodString, zodOfNode(node.of));
    case "union": {
      const of = node.of.map(zodOfNode);
      return node.by === undefined ? z.union(of) : z.discriminatedUnion(node.by, of as never);
    }
    case "object":
      return objectOf(node);
    case "optional":
      return zodOfNode(node.of).optional();
    case "nullable":
      return zodOfNode(node.of).nullable();
    case "about": {
      const { of, id, text: description, initial } = node;
      const meta = Object.entries({ id, description, default: initial });
      return zodOfNode(of).meta(Object.fromEntries(meta.filter(([, one]) => one !== undefined)));
    }
  }
}

function objectOf({ fields, others }: Node & { readonly kind: "object" }): z.ZodType {
  const shape = shapeOf(fields);
  if (others === undefined) return z.object(shape);
  return others === "refused" ? z.strictObject(shape) : z.looseObject(shape);
}

function shapeOf(nodes: Readonly<Record<string, Node>>): z.ZodRawShape {
  return Object.fromEntries(Object.entries(nodes).map(([name, node]) => [name, zodOfNode(node)]));
}

function ranged<Z extends { min(n: number): Z; max(n: number): Z }>(
  schema: Z,
  { min, max }: { readonly min?: number; readonly max?: number },
): Z {
  const least = min === undefined ? schema : schema.min(min);
  return max === undefined ? least : least.max(max);
}

/** Those that have a route, given what they need of Holdfast. */
export function routesOf<App>(
  app: App,
  operations: Readonly<Record<string, Operation<App>>>,
): Route[] {
  return Object.values(operations).flatMap((operation) => {
    const { http } = operation;
    return http === undefined ? [] : [routeOf(app, { ...operation, http })];
  });
}

type Routed<App> = Operation<App> & Required<Pick<Operation<App>, "http">>;

function routeOf<App>(app: App, operation: Routed<App>): Route {
  const { http, name, tag, summary, access, returns, result, agent } = operation;
  const { method, path, status = 200, other, ...more } = http;
  const { params, rest } = placesOf(operation);
  const schema = zodOf(result);
  return route({
    ...more,
    method,
    path,
    name,
    tag,
    summary,
    access,
    ...(agent === undefined ? {} : { agent }),
    params,
    ...(method === "GET" ? { query: rest } : { body: z.strictObject(rest) }),
    answers: {
      [status]: { description: returns, schema },
      ...(other === undefined ? {} : { [other.status]: { description: other.returns, schema } }),
    },
    run: async (call) => {
      const body = (call.body ?? {}) as { readonly reason?: string };
      const { reason: _reason, ...given } = body;
      const input = { ...call.query, ...given, ...call.params };
      const caller = { by: auditedBy({ ...call, body }), ids: call.ids, headers: call.headers };
      const json = await operation.run(app, input, caller);
      return { status: other?.when(json) === true ? other.status : status, json };
    },
  });
}

/** Where each field of the input travels. */
function placesOf({
  http,
  input,
  isAudited,
}: Routed<never>): Record<"params" | "rest", z.ZodRawShape> {
  const inPath = new Set(Array.from(http.path.matchAll(/\{(\w+)\}/g), ([, name]) => name));
  const all = isAudited === true ? { ...input, reason: reason.optional() } : input;
  const those = (isThere: boolean): z.ZodRawShape =>
    shapeOf(
      Object.fromEntries(
        Object.entries(nodesOf(all)).filter(([name]) => inPath.has(name) === isThere),
      ),
    );
  return { params: those(true), rest: those(false) };
}
