/** Where locks are kept: as an option says, else an environment variable, else in Redis if there is one. */
import { InvalidArgument } from "../core/errors.ts";
import { lockModes, type LockMode } from "../core/lock.ts";
import type { Runtime } from "../core/runtime.ts";
import type { LockPlace } from "./lock.ts";
import { SqlLock, type LockRows } from "./sql-lock.ts";

export interface LockChoice {
  readonly locks?: LockMode | undefined;
  /** Default: HOLDFAST_REDIS_URL. */
  readonly redis?: string | undefined;
}

export interface LockGround {
  readonly rows: LockRows & { readonly database: string };
  readonly runtime: Runtime;
}

/** With "off", locks that an application asks for itself are rows. */
export async function openLocks(
  choice: LockChoice,
  { rows, runtime }: LockGround,
): Promise<{ mode: LockMode; place: LockPlace }> {
  const url = choice.redis ?? process.env["HOLDFAST_REDIS_URL"] ?? "";
  const mode = modeOf(choice.locks, url);
  if (mode !== "redis") return { mode, place: new SqlLock(rows) };
  if (!/^rediss?:\/\//.test(url)) throw badUrl(url);
  const { RedisLock } = await import("./redis-lock.ts");
  return { mode, place: await RedisLock.open({ url, database: rows.database, runtime }) };
}

function modeOf(option: LockMode | undefined, redis: string): LockMode {
  const field = option === undefined ? "HOLDFAST_LOCKS" : "locks";
  const said = option ?? process.env["HOLDFAST_LOCKS"] ?? "";
  if (said === "") return redis === "" ? "sql" : "redis";
  const mode = lockModes.find((each) => each === said);
  if (mode !== undefined) return mode;
  const problem = `must be one of ${lockModes.join(", ")}, not ${JSON.stringify(said).slice(0, 20)}.`;
  throw new InvalidArgument({ field, problem });
}

/** Without repeating it: it may hold a password. */
function badUrl(url: string): InvalidArgument {
  const problem =
    url === ""
      ? 'with locks: "redis", give the URL of a Redis, or set HOLDFAST_REDIS_URL.'
      : "a Redis URL reads redis://host:6379 or rediss://user:password@host:6379.";
  return new InvalidArgument({ field: "redis", problem });
}
