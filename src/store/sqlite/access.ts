/** The tables of those who come over HTTP, on SQLite: their tokens, of which only the hash is kept, and what they asked for once. */
export const ACCESS_TABLES = `
create table holdfast_token (
  id            text    not null primary key check (length(id) = 36),
  name          text    not null check (length(name) between 1 and 128),
  role          text    not null check (role in ('viewer', 'operator')),
  hash          text    not null unique check (length(hash) = 64),
  created_at    integer not null,
  expires_at    integer,
  revoked_at    integer,
  used_at       integer
) strict, without rowid;
create unique index holdfast_token_name on holdfast_token (name) where revoked_at is null;

create table holdfast_request (
  asker         text    not null,
  request_key   text    not null check (length(request_key) between 1 and 255),
  fingerprint   text    not null check (length(fingerprint) = 64),
  seed          text    not null,
  begun_at      integer not null,
  status        integer,
  body          text,
  primary key (asker, request_key)
) strict, without rowid;
create index holdfast_request_begun on holdfast_request (begun_at);
`;
