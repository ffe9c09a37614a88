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

/**
 * Newest first, with those that workers run now: they are recorded when a minute is folded. A version made of the start time of
 * a process names no build.
 */
export async function buildsSeen(engine: Engine): Promise<BuildSeen[]> {
  const recorded = await engine.all<BuildSeen>(sql`
    select version as build, first_at as "firstAt", last_at as "lastAt"
      from holdfast.build
     order by first_at desc
     limit ${BUILDS_MAX}`);
  const running = await engine.all<BuildSeen>(sql`
    select version as build, min(started_at) as "firstAt", max(heartbeat_at) as "lastAt"
      from holdfast.worker
     where status <> 'stopped'
     group by version
     order by min(started_at) desc
     limit ${BUILDS_MAX}`);
  const all = new Map(recorded.map((one) => [one.build, one]));
  for (const one of running) {
    const { firstAt, lastAt } = all.get(one.build) ?? one;
    all.set(one.build, {
      build: one.build,
      firstAt: Math.min(firstAt, one.firstAt),
      lastAt: Math.max(lastAt, one.lastAt),
    });
  }
  return [...all.values()]
    .filter(({ build }) => isKnownVersion(build))
    .toSorted((a, b) => b.firstAt - a.firstAt || (a.build < b.build ? -1 : 1));
}
