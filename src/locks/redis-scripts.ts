/**
 * What Redis does with locks, each in one go: while a script runs, nobody else does anything.
 *
 * A lock is a hash that Redis deletes when its time is over. Beside it stands for whom it is kept; the last token that was
 * given, for all locks together; and when which lock ends, so that they can be listed. Time is Redis's own.
 */
const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`;

const STANDING = `'token', 'owner', 'trace', 'acquiredAt'`;

export const scripts = {
  /** KEYS: lock, next, token, ends. ARGV: holder, contender, owner, trace, time to live, key, how long it is kept. */
  take: {
    numberOfKeys: 4,
    lua: `${NOW}
local holder = redis.call('HGET', KEYS[1], 'holder')
local next = redis.call('GET', KEYS[2])
local isOurTurn = not next or next == ARGV[2]
if isOurTurn and (not holder or holder == ARGV[1]) then
  local token = math.max(now, (tonumber(redis.call('GET', KEYS[3])) or 0) + 1)
  redis.call('SET', KEYS[3], token)
  redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'owner', ARGV[3], 'trace', ARGV[4], 'token', token, 'acquiredAt', now)
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
  redis.call('DEL', KEYS[2])
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
  redis.call('ZADD', KEYS[4], now + ARGV[5], ARGV[6])
  return {1, token}
end
if isOurTurn then redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[7]) end
return {0, redis.call('HGET', KEYS[1], 'owner') or '', isOurTurn and 1 or 0}`,
  },

  /** KEYS: lock, ends. ARGV: token, time to live, key. */
  extend: {
    numberOfKeys: 2,
    lua: `${NOW}
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[3])
end
return 1`,
  },

  /** KEYS: lock, ends. ARGV: what has to have which value, key, the channel of those who wait for it. */
  release: {
    numberOfKeys: 2,
    lua: `
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[3])
redis.call('PUBLISH', ARGV[4], '')
return 1`,
  },

  /** KEYS: lock. */
  find: {
    numberOfKeys: 1,
    lua: `${NOW}
local row = redis.call('HMGET', KEYS[1], ${STANDING})
row[5] = redis.call('PTTL', KEYS[1])
row[6] = now
return row`,
  },

  /** KEYS: ends. ARGV: what the names of locks begin with, the type or nothing, how many are looked at. */
  list: {
    numberOfKeys: 1,
    lua: `${NOW}
local rows = {}
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf', 'LIMIT', 0, ARGV[3])) do
  if ARGV[2] == '' or key == ARGV[2] or string.sub(key, 1, #ARGV[2] + 1) == ARGV[2] .. ':' then
    local row = redis.call('HMGET', ARGV[1] .. key, ${STANDING})
    row[5] = redis.call('PTTL', ARGV[1] .. key)
    row[6] = now
    row[7] = key
    if row[1] then rows[#rows + 1] = row end
  end
end
return rows`,
  },
} as const;

/** A row of `find` and `list`; without a token there is no such lock. */
export type Row = [
  token: string | null,
  owner: string,
  trace: string,
  acquiredAt: string,
  endsInMs: number,
  now: number,
  key?: string,
];
