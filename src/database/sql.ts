/**
 * SQL as it reads, values apart from text.
 *
 *     sql`select id from holdfast.ready where queue = ${queue} ${onlyTasks(tasks)}`
 *
 * A value becomes a placeholder; another piece of SQL becomes part of the text, with its values in place. Tables are
 * written `holdfast.<name>` everywhere; an engine spells that its own way (a schema, or a prefix). A text is put
 * together once for every shape it is called with, so an engine can prepare it once.
 */

/** What stands in a row. */
export type SqlValue = string | number | null;

/** What a placeholder stands for; an array only where the engine's own pieces use one. */
export type Parameter = SqlValue | readonly string[];

export class Sql {
  readonly strings: readonly string[];
  readonly parts: readonly (Parameter | Sql)[];

  constructor(strings: readonly string[], parts: readonly (Parameter | Sql)[]) {
    this.strings = strings;
    this.parts = parts;
  }
}

export function sql(strings: TemplateStringsArray, ...parts: (Parameter | Sql)[]): Sql {
  return new Sql(strings, parts);
}

/** Names of columns, as a piece. */
export function columnList(names: readonly string[]): Sql {
  return new Sql([names.join(", ")], []);
}

/** Nothing at all, where a piece is optional. */
export const nothing = new Sql([""], []);

/** One after the other, for those who take one at a time. */
export async function inTurn<A>(
  queries: readonly Sql[],
  ask: (query: Sql) => Promise<A>,
): Promise<A[]> {
  const answers: A[] = [];
  for (const query of queries) answers.push(await ask(query));
  return answers;
}

/** How one engine spells what differs. */
export interface Dialect {
  readonly prefix: string;
  placeholder(position: number): string;
}

export interface Statement {
  readonly text: string;
  readonly values: Parameter[];
}

/** Turns pieces into one text and its values. */
export class Compiler {
  readonly #dialect: Dialect;
  /** Texts of pieces without pieces inside: the common case, looked up by call site. */
  readonly #texts = new WeakMap<readonly string[], string>();

  constructor(dialect: Dialect) {
    this.#dialect = dialect;
  }

  compile(query: Sql): Statement {
    if (query.parts.some((part) => part instanceof Sql)) return this.#assemble(query);
    let text = this.#texts.get(query.strings);
    if (text === undefined) {
      text = this.#assemble(query).text;
      this.#texts.set(query.strings, text);
    }
    return { text, values: query.parts as Parameter[] };
  }

  #assemble(query: Sql): Statement {
    const values: Parameter[] = [];
    const chunks: string[] = [];
    this.#append(query, chunks, values);
    return { text: chunks.join("").replaceAll("holdfast.", this.#dialect.prefix), values };
  }

  #append(query: Sql, chunks: string[], values: Parameter[]): void {
    query.strings.forEach((string, index) => {
      chunks.push(string);
      if (index === query.parts.length) return;
      const part = query.parts[index] as Parameter | Sql;
      if (part instanceof Sql) return this.#append(part, chunks, values);
      values.push(part);
      chunks.push(this.#dialect.placeholder(values.length));
    });
  }
}
