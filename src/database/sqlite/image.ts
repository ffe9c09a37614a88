/**
 * Databases in memory are for tests, which open one each. Making the tables takes ten times as long as copying them, so
 * the first database of a process makes them, and the others start as its copy.
 */
import type { Runtime } from "../../core/runtime.ts";
import type { Image } from "../engine.ts";
import type { Connection } from "./connection.ts";

let migrated: Uint8Array | null = null;

export function imageOf(connection: Connection, runtime: Runtime): Image {
  const { database } = connection;
  let isEmpty = false;
  const copy = (): boolean => {
    isEmpty = database.prepare("select 1 from sqlite_schema limit 1").get() === undefined;
    if (migrated === null || !isEmpty) return false;
    connection.replace(migrated);
    database.prepare("update holdfast_migration set applied_at = ?").run(runtime.now());
    return true;
  };
  return {
    copy: () => connection.read(copy),
    keep: async () => {
      if (isEmpty) migrated ??= await connection.read(() => database.serialize());
    },
  };
}
