/* oxlint-disable eslint/no-template-curly-in-string -- these are pieces of source texts */
/** The layers under the distributed lock, and how each is taken away. */
import type { Patch } from "../support/plant.ts";

const ITEMS = "workflows/changes.ts";

/** What a server's rows are locked with. */
const rowsNotLocked: Patch = {
  file: ITEMS,
  find: "const inOrder = sql`id ${engine.lockRows()}`;",
  put: "const inOrder = sql`id`;",
};

/** SQLite locks the whole file for as long as a transaction takes: here, items are read before it begins. */
const readBefore: readonly Patch[] = [
  {
    file: ITEMS,
    find: "return orViolation(() => engine.transaction(changing, { idleMs: 2 * CALLBACK_MS }));",
    put: `return orViolation(async () => {
      const all = (query) => engine.all(query);
      const apart = { all, allOf: (queries) => Promise.all(queries.map(all)) };
      const early = await lockItems(engine, apart, change);
      return engine.transaction((tx) => changeIn(context, tx, change, early));
    });`,
  },
  {
    file: ITEMS,
    find: "const seen = await lockItems(engine, tx, change);",
    put: `const early = arguments[3];
      const seen = { ...early, progress: (item) => progressOf(engine, tx, item) };`,
  },
];

/** An item is written whether or not it still is as it was seen. */
const notCompared: readonly Patch[] = [
  {
    file: ITEMS,
    find: "     where id = ${id}\n       and revision = ${revision}`;",
    put: "     where id = ${id}`;",
  },
  {
    file: ITEMS,
    find: "     where id = ${before.id}\n       and revision = ${before.revision}`;",
    put: "     where id = ${before.id}`;",
  },
];

export const plants: Readonly<Record<string, readonly Patch[]>> = {
  "rows are not locked": [rowsNotLocked],
  "rows are not locked, nor compared": [rowsNotLocked, ...notCompared],
  "rows are read before the transaction": readBefore,
  "rows are read before the transaction, and not compared": [...readBefore, ...notCompared],
};
