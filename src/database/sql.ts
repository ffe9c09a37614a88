/**
 * SQL templates, with values apart from the text.
 *
 *     sql`select id from holdfast.ready where queue = ${queue} ${onlyTasks(tasks)}`
 *
 * A value becomes a placeholder; a nested template becomes part of the text, with its values. Tables are written
 * `holdfast.<name>` everywhere; an engine replaces that by a schema or a prefix. The same template always gives the same
 * text, so an engine can prepare it once.
 */

/** The value of a column. */
export type SqlValue = string | number | null;

/** The value of a placeholder; an array only in SQL of an engine itself. */
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

export function columnList(names: readonly string[]): Sql {
  return new Sql([names.join(", ")], []);
}

/** For an optional part that is absent. */
export const nothing = new Sql([""], []);

/** One query after the other, for connections that accept only one at a time. */
export async function inTurn<A>(
  queries: readonly Sql[],
  ask: (query: Sql) => Promise<A>,
): Promise<A[]> {
  const answers: A[] = [];
  for (const query of queries) answers.push(await ask(query));
  return answers;
}

interface Syntax {
  readonly prefix: string;
  placeholder(position: number): string;
}

export interface Statement {
  readonly text: string;
  readonly values: Parameter[];
}

/** Compiles templates into text and values. */
export class Compiler {
  readonly #syntax: Syntax;
  /** The texts of templates without nested ones, by call site: the common case. */
  readonly #texts = new WeakMap<readonly string[], string>();

  constructor(syntax: Syntax) {
    this.#syntax = syntax;
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
    return { text: chunks.join("").replaceAll("holdfast.", this.#syntax.prefix), values };
  }

  #append(query: Sql, chunks: string[], values: Parameter[]): void {
    query.strings.forEach((string, index) => {
      chunks.push(string);
      if (index === query.parts.length) return;
      const part = query.parts[index] as Parameter | Sql;
      if (part instanceof Sql) return this.#append(part, chunks, values);
      values.push(part);
      chunks.push(this.#syntax.placeholder(values.length));
    });
  }
}
