/** Which build a worker runs, and when each build was first seen. */
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { isKnownVersion } from "../core/version.ts";

/** Newest first. */
const BUILDS_MAX = 200;

export interface BuildSeen {
  readonly build: string;
  readonly firstAt: number;
  readonly lastAt: number;
}

/** The builds of these workers, by id; one whose row was deleted is missing. */
export async function buildsOf(
  engine: Engine,
  workers: readonly (string | null)[],
): Promise<Map<string, string>> {
  const ids = [...new Set(workers.flatMap((id) => id ?? []))];
  if (ids.length === 0) return new Map();
  const rows = await engine.all<{ id: string; version: string }>(
    sql`select id, version from holdfast.worker where ${engine.among(sql`id`, ids)}`,
  );
  return new Map(rows.map(({ id, version }) => [id, version]));
}

/** Newest first. A version made of the start time of a process names no build. */
export async function buildsSeen(engine: Engine): Promise<BuildSeen[]> {
  const rows = await engine.all<BuildSeen>(sql`
    select version as build, first_at as "firstAt", last_at as "lastAt"
      from holdfast.build
     order by first_at desc, version
     limit ${BUILDS_MAX}`);
  return rows.filter(({ build }) => isKnownVersion(build));
}
