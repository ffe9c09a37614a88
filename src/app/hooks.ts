/** What features do when a job moves, in the order of their locks: the event of its end, items, flows, jobs that wait. */
import { bulkHooks } from "../bulk/store.ts";
import { errorFold } from "../error-kinds/store.ts";
import { flowHooks } from "../flows/hooks.ts";
import type { JobHooks } from "../jobs/hooks.ts";
import { lockFold } from "../locks/spans.ts";
import { buildFold } from "../registry/marks.ts";
import { reportHooks } from "../reports/store.ts";
import type { MinuteFold } from "../stats/minute-totals.ts";
import { eventHooks, wakeHooks } from "../steps/events.ts";
import { itemHooks } from "../workflows/due.ts";

export const jobHooks: readonly JobHooks[] = [
  eventHooks,
  itemHooks,
  flowHooks,
  wakeHooks,
  reportHooks,
  bulkHooks,
];

/** What features count when a minute is over. */
export const minuteFolds: readonly MinuteFold[] = [buildFold, errorFold, lockFold];
