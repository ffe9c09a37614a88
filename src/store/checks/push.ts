/** Whether processes hear each other at once, on databases that push, or with Redis. */
import type { Check } from "./check.ts";

export const pushDown: Check = {
  name: "push-down",
  severity: "warning",
  problem:
    "Push does not work: workers notice new jobs only when they poll, up to 10 seconds later.",
  remedy:
    "PostgreSQL: connect without a pooler that shares connections (PgBouncer in transaction mode), or accept polling. Redis: see whether it answers at HOLDFAST_REDIS_URL.",
  cost: "full",
  find: async (_engine, { pushWorks }) =>
    (await pushWorks()) === false
      ? [{ subject: "push", detail: "a message to ourselves did not come back", sinceAt: null }]
      : [],
};
