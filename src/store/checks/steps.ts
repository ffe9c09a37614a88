/** What jobs did: effects of which nobody knows whether they happened, and attempts that nobody wrote down. */
import { subjects } from "../../core/audit.ts";
import { sql } from "../sql.ts";
import { asking, type Check } from "./check.ts";

interface StepRow {
  id: string;
  name: string;
  at: number;
}

export const stepChecks: readonly Check[] = [
  {
    name: "effect-in-doubt",
    severity: "warning",
    problem: "Jobs have stopped because nobody knows whether an effect happened.",
    remedy: "Look outside whether it did, and say so: holdfast doubts resolve <job> <effect>.",
    cost: "quick",
    find: asking<StepRow>(
      (_engine, { limit }) => sql`
        select s.job_id as id, s.name, s.begun_at as at
          from holdfast.step s
          join holdfast.waiting w on w.id = s.job_id
         where s.status = 'doubt'
         order by s.begun_at
         limit ${limit}`,
      ({ id, name, at }) => ({
        subject: subjects.job(id),
        detail: `waits for somebody to say whether '${name}' happened`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "effect-left-open",
    severity: "info",
    problem: "Jobs have ended, and it is not known whether their effects happened.",
    remedy:
      "Look outside whether they did. What was begun by an attempt that died may have happened.",
    cost: "full",
    find: asking<StepRow & { status: string; ended: string }>(
      (_engine, { limit }) => sql`
        select s.job_id as id, s.name, s.begun_at as at, s.status, f.status as ended
          from holdfast.step s
          join holdfast.finished f on f.id = s.job_id
         where s.kind = 'effect'
           and s.status in ('begun', 'doubt')
         limit ${limit}`,
      ({ id, name, at, status, ended }) => ({
        subject: subjects.job(id),
        detail: `is ${ended}, and its effect '${name}' is ${status === "doubt" ? "in doubt" : "begun and not done"}`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "attempt-missing",
    severity: "warning",
    problem: "Jobs were claimed more often, or less often, than their history tells.",
    remedy:
      "Somebody deleted attempts, or wrote states by hand. What is missing cannot be made up for.",
    cost: "full",
    find: asking<{ id: string; epoch: number; told: number }>(
      // Every claim leaves a row when it ends; the one under way has not ended.
      (_engine, { limit }) => sql`
        select id, epoch, told
          from (select live.id, live.epoch, live.ended,
                       (select count(*) from holdfast.attempt a where a.job_id = live.id) as told
                  from (select r.id, r.epoch, r.epoch as ended from holdfast.ready r where r.epoch > 0
                         union all
                        select w.id, w.epoch, w.epoch from holdfast.waiting w where w.epoch > 0
                         union all
                        select l.id, l.epoch, l.epoch - 1 from holdfast.lease l) live) counted
         where told <> ended
         limit ${limit}`,
      ({ id, epoch, told }) => ({
        subject: subjects.job(id),
        detail: `was claimed ${epoch} times, and ${told} attempts are told of`,
        sinceAt: null,
      }),
    ),
  },
];
