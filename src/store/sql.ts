/**
 * SQL as it reads, values apart from text.
 *
 *     sql`select id from holdfast.ready where queue = ${queue} ${onlyTasks(tasks)}`
 *
 * A value becomes a placeholder; another piece of SQL becomes part of the text, with its values in place. Tables are
 * written `holdfast.<name>` everywhere; an engine spells that its own way (a schema, or a prefix). A text is put
 * together once for every shape it is called with, so an engine can prepare it once.
 */

export type SqlValue = string | number | null;

export class Sql {
  readonly strings: readonly string[];
  readonly parts: readonly (SqlValue | Sql)[];

  constructor(strings: readonly string[], parts: readonly (SqlValue | Sql)[]) {
    this.strings = strings;
    this.parts = parts;
  }
}

export function sql(strings: TemplateStringsArray, ...parts: (SqlValue | Sql)[]): Sql {
  return new Sql(strings, parts);
}

/** Nothing at all, where a piece is optional. */
export const nothing = new Sql([""], []);

/** How one engine spells what differs. */
export interface Spelling {
  readonly prefix: string;
  placeholder(position: number): string;
}

export interface Statement {
  readonly text: string;
  readonly values: SqlValue[];
}

/** Turns pieces into one text and its values. */
export class Compiler {
  readonly #spelling: Spelling;
  /** Texts of pieces without pieces inside: the common case, looked up by call site. */
  readonly #texts = new WeakMap<readonly string[], string>();

  constructor(spelling: Spelling) {
    this.#spelling = spelling;
  }

  compile(query: Sql): Statement {
    if (query.parts.some((part) => part instanceof Sql)) return this.#assemble(query);
    let text = this.#texts.get(query.strings);
    if (text === undefined) {
      text = this.#assemble(query).text;
      this.#texts.set(query.strings, text);
    }
    return { text, values: query.parts as SqlValue[] };
  }

  #assemble(query: Sql): Statement {
    const values: SqlValue[] = [];
    const chunks: string[] = [];
    this.#append(query, chunks, values);
    return { text: chunks.join("").replaceAll("holdfast.", this.#spelling.prefix), values };
  }

  #append(query: Sql, chunks: string[], values: SqlValue[]): void {
    query.strings.forEach((string, index) => {
      chunks.push(string);
      if (index === query.parts.length) return;
      const part = query.parts[index] as SqlValue | Sql;
      if (part instanceof Sql) return this.#append(part, chunks, values);
      values.push(part);
      chunks.push(this.#spelling.placeholder(values.length));
    });
  }
}
