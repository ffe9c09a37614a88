/** The page of all routes, from the OpenAPI document. */
import { type Described, type Document, readDocument, type Schema, typeOf } from "./api-types.ts";

const HEAD = `<!-- Written by \`node scripts/reference.ts\` from the OpenAPI document. Do not edit it, nor merge it by hand: write it again. -->

# HTTP reference

Every route, with its role, parameters, result and problems, and every type that it names. [HTTP](http.md) says how to sign in,
how to repeat a request safely, and how streams work. A server sends the same as a document for machines:
\`/api/v1/openapi.json\`.`;

const ROLES: Readonly<Record<string, string>> = {
  viewer: "For viewers and operators.",
  operator: "For operators.",
};

const JSON_TYPE = "application/json";

export async function httpReference(): Promise<string> {
  const page = new Page(await readDocument());
  return `${[HEAD, ...page.sections()].join("\n\n")}\n`;
}

interface Route {
  readonly method: string;
  readonly path: string;
  readonly described: Described;
  readonly problems: readonly string[];
}

class Page {
  readonly #document: Document;
  readonly #routes: readonly Route[];
  /** Problems that every route may answer, and those that every POST may. */
  readonly #always: readonly string[];
  readonly #onPost: readonly string[];

  constructor(document: Document) {
    this.#document = document;
    this.#routes = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, described]) => ({
        method: method.toUpperCase(),
        path,
        described,
        problems: problemsOf(described),
      })),
    );
    const guarded = this.#routes.filter(({ described }) => described["x-role"] !== undefined);
    this.#always = sharedBy(guarded);
    this.#onPost = sharedBy(guarded.filter(({ method }) => method === "POST"));
  }

  sections(): string[] {
    const { tags, components } = this.#document;
    const byTag = Map.groupBy(this.#routes, ({ described }) => described.tags[0] ?? "");
    const nameless = [...byTag.keys()].filter((tag) => tags.every(({ name }) => name !== tag));
    if (nameless.length > 0)
      throw new Error(`openapi.ts does not describe the tags ${nameless.join(", ")}`);
    const more = this.#onPost.filter((status) => !this.#always.includes(status));
    const types = Object.entries(components.schemas).filter(([name]) => !this.#isOfOneRoute(name));
    return [
      `Every route may answer with the problems ${this.#always.join(", ")}, and every \`POST\` also with ${more.join(", ")}
([what they mean](http.md#problems)); a route names those that it adds. A \`POST\` takes the header \`Idempotency-Key\`.`,
      ...tags.flatMap(({ name, description }) => [
        `## ${name}`,
        description,
        ...(byTag.get(name) ?? []).map((one) => this.#route(one)),
      ]),
      "## Types",
      ...types.map(([name, schema]) => this.#type(name, schema)),
    ];
  }

  #route({ method, path, described, problems }: Route): string {
    const { summary, parameters, requestBody } = described;
    const role = ROLES[described["x-role"] ?? ""] ?? "Needs no token.";
    const body = requestBody?.content[JSON_TYPE]?.schema;
    const given = [
      ...parameters
        .filter((one) => one.in !== "header")
        .map(({ name, required, description, schema }) => {
          const about = description ?? schema.description;
          return this.#field(
            name,
            required,
            about === undefined ? schema : { ...schema, description: about },
          );
        }),
      ...(body === undefined ? [] : this.#bodyOf(body)),
    ];
    const known = method === "POST" ? this.#onPost : this.#always;
    const added = problems.filter((status) => !known.includes(status));
    return [
      `### \`${method} ${path}\``,
      `${summary}. ${role} Operation \`${described.operationId}\`.`,
      ...(given.length === 0 ? [] : [given.join("\n")]),
      ...this.#answers(described),
      ...(added.length === 0 ? [] : [`Problems: ${added.join(", ")}.`]),
    ].join("\n\n");
  }

  /** A body that is a union has no fields of its own. */
  #bodyOf(schema: Schema): string[] {
    const own = this.#resolved(schema);
    if (own.properties === undefined) return [`- the body ${this.#typeText(schema)}`];
    return this.#fields(own);
  }

  #answers({ responses }: Described): string[] {
    return Object.entries(responses).flatMap(([status, { description, content = {} }]) => {
      if (!status.startsWith("2")) return [];
      const { [JSON_TYPE]: json, ...others } = content;
      const also = Object.keys(others).map((type) => ` As \`${type}\`.`);
      const about = `: ${description}${also.join("")}`;
      if (json === undefined) return [`**${status}**${about}`];
      const isOwn = this.#isOfOneRoute(nameOf(json.schema));
      const schema = isOwn ? this.#resolved(json.schema) : json.schema;
      if (schema.properties === undefined) {
        return [`**${status}** ${this.#typeText(schema)}${about}`];
      }
      return [`**${status}**${about}`, this.#fields(schema).join("\n")];
    });
  }

  #type(name: string, schema: Schema): string {
    const isListed = schema.properties !== undefined;
    const body = isListed ? this.#fields(schema).join("\n") : `Type: ${this.#typeText(schema)}`;
    const about = schema.description === undefined ? [] : [schema.description];
    return [`### ${name}`, ...about, body].join("\n\n");
  }

  #fields({ properties = {}, required = [] }: Schema, indent = ""): string[] {
    return Object.entries(properties).map(([name, schema]) =>
      this.#field(name, required.includes(name), schema, indent),
    );
  }

  /** The fields of an object without a name are indented below it. */
  #field(name: string, required: boolean, schema: Schema, indent = ""): string {
    const { description = "" } = schema;
    const line = `${indent}- \`${name}${required ? "" : "?"}\` ${this.#typeText(schema)}${description === "" ? "" : `: ${description}`}`;
    const inner = inlineOf(schema);
    return [line, ...(inner === null ? [] : this.#fields(inner, `${indent}  `))].join("\n");
  }

  #typeText(schema: Schema): string {
    const inner = inlineOf(schema);
    const shown = inner === null ? schema : replaced(schema, inner);
    const text = typeOf(shown)
      .replaceAll(/\/\*\*.*?\*\/\s*/g, "")
      .replaceAll(/\s+/g, " ")
      .replaceAll(/\breadonly /g, "")
      .replaceAll(/Readonly<(Record<[^<>]*>)>/g, "$1")
      .replaceAll("; }", " }");
    const named = linkOf(schema);
    const code = `\`${text}\``;
    return named === null ? code : `[${code}](#${named.toLowerCase()})`;
  }

  /** Named after the operation, because it has no name of its own. */
  #isOfOneRoute(name: string): boolean {
    return this.#routes.some(({ described: { operationId } }) => {
      const owner = `${operationId.slice(0, 1).toUpperCase()}${operationId.slice(1)}`;
      return name === `${owner}Request` || name === `${owner}Response`;
    });
  }

  #resolved(schema: Schema): Schema {
    return this.#document.components.schemas[nameOf(schema)] ?? schema;
  }
}

