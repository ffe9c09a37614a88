-- Least privilege for the users of one Holdfast database on MariaDB or MySQL. See docs/guide/security.md.
--
-- Replace `holdfast` by the name of your database, and create the three users with passwords of your own before. Run it as an
-- administrator.
--
--   mysql --user root --password < mysql.sql

-- Reads everything, changes nothing.
grant select on `holdfast`.* to 'holdfast_reader'@'%';

-- Enqueues jobs with keys and tags, and reads them. It cannot claim, cancel, change or delete a job.
grant select on `holdfast`.* to 'holdfast_enqueuer'@'%';
grant insert on `holdfast`.`holdfast_job` to 'holdfast_enqueuer'@'%';
grant insert on `holdfast`.`holdfast_ready` to 'holdfast_enqueuer'@'%';
grant insert on `holdfast`.`holdfast_waiting` to 'holdfast_enqueuer'@'%';
grant insert on `holdfast`.`holdfast_job_tag` to 'holdfast_enqueuer'@'%';
grant insert on `holdfast`.`holdfast_job_trace` to 'holdfast_enqueuer'@'%';
grant insert, update, delete on `holdfast`.`holdfast_job_key` to 'holdfast_enqueuer'@'%';
grant insert, update, delete on `holdfast`.`holdfast_kept_key` to 'holdfast_enqueuer'@'%';

-- Workers and the server: all rows, no table. It cannot create, alter or drop.
grant select, insert, update, delete, execute on `holdfast`.* to 'holdfast_service'@'%';
