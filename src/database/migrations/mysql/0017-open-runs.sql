-- Runs of schedules whose job may not have ended
--
-- This file is frozen once it is released: to change the schema, add a file with the next number.

-- 0: its job is known to have ended, or it has none. A tick that must not overlap looks at the others alone.
set @change = if(
  exists (select 1 from information_schema.columns
           where table_schema = database() and table_name = 'holdfast_schedule_run' and column_name = 'is_open'),
  'do 0', 'alter table holdfast_schedule_run
    add column is_open int not null default 1, add check (is_open in (0, 1)),
    add key schedule_run_open (schedule, is_open, tick)');
prepare change_once from @change;
execute change_once;
deallocate prepare change_once;

-- The index has the runs without a job too.
update holdfast_schedule_run set is_open = 0 where job_id is null;
