-- Runs of schedules whose job may not have ended
--
-- This file is frozen once it is released: to change the schema, add a file with the next number.

-- 0: its job is known to have ended, or it has none. A tick that must not overlap looks at the others alone.
alter table holdfast.schedule_run add column is_open integer not null default 1 check (is_open in (0, 1));
create index schedule_run_open on holdfast.schedule_run (schedule, tick)
  where is_open = 1 and job_id is not null;

-- Migration 16 changes nothing on this database, so it breaks no older version.
update holdfast.migration set breaking = 0 where version = 16;
