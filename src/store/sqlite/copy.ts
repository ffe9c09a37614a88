/**
 * The row of a copy from another database, on SQLite; see src/ops/copy.ts.
 *
 * While the copy is incomplete, the rules about how items and audit lines come into being are suspended, because both
 * arrive with their history. A copy begins in an empty database only and never begins again, so these rules cannot be
 * suspended for data that is in use.
 */

/** A copy into this database is incomplete. */
export const COPYING = "exists (select 1 from holdfast_copy where ended_at is null)";

export const COPY_TABLE = `
create table holdfast_copy (
  id            integer not null primary key check (id = 1),
  source        text    not null,
  fingerprint   text    not null check (length(fingerprint) = 64),
  begun_at      integer not null,
  ended_at      integer,
  batches       integer not null check (batches >= 0),
  progress      text    not null
) strict;
`;

export const COPY_RULES = `
create trigger holdfast_copy_begins before insert on holdfast_copy
when exists (select 1 from holdfast_copy)
  or exists (select 1 from holdfast_job)
  or exists (select 1 from holdfast_item)
  or exists (select 1 from holdfast_item_audit)
  or exists (select 1 from holdfast_audit_head where seq > 0)
begin select raise(abort, 'holdfast: a copy begins in an empty database'); end;

create trigger holdfast_copy_stays before update on holdfast_copy
when old.ended_at is not null or new.id <> old.id or new.fingerprint <> old.fingerprint
begin select raise(abort, 'holdfast: a complete copy stays complete'); end;

create trigger holdfast_copy_is_kept before delete on holdfast_copy
begin select raise(abort, 'holdfast: the row of a copy is not deleted'); end;
`;
