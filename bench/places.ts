/** Where a system is measured: a database in which nothing is yet, and which is gone afterwards. */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { Client } from "pg";
import { scratchDatabase, urlOf } from "../test/support/servers.ts";

export const ENGINES = ["sqlite", "postgres", "mariadb", "redis"] as const;
export type EngineName = (typeof ENGINES)[number];

const KEYS_AT_ONCE = 1_000;

export interface Place extends AsyncDisposable {
  /** As Holdfast writes it, where Holdfast knows the database. */
  readonly url: string;
  /** What the names of all keys begin with, on Redis. */
  readonly prefix: string;
}

export async function scratchPlace(engine: EngineName): Promise<Place> {
  switch (engine) {
    case "sqlite":
      return scratchFile();
    case "postgres":
    case "mariadb": {
      const database = await scratchDatabase(engine === "postgres" ? "postgres" : "mysql");
      return { url: database.url, prefix: "", [Symbol.asyncDispose]: () => database.drop() };
    }
    case "redis":
      return scratchKeys(urlOf("redis"));
  }
}

/** The file of an SQLite database. */
export function fileOf({ url }: Pick<Place, "url">): string {
  return url.slice("sqlite:".length);
}

function scratchFile(): Place {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  const remove = async (): Promise<void> => rmSync(folder, { recursive: true, force: true });
  return { url: `sqlite:${join(folder, "jobs.db")}`, prefix: "", [Symbol.asyncDispose]: remove };
}

function scratchKeys(url: string): Place {
  const prefix = `holdfast_bench_${randomBytes(6).toString("hex")}`;
  return { url, prefix, [Symbol.asyncDispose]: () => removeKeys(url, prefix) };
}

/** The server may have other data: only keys with the prefix are deleted. */
async function removeKeys(url: string, prefix: string): Promise<void> {
  const redis = new Redis(url);
  try {
    const batches = redis.scanStream({ match: `${prefix}:*`, count: KEYS_AT_ONCE });
    for await (const keys of batches as AsyncIterable<string[]>) {
      if (keys.length > 0) await redis.unlink(...keys);
    }
  } finally {
    redis.disconnect();
  }
}

/** Tells the planner of a server what has come into the tables. */
export async function freshStatistics(engine: EngineName, { url }: Place): Promise<void> {
  if (engine !== "postgres") return;
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query("analyze");
  await client.end();
}
