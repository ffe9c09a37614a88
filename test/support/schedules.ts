/** Schedules for tests: every fact has a default, and a test names only those it is about. */
import assert from "node:assert/strict";
import type { OperatorEntry } from "../../src/audit/entry.ts";
import type { Store } from "../../src/app/store.ts";
import {
  defineSchedule,
  type Definition,
  type ScheduleOptions,
  type ScheduleRecord,
} from "../../src/schedules/schedule.ts";
import type { RunRecord } from "../../src/schedules/index.ts";
import { nextId } from "./jobs.ts";

export const MINUTE_MS = 60_000;

export function by(actor = "ada"): OperatorEntry {
  return { id: nextId(), actor };
}

type Facts = Partial<ScheduleOptions>;

/** Every minute, unless the facts name another timing. */
export function definition(facts: Facts = {}): Definition {
  const timing = "cron" in facts ? {} : { every: "1m" };
  return defineSchedule({ name: "nightly", task: "mail.send", ...timing, ...facts }).definition;
}

export function createOne(store: Store, facts: Facts = {}): Promise<ScheduleRecord> {
  return store.schedules.create(definition(facts), by());
}

export async function mustFindSchedule(store: Store, name = "nightly"): Promise<ScheduleRecord> {
  const found = await store.schedules.find(name);
  assert.ok(found !== null, `there is no schedule ${name}`);
  return found;
}

export async function allRuns(store: Store, name = "nightly"): Promise<RunRecord[]> {
  const runs: RunRecord[] = [];
  for (let before: number | undefined; ;) {
    const page = await store.schedules.runs({
      schedule: name,
      limit: 500,
      ...(before === undefined ? {} : { before }),
    });
    runs.push(...page);
    if (page.length < 500) return runs.toReversed();
    before = page.at(-1)?.tick;
  }
}

export async function jobIds(store: Store, task = "mail.send"): Promise<string[]> {
  const ids: string[] = [];
  for (let before: string | undefined; ;) {
    const page = await store.jobs.list({
      task,
      limit: 500,
      ...(before === undefined ? {} : { before }),
    });
    ids.push(...page.map(({ id }) => id));
    if (page.length < 500) return ids.toReversed();
    before = page.at(-1)?.id;
  }
}
