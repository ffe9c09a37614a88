/** What can be done to a schedule at once. */
import type { Schedule } from "../api.gen.ts";
import { post } from "../client.ts";
import { refresh } from "../live.ts";
import { toast } from "../notices.ts";
import { to } from "../router.ts";

export async function runNow(schedule: Schedule): Promise<void> {
  const { name } = schedule;
  const { job } = await post("schedules/{name}/run", { name });
  refresh();
  toast(`One job of ${name} is enqueued.`, { href: to(["jobs", job]), link: "Open it" });
}

/** It can be taken back, so it happens at once. */
export async function toggle(schedule: Schedule): Promise<void> {
  const { name, pausedAt } = schedule;
  const [action, back] =
    pausedAt === null ? (["pause", "resume"] as const) : (["resume", "pause"] as const);
  await post(`schedules/{name}/${action}`, { name });
  refresh();
  toast(action === "pause" ? `${name} is paused.` : `${name} runs again.`, {
    undo: () => post(`schedules/{name}/${back}`, { name }),
  });
}
