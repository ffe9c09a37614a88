/** The tables of those who come over HTTP, on PostgreSQL: their tokens, of which only the hash is kept, and what they asked for once. */
export const ACCESS_TABLES = `
create table holdfast.token (
  id            uuid    not null primary key,
  name          text    collate "C" not null check (length(name) between 1 and 128),
  role          text    collate "C" not null check (role in ('viewer', 'operator')),
  hash          text    collate "C" not null unique check (length(hash) = 64),
  created_at    bigint  not null,
  expires_at    bigint,
  revoked_at    bigint,
  used_at       bigint
);
create unique index token_name on holdfast.token (name) where revoked_at is null;

create table holdfast.request (
  asker         text    collate "C" not null,
  request_key   text    collate "C" not null check (length(request_key) between 1 and 255),
  fingerprint   text    collate "C" not null check (length(fingerprint) = 64),
  seed          text    not null,
  begun_at      bigint  not null,
  status        integer,
  body          text,
  primary key (asker, request_key)
);
create index request_begun on holdfast.request (begun_at);
`;
