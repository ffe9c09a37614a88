/** Everybody who takes part. The order is that of the table. */
import { bullmq } from "./bullmq.ts";
import { graphileWorker } from "./graphile-worker.ts";
import { holdfast, holdfastWithRedis } from "./holdfast.ts";
import { pgBoss } from "./pg-boss.ts";
import { plainjob } from "./plainjob.ts";
import { raw } from "./raw.ts";
import type { System } from "./system.ts";

export const SYSTEMS: readonly System[] = [
  holdfast("sqlite"),
  raw("sqlite"),
  plainjob,
  holdfast("postgres"),
  raw("postgres"),
  graphileWorker(1),
  graphileWorker(2),
  pgBoss,
  holdfast("mariadb"),
  holdfastWithRedis,
  raw("mariadb"),
  bullmq,
];
