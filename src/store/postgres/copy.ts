/** The row of a copy from another database, on PostgreSQL. What it suspends and why nobody can abuse it: see ../sqlite/copy.ts. */

/** A copy into this database is incomplete. */
export const COPYING = "exists (select from holdfast.copy where ended_at is null)";

export const COPY_TABLE = `
create table holdfast.copy (
  id            integer not null primary key check (id = 1),
  source        text    not null,
  fingerprint   text    collate "C" not null check (length(fingerprint) = 64),
  begun_at      bigint  not null,
  ended_at      bigint,
  batches       bigint  not null check (batches >= 0),
  progress      text    not null
) with (fillfactor = 50);
`;

export const COPY_RULES = `
create function holdfast.copy_begins() returns trigger language plpgsql as $$
begin
  if exists (select from holdfast.copy)
      or exists (select from holdfast.job)
      or exists (select from holdfast.item)
      or exists (select from holdfast.item_audit)
      or exists (select from holdfast.audit_head where seq > 0) then
    raise exception using errcode = '23514', message = 'holdfast: a copy begins in an empty database';
  end if;
  return new;
end $$;

create trigger copy_begins before insert on holdfast.copy for each row
execute function holdfast.copy_begins();

create trigger copy_stays before update on holdfast.copy for each row
when (old.ended_at is not null or new.id <> old.id or new.fingerprint <> old.fingerprint)
execute function holdfast.refuse('a complete copy stays complete');

create trigger copy_is_kept before delete on holdfast.copy for each row
execute function holdfast.refuse('the row of a copy is not deleted');

create trigger copy_is_not_emptied before truncate on holdfast.copy
execute function holdfast.refuse('the row of a copy is not deleted');
`;