function problemsOf({ responses }: Described): string[] {
  const problem = "application/problem+json";
  return Object.entries(responses).flatMap(([status, { content = {} }]) =>
    problem in content ? [status] : [],
  );
}

function sharedBy(routes: readonly Route[]): string[] {
  const [first, ...others] = routes;
  if (first === undefined) return [];
  return first.problems.filter((status) =>
    others.every(({ problems }) => problems.includes(status)),
  );
}

const nameOf = ({ $ref = "" }: Schema): string => $ref.split("/").at(-1) ?? "";

/** What is in a list, or may be null. */
function partsOf({ items, anyOf = [] }: Schema): readonly Schema[] {
  return items === undefined ? anyOf.filter(({ type }) => type !== "null") : [items];
}

/** The one object without a name in it. */
function inlineOf(schema: Schema): Schema | null {
  if (schema.properties !== undefined) return schema;
  const [only, ...others] = partsOf(schema);
  return only === undefined || others.length > 0 ? null : inlineOf(only);
}

/** The same with the word `object` instead of that object. */
function replaced(schema: Schema, inner: Schema): Schema {
  if (schema === inner) return { $ref: "object" };
  const { items, anyOf } = schema;
  return {
    ...schema,
    ...(items === undefined ? {} : { items: replaced(items, inner) }),
    ...(anyOf === undefined ? {} : { anyOf: anyOf.map((one) => replaced(one, inner)) }),
  };
}

/** The one type that it names. */
function linkOf(schema: Schema): string | null {
  if (schema.$ref !== undefined) return nameOf(schema);
  const [only, ...others] = partsOf(schema);
  return only === undefined || others.length > 0 ? null : linkOf(only);
}
