/** The store in this process: neither a transaction nor a function travels to another. */
import assert from "node:assert/strict";
import { SqlStore } from "../../src/store/sql-store.ts";
import type { Bundle } from "./bundle.ts";

export async function near({ store, alone, another }: Bundle): Promise<SqlStore> {
  const plain = store instanceof SqlStore || alone !== null ? store : await another();
  assert.ok(plain instanceof SqlStore);
  return plain;
}
