/** Everybody in whose hands the zombie wakes up. The order is that of the table. */
import { bullmq } from "./bullmq.ts";
import { graphileWorker } from "./graphile-worker.ts";
import { holdfast } from "./holdfast.ts";
import { pgBoss } from "./pg-boss.ts";
import type { Subject } from "./subject.ts";

export const SUBJECTS: readonly Subject[] = [
  holdfast("postgres"),
  holdfast("mariadb"),
  holdfast("sqlite"),
  pgBoss,
  graphileWorker,
  bullmq,
];
