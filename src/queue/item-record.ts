/** An item as guards and callers see it. */
import type { ItemRecord } from "../core/item.ts";
import { decode } from "../core/json.ts";
import type { StoredItem } from "../store/workflows.ts";

export function recordOf(item: StoredItem): ItemRecord {
  const { id, workflow, type, tenant, identifier, parent, root, status } = item;
  const { revision, createdAt, updatedAt, enteredAt } = item;
  const place = { id, workflow, type, tenant, identifier, parent, root, status };
  return { ...place, data: decode(item.data), revision, createdAt, updatedAt, enteredAt };
}

export function recordOrNull(item: StoredItem | null): ItemRecord | null {
  return item === null ? null : recordOf(item);
}
