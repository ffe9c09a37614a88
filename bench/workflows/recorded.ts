/**
 * The statements of one change, as the store sends them: asked from the store's own code, so that they cannot differ. What
 * is different from change to change stands in them as a mark.
 */
import { jobHooks, type Store } from "../../src/app/store.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import { Workflows } from "../../src/workflows/workflows.ts";
import type { Engine, Row, Transaction } from "../../src/database/engine.ts";
import { changeIn } from "../../src/workflows/changes.ts";
import {
  Compiler,
  inTurn,
  type Parameter,
  type Sql,
  type SqlValue,
} from "../../src/database/sql.ts";
import type { ItemsStore } from "../../src/workflows/store.ts";
import type { StoredItem } from "../../src/workflows/item-record.ts";
import type { SqlEngine } from "../fill.ts";
import { SPELLINGS } from "../steps/statement.ts";
import { ACTOR, order, part } from "./order.ts";

export type Recorded =
  | { readonly kind: "statement"; readonly text: string; readonly values: readonly Parameter[] }
  | { readonly kind: "insert"; readonly table: string; readonly row: Row };

/** What one change sends between `begin` and `commit`, in turn. */
export interface Recording {
  readonly statements: readonly Recorded[];
  /** The mark of the line's hash: it was computed. */
  readonly hash: string;
}

/** What the items of a bare loop are like. */
export interface Standing {
  readonly parent: ItemStanding;
  readonly child: ItemStanding;
  readonly status: "here" | "there";
}

export interface ItemStanding {
  readonly id: string;
  readonly revision: number;
  readonly auditSeq: number;
  readonly auditHash: string;
  readonly updatedAt: number;
  readonly enteredAt: number;
}

/** What the next change brings. */
export interface News {
  readonly change: string;
  readonly hash: string;
  readonly at: number;
  readonly number: number;
}

export type Change = "update" | "go" | "return";

const MARK = {
  parent: {
    id: "00000000-0000-7000-8000-00000000000a",
    revision: 7_000_001,
    auditSeq: 7_200_001,
    auditHash: "a".repeat(64),
    updatedAt: 7_400_001,
    enteredAt: 7_400_001,
  },
  child: {
    id: "00000000-0000-7000-8000-00000000000b",
    revision: 8_000_001,
    auditSeq: 8_200_001,
    auditHash: "c".repeat(64),
    updatedAt: 8_400_001,
    enteredAt: 8_400_001,
  },
  change: "00000000-0000-7000-8000-00000000000d",
  at: 9_000_000_000_000,
  number: 4_242_424,
} as const;

export async function record(engine: Engine, name: SqlEngine, change: Change): Promise<Recording> {
  const recorded: Recorded[] = [];
  let hash = "";
  const tx = recorder(new Compiler(SPELLINGS[name]), recorded, change);
  const items: Pick<ItemsStore, "declare" | "find" | "change"> = {
    declare: async () => {},
    find: async () => itemRow("child", change),
    change: async (wanted) => {
      const { items: rows } = await changeIn({ engine, hooks: jobHooks }, tx, wanted);
      hash = rows[0]?.auditHash ?? "";
      return rows;
    },
  };
  const workflows = new Workflows({
    store: { items } as Store,
    runtime: systemRuntime,
    newId: () => MARK.change,
    locks: null,
  });
  const item = await workflows.item(part, MARK.child.id);
  const patch = { number: MARK.number };
  if (change === "update") await item.update(patch, { actor: ACTOR });
  else await item.move(change, { patch, actor: ACTOR });
  return { statements: recorded, hash };
}

/** A transaction that writes down what it is asked, and answers as if the items were there. */
function recorder(compiler: Compiler, recorded: Recorded[], change: Change): Transaction {
  const rows: unknown[][] = [
    [{ ...itemRow("parent", change), now: MARK.at }],
    [{ ...itemRow("child", change), now: MARK.at }],
  ];
  const note = (query: Sql): void => {
    recorded.push({ kind: "statement", ...compiler.compile(query) });
  };
  const all = async <T>(query: Sql): Promise<T[]> => {
    note(query);
    return (rows.shift() ?? never()) as T[];
  };
  const run = async (query: Sql): Promise<number> => {
    note(query);
    return 1;
  };
  return {
    all,
    run,
    allOf: <T>(queries: readonly Sql[]) => inTurn(queries, (query) => all<T>(query)),
    runAll: (queries) => inTurn(queries, run),
    async insert(table, news) {
      for (const row of news) recorded.push({ kind: "insert", table, row });
    },
    script: never,
    take: never,
  };
}

function never(): never {
  throw new Error("a change of an item does not do that");
}

function itemRow(which: "parent" | "child", change: Change): StoredItem {
  const isParent = which === "parent";
  return {
    ...MARK[which],
    workflow: isParent ? order.name : part.name,
    type: isParent ? order.name : part.name,
    tenant: "default",
    identifier: MARK[which].id,
    parent: isParent ? null : MARK.parent.id,
    root: MARK.parent.id,
    depth: isParent ? 0 : 1,
    status: isParent ? "open" : change === "return" ? "there" : "here",
    data: "{}",
    createdAt: 1,
  };
}

// ── From marks to what is meant ──────────────────────────────────────────────────────────────────

/** Puts what is meant in the place of the marks. */
export class Meaning {
  readonly #numbers: ReadonlyMap<number, number>;
  readonly #texts: readonly (readonly [string, string])[];

  constructor({ hash }: Recording, { parent, child }: Standing, news: News) {
    this.#numbers = new Map([
      [MARK.parent.revision, parent.revision],
      [MARK.parent.revision + 1, parent.revision + 1],
      [MARK.parent.auditSeq, parent.auditSeq],
      [MARK.child.revision, child.revision],
      [MARK.child.revision + 1, child.revision + 1],
      [MARK.child.auditSeq + 1, child.auditSeq + 1],
      [MARK.child.enteredAt, child.enteredAt],
      [MARK.at, news.at],
    ]);
    this.#texts = [
      [MARK.parent.id, parent.id],
      [MARK.child.id, child.id],
      [MARK.change, news.change],
      [MARK.parent.auditHash, parent.auditHash],
      [MARK.child.auditHash, child.auditHash],
      [hash, news.hash],
      [String(MARK.number), String(news.number)],
    ];
  }

  value(value: SqlValue): SqlValue {
    if (typeof value === "number") return this.#numbers.get(value) ?? value;
    return value === null ? null : this.#text(value);
  }

  values(values: readonly Parameter[]): Parameter[] {
    return values.map((value) =>
      Array.isArray(value)
        ? value.map((text: string) => this.#text(text))
        : this.value(value as SqlValue),
    );
  }

  row(row: Row): Row {
    return Object.fromEntries(
      Object.entries(row).map(([column, value]) => [column, this.value(value)]),
    );
  }

  #text(text: string): string {
    return this.#texts.reduce((told, [mark, meant]) => told.replaceAll(mark, meant), text);
  }
}

/** How the items are after a change. */
export function after({ parent, child, status }: Standing, change: Change, news: News): Standing {
  return {
    parent: { ...parent, revision: parent.revision + 1, updatedAt: news.at },
    child: {
      ...child,
      revision: child.revision + 1,
      auditSeq: child.auditSeq + 1,
      auditHash: news.hash,
      updatedAt: news.at,
      enteredAt: change === "update" ? child.enteredAt : news.at,
    },
    status: change === "update" ? status : change === "go" ? "there" : "here",
  };
}
