-- Least privilege for the users of one Holdfast database on PostgreSQL. See docs/guide/security.md.
--
-- Run it as the owner of the schema, who runs `holdfast migrate`, and after each migration again: new tables have no grants.
-- The roles cannot log in; make your users members: grant holdfast_service to app_worker;
--
--   psql "$OWNER_URL" --set ON_ERROR_STOP=1 --file postgres.sql

do $$
begin
  create role holdfast_reader nologin;
exception when duplicate_object then null;
end $$;

do $$
begin
  create role holdfast_enqueuer nologin;
exception when duplicate_object then null;
end $$;

do $$
begin
  create role holdfast_service nologin;
exception when duplicate_object then null;
end $$;

-- Reads everything, changes nothing.
grant usage on schema holdfast to holdfast_reader;
grant select on all tables in schema holdfast to holdfast_reader;

-- Enqueues jobs with keys and tags, and reads them. It cannot claim, cancel, change or delete a job.
grant usage on schema holdfast to holdfast_enqueuer;
grant select on all tables in schema holdfast to holdfast_enqueuer;
grant insert on holdfast.job, holdfast.ready, holdfast.waiting, holdfast.job_tag, holdfast.job_trace to holdfast_enqueuer;
grant insert, update, delete on holdfast.job_key, holdfast.kept_key to holdfast_enqueuer;
grant execute on all functions in schema holdfast to holdfast_enqueuer;

-- Workers and the server: all rows, no table. It cannot create, alter, truncate or drop.
grant usage on schema holdfast to holdfast_service;
grant select, insert, update, delete on all tables in schema holdfast to holdfast_service;
grant usage on all sequences in schema holdfast to holdfast_service;
grant execute on all functions in schema holdfast to holdfast_service;
