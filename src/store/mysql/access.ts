/** The tables of those who come over HTTP, on MySQL and MariaDB: their tokens, of which only the hash is kept, and what they asked for once. */
import { HASH, ID, NAME, WORD } from "./spelling.ts";

export const ACCESS_TABLES = `
create table if not exists holdfast_token (
  id            ${ID} not null,
  name          ${NAME} not null,
  role          ${WORD} not null,
  hash          ${HASH} not null,
  created_at    bigint not null,
  expires_at    bigint,
  revoked_at    bigint,
  used_at       bigint,
  live_name     ${NAME} as (case when revoked_at is null then name end) stored,
  check (name <> ''),
  check (role in ('viewer', 'operator')),
  primary key (id),
  unique key holdfast_token_hash (hash),
  unique key holdfast_token_name (live_name)
);

create table if not exists holdfast_request (
  asker         varchar(128) not null,
  request_key   varchar(255) not null,
  fingerprint   ${HASH} not null,
  seed          mediumtext not null,
  begun_at      bigint not null,
  status        int,
  body          mediumtext,
  check (request_key <> ''),
  primary key (asker, request_key),
  key holdfast_request_begun (begun_at)
);
`;
