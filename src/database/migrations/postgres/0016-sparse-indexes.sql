-- Nothing changes here: this database has partial indexes. MySQL, which has none, gets tables instead.
select 1;
