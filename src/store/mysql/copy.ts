/** The row of a copy from another database, on MySQL and MariaDB. What it suspends and why nobody can abuse it: see ../sqlite/copy.ts. */
import { HASH, refuse, trigger } from "./spelling.ts";

/** A copy into this database is incomplete. */
export const COPYING = "exists (select 1 from holdfast_copy where ended_at is null)";

export const COPY_TABLE = `
create table if not exists holdfast_copy (
  id            int not null,
  source        text not null,
  fingerprint   ${HASH} not null,
  begun_at      bigint not null,
  ended_at      bigint,
  batches       bigint not null,
  progress      mediumtext not null,
  check (id = 1),
  check (length(fingerprint) = 64),
  check (batches >= 0),
  primary key (id)
);
`;

export const COPY_RULES = [
  trigger(
    "copy_begins",
    "before insert",
    "copy",
    `if exists (select 1 from holdfast_job)
      or exists (select 1 from holdfast_item)
      or exists (select 1 from holdfast_item_audit)
      or exists (select 1 from holdfast_audit_head where seq > 0) then
    ${refuse("a copy begins in an empty database")}
  end if;`,
  ),
  trigger(
    "copy_stays",
    "before update",
    "copy",
    `if old.ended_at is not null or new.id <> old.id or new.fingerprint <> old.fingerprint then
    ${refuse("a complete copy stays complete")}
  end if;`,
  ),
  trigger("copy_is_kept", "before delete", "copy", refuse("the row of a copy is not deleted")),
].join("");
