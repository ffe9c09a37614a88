/**
 * The hot statements on MySQL and MariaDB.
 *
 * Plain texts in one object, so that a test can plant a bug in one of them.
 *
 * On a small or freshly filled table the optimizer prefers to read everything, and a statement that locks what it reads
 * then waits for rows of other transactions, or deadlocks with them. So every statement that locks names the index: with
 * FORCE INDEX in a SELECT or UPDATE. A DELETE of one table takes no index hint; joined to a list of ids with STRAIGHT_JOIN,
 * it looks up one id after the other.
 */

/** The ids of a JSON array as a table. */
const IDS = "json_table(?, '$[*]' columns (id char(36) character set ascii path '$'))";

const JOB_COLUMNS = `id, queue, task, "rank", job_key, epoch, attempts, crashes, max_attempts, lane`;

const LEASE = `
           l.id, l.queue, l.task, l.rank, l.job_key, l.epoch, l.attempts, l.crashes, l.max_attempts, l.lane,
           l.locked_by, l.locked_until, l.claimed_at, l.cancel_requested_at`;

/** MySQL would also try to lock the list of ids. MariaDB does not, and reads this as a comment. */
const OF_LEASES = "/*!80017 of l */";

export const statements = {
  insertJobs: `
    insert into holdfast_job (id, queue, task, payload, "rank", max_attempts, job_key, enqueued_at)
    values ?`,

  insertReady: `
    insert into holdfast_ready (${JOB_COLUMNS}, start_by, ready_at, place)
    values ?`,

  /** Pending jobs that differ only in their ids: the other values are sent once, which takes a third less time. */
  insertAlike: `
    insert into holdfast_ready (${JOB_COLUMNS}, ready_at, place)
    select i.id, ?, ?, ?, null, 0, 0, 0, ?, '', @holdfast_now, @holdfast_now + ?
      from ${IDS} i`,

  insertWaiting: `
    insert into holdfast_waiting (${JOB_COLUMNS}, start_by, status, due_at)
    values ?`,

  insertTraces: `
    insert into holdfast_job_trace (job_id, traceparent, tracestate)
    values ?`,

  insertTags: `
    insert into holdfast_job_tag (tag, job_id)
    values ?`,

  findJobs: `
    select j.id
      from ${IDS} i
      straight_join holdfast_job j force index (primary) on j.id = i.id`,

  /** The committed holders of these keys. */
  findKeys: `
    select task, job_key, job_id
      from holdfast_job_key k force index (primary)
     where ?`,

  /** A held key stays with its holder. Waits for transactions that are about to take or release it. */
  insertKeys: `
    insert into holdfast_job_key (task, job_key, job_id)
    values ?
    on duplicate key update job_id = job_id`,

  /** The definite holders of these keys: the insert has locked the rows. */
  lockKeys: `
    select task, job_key, job_id
      from holdfast_job_key k force index (primary)
     where ?
       for update`,

  /** Ended jobs that keep these keys. */
  findKept: `
    select k.task, k.job_key, k.job_id
      from holdfast_kept_key k force index (primary)
      straight_join holdfast_finished f force index (primary) on f.id = k.job_id
     where (?)
       and f.finished_at + k.keep_ms > @holdfast_now`,

  insertKept: `
    insert into holdfast_kept_key (task, job_key, job_id, keep_ms)
    values ?
    on duplicate key update job_id = values(job_id), keep_ms = values(keep_ms)`,

  deleteKeys: `
    delete k
      from ${IDS} i
      straight_join holdfast_job_key k force index (by_job) on k.job_id = i.id`,

  /** A transaction that closes the worker's row waits for this claim, or this claim sees the closed row. */
  guard: `
    select id
      from holdfast_worker force index (primary)
     where id = ?
       and status in ('starting', 'running')
      lock in share mode`,

  /** Whether a look at the queue is worth a transaction. In any lane, whatever its rules. */
  anyPending: `
    select 1
      from holdfast_ready force index (primary)
     where queue = ? ?
     limit 1`,

  /** Queues whose claims must look at rules, lanes or a pause: see limits/. The plain claim takes nothing from them. */
  governed: `
    select name
      from holdfast_queue force index (primary)
     where name in (?)
       and governed = 1`,

  /** What a claim would find, without locks. */
  peek: `
    select id, queue, place
      from holdfast_ready force index (primary)
     where queue = ?
       and lane = ''
       and (start_by is null or start_by > @holdfast_now) ?
     order by place, id
     limit ?`,

  /** In claim order by the primary key: it reads only the rows it returns, and those of other tasks. */
  lockReady: `
    select ${JOB_COLUMNS}, ready_at, place, start_by
      from holdfast_ready force index (primary)
     where queue = ?
       and lane = ''
       and (start_by is null or start_by > @holdfast_now) ?
     order by place, id
     limit ?
       for update skip locked`,

  /** The same in a lane of a queue with rules. */
  lockLane: `
    select ${JOB_COLUMNS}, ready_at, place, start_by
      from holdfast_ready force index (primary)
     where queue = ?
       and lane = ?
       and (start_by is null or start_by > ?) ?
     order by place, id
     limit ?
       for update skip locked`,

  deleteReady: `
    delete r
      from ${IDS} i
      straight_join holdfast_ready r force index (by_id) on r.id = i.id`,

  deleteDeadlines: `
    delete d
      from ${IDS} i
      straight_join holdfast_deadline d force index (primary) on d.id = i.id`,

  /** Claimed jobs are copied inside the server: their rows are locked, so they cannot change in between. */
  copyToLease: `
    insert into holdfast_lease
           (${JOB_COLUMNS}, locked_by, locked_until, claimed_at, heartbeat_at, claim_id)
    select r.id, r.queue, r.task, r.rank, r.job_key, r.epoch + 1, r.attempts + 1, r.crashes, r.max_attempts, null,
           ?, ?, ?, ?, ?
      from ${IDS} i
      straight_join holdfast_ready r force index (by_id) on r.id = i.id`,

  /** The same for jobs of lanes. In the lease, the lane is named as the job was enqueued in it. */
  copyLanesToLease: `
    insert into holdfast_lease
           (${JOB_COLUMNS}, locked_by, locked_until, claimed_at, heartbeat_at, claim_id)
    select r.id, r.queue, r.task, r.rank, r.job_key, r.epoch + 1, r.attempts + 1, r.crashes, r.max_attempts,
           substring_index(r.lane, char(31 using utf8mb4), 1), ?, ?, ?, ?, ?
      from ${IDS} i
      straight_join holdfast_ready r force index (by_id) on r.id = i.id`,

  /** Their entries among the leases by lane. One may be left over in a database that was restored in parts. */
  insertLanes: `
    insert into holdfast_lane_lease (queue, lane, id, epoch)
    values ?
    on duplicate key update epoch = values(epoch)`,

  readJobs: `
    select j.id, j.payload, j.enqueued_at
      from ${IDS} i
      straight_join holdfast_job j force index (primary) on j.id = i.id`,

  /** The fence is compared under these locks, which are taken in the order of the given ids. */
  lockLeases: `
    select ${LEASE}
      from ${IDS} i
      straight_join holdfast_lease l force index (primary) on l.id = i.id
       for update ${OF_LEASES}`,

  /**
   * Locks the leases. Counts those that one worker holds at one epoch, without a requested cancel and without a key, and how
   * many of them have a lane.
   */
  countLeases: `
    select count(*), count(l.lane)
      from ${IDS} i
      straight_join holdfast_lease l force index (primary) on l.id = i.id
     where l.locked_by = ?
       and l.epoch = ?
       and l.cancel_requested_at is null
       and l.job_key is null
       for update ${OF_LEASES}`,

  /** Only for jobs that are done without a result, which is most of them. */
  copyToFinished: `
    insert into holdfast_finished
           (${JOB_COLUMNS}, status, worker, started_at, finished_at)
    select l.id, l.queue, l.task, l.rank, l.job_key, l.epoch, l.attempts, l.crashes, l.max_attempts, nullif(l.lane, ''),
           'done', l.locked_by, l.claimed_at, ?
      from ${IDS} i
      straight_join holdfast_lease l force index (primary) on l.id = i.id`,

  deleteLeases: `
    delete l
      from ${IDS} i
      straight_join holdfast_lease l force index (primary) on l.id = i.id`,

  /** The same with their entries among the leases by lane, if they have some. */
  deleteLanes: `
    delete l, e
      from ${IDS} i
      straight_join holdfast_lease l force index (primary) on l.id = i.id
      left join holdfast_lane_lease e force index (primary)
             on e.queue = l.queue and e.lane = l.lane and e.id = l.id and e.epoch = l.epoch`,

  /** Passes over leases that another transaction has locked. */
  lockFreeLeases: `
    select ${LEASE}
      from ${IDS} i
      straight_join holdfast_lease l force index (primary) on l.id = i.id
       for update ${OF_LEASES} skip locked`,

  /** Without waiting for locks. */
  seeLeases: `
    select ${LEASE}
      from ${IDS} i
      straight_join holdfast_lease l force index (primary) on l.id = i.id`,

  extendLeases: `
    update holdfast_lease force index (primary)
       set locked_until = greatest(locked_until, ?),
           heartbeat_at = ?
     where id in (?)`,
};
