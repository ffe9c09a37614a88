/** What `holdfast.config.ts` may say. */
import type { Duration } from "../core/duration.ts";
import type { LockMode } from "../core/lock.ts";
import type { LogLevel } from "./service-settings.ts";

/** Everything can be left out. What the environment or the command line says counts more. */
export interface HoldfastConfig {
  /** `sqlite:shop.db`, `postgres://…` or `mysql://…`. Default `sqlite:holdfast.db`. */
  readonly url?: string | undefined;
  /** PostgreSQL: the schema that the tables stand in. */
  readonly schema?: string | undefined;
  /** A Redis for locks, and on MySQL for waking workers. */
  readonly redis?: string | undefined;
  readonly locks?: LockMode | undefined;
  readonly lockTtl?: Duration | undefined;
  readonly lockWait?: Duration | undefined;
  /** The module that exports the tasks, relative to this file. */
  readonly tasks?: string | undefined;
  readonly queues?: readonly string[] | undefined;
  /** Jobs at once, in each process. Default 10. */
  readonly concurrency?: number | undefined;
  readonly name?: string | undefined;
  readonly poll?: Duration | undefined;
  /** How long to wait for running jobs when told to stop. Default 30 s. */
  readonly shutdown?: Duration | undefined;
  readonly lease?: Duration | undefined;
  readonly upkeep?: Duration | undefined;
  readonly grace?: Duration | undefined;
  readonly crashes?: number | undefined;
  readonly slots?: number | undefined;
  readonly standby?: boolean | undefined;
  readonly heartbeat?: Duration | undefined;
  readonly stale?: Duration | undefined;
  readonly hung?: Duration | undefined;
  /** How long finished jobs are kept. */
  readonly keep?:
    | {
        readonly done?: Duration | undefined;
        readonly failed?: Duration | undefined;
        readonly cancelled?: Duration | undefined;
      }
    | undefined;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  /** Better in the environment than in a file that is committed. */
  readonly token?: string | undefined;
  /** How often the monitor looks; 0: never. Default 30 s. */
  readonly monitor?: Duration | undefined;
  readonly canary?: Duration | undefined;
  readonly webhooks?:
    | {
        readonly urls?: readonly string[] | undefined;
        readonly secret?: string | undefined;
        readonly private?: boolean | undefined;
      }
    | undefined;
  readonly logLevel?: LogLevel | undefined;
  readonly processes?: number | undefined;
}

/** Gives back what it is given: it is there for the types. */
export function defineConfig(config: HoldfastConfig): HoldfastConfig {
  return config;
}
