/** The store in this process: neither a transaction nor a function travels to another. */
import assert from "node:assert/strict";
import { EngineDatabase } from "../../src/database/database.ts";
import type { Store } from "../../src/app/store.ts";
import type { Bundle } from "./bundle.ts";

export async function near({ store, alone, another }: Bundle): Promise<Store> {
  const plain = isNear(store) || alone !== null ? store : await another();
  assert.ok(isNear(plain));
  return plain;
}

export function isNear(store: Store): boolean {
  return store.db instanceof EngineDatabase;
}
