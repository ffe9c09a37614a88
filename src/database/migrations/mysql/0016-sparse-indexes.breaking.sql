-- -------------------------------------------------------------------------------------------------
-- Sparse indexes
-- This file is frozen once it is released: to change the schema, add a file with the next number.
--
-- InnoDB has no partial indexes: an index has an entry for every row, also where few rows have a value.
-- Every job paid for the deadlines of pending jobs and for the lanes of leases. Now a small table holds the
-- entries of those that have one, and the other jobs pay nothing.
--
-- An entry may outlive its row, and readers join the two. The reverse never happens: no row with a value
-- is without its entry.
-- -------------------------------------------------------------------------------------------------

-- Pending jobs that must start by some time. A trigger writes the entry, in the transaction that writes the row.
create table if not exists holdfast_deadline (
  id            char(36) character set ascii collate ascii_bin not null,
  start_by      bigint not null,
  primary key (id),
  key by_start (start_by)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

drop trigger if exists holdfast_ready_enters;
create trigger holdfast_ready_enters before insert on holdfast_ready for each row
begin
  if new.epoch > 0 then
    if exists (select 1 from holdfast_finished where id = new.id) then
      signal sqlstate '45000'
        set message_text = 'holdfast: the job has finished; only a revival makes it pending again';
    end if;
    if exists (select 1 from holdfast_lease where id = new.id) then
      signal sqlstate '45000' set message_text = 'holdfast: a worker holds the job';
    end if;
  end if;
  if new.start_by is not null then
    insert into holdfast_deadline (id, start_by)
    values (new.id, new.start_by)
    on duplicate key update start_by = new.start_by;
  end if;
end;

insert ignore into holdfast_deadline (id, start_by)
select id, start_by from holdfast_ready where start_by is not null;

set @change = if(
  exists (select 1 from information_schema.statistics
           where table_schema = database() and table_name = 'holdfast_ready' and index_name = 'by_start'),
  'alter table holdfast_ready drop key by_start', 'do 0');
prepare change_once from @change;
execute change_once;
deallocate prepare change_once;

-- Leases that count towards the limits of their queue. The claim writes the entry with the lease. An epoch
-- never comes again, so an entry without its lease can be deleted at any time.
create table if not exists holdfast_lane_lease (
  queue         varchar(128) not null,
  lane          varchar(256) not null,
  id            char(36) character set ascii collate ascii_bin not null,
  epoch         int not null,
  primary key (queue, lane, id, epoch)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_0900_bin;

insert ignore into holdfast_lane_lease (queue, lane, id, epoch)
select queue, lane, id, epoch from holdfast_lease where lane is not null;

set @change = if(
  exists (select 1 from information_schema.statistics
           where table_schema = database() and table_name = 'holdfast_lease' and index_name = 'by_lane'),
  'alter table holdfast_lease drop key by_lane', 'do 0');
prepare change_once from @change;
execute change_once;
deallocate prepare change_once;
