/**
 * The hot statements on SQLite: prepared once, run row by row inside one BEGIN IMMEDIATE.
 *
 * Plain texts in one object, so that a test can plant a bug in one of them.
 */
export const statements = {
  insertJob: `
    insert into holdfast_job (id, queue, task, payload, rank, max_attempts, job_key, enqueued_at)
    values (?, ?, ?, ?, ?, ?, ?, ?)
    on conflict (id) do nothing`,

  lastJob: "select coalesce(max(rowid), 0) from holdfast_job",

  /** All jobs after that one: they are new, pending, and have neither a key nor a lane. */
  insertNewSince: `
    insert into holdfast_ready
           (id, queue, task, rank, epoch, attempts, crashes, max_attempts, ready_at, place)
    select id, queue, task, rank, 0, 0, 0, max_attempts, enqueued_at, enqueued_at + ?
      from holdfast_job
     where rowid > ?`,

  insertReady: `
    insert into holdfast_ready
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, lane,
            ready_at, place, start_by)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,

  insertWaiting: `
    insert into holdfast_waiting
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, lane,
            status, due_at, start_by)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,

  insertTrace: `
    insert into holdfast_job_trace (job_id, traceparent, tracestate)
    values (?, ?, ?)`,

  insertTag: `
    insert into holdfast_job_tag (tag, job_id)
    values (?, ?)`,

  insertFinished: `
    insert into holdfast_finished
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, lane,
            status, worker, started_at, finished_at, result, error, error_kind)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,

  insertAttempt: `
    insert into holdfast_attempt
           (job_id, epoch, attempt, worker, outcome, started_at, ended_at, error, error_kind)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,

  insertKey: `
    insert into holdfast_job_key (task, job_key, job_id)
    values (?, ?, ?)`,

  findKey: `
    select job_id
      from holdfast_job_key
     where task = ?
       and job_key = ?`,

  /** The ended job that keeps the key. */
  findKept: `
    select k.job_id
      from holdfast_kept_key k
      join holdfast_finished f on f.id = k.job_id
     where k.task = ?
       and k.job_key = ?
       and f.finished_at + k.keep_ms > ?`,

  keepKey: `
    insert into holdfast_kept_key (task, job_key, job_id, keep_ms)
    values (?, ?, ?, ?)
    on conflict (task, job_key) do update set job_id = excluded.job_id, keep_ms = excluded.keep_ms`,

  deleteKey: `
    delete from holdfast_job_key
     where task = ?
       and job_key = ?
       and job_id = ?`,

  /** Queues whose claims must look at rules, lanes or a pause: see limits/. The plain claim takes nothing from them. */
  governed: `
    select name
      from holdfast_queue
     where name = ?
       and governed = 1`,

  guard: `
    select id
      from holdfast_worker
     where id = ?
       and status in ('starting', 'running')`,

  /** In any lane, whatever its rules: an idle worker looks without the write lock. */
  anyPending: `
    select 1
      from holdfast_ready
     where queue = ?
     limit 1`,

  /** In claim order by the primary key: it reads only the rows it returns, and those of other tasks. */
  peek: `
    select id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, lane, ready_at, place
      from holdfast_ready
     where queue = ?
       and lane = ?
       and (start_by is null or start_by > ?)
     order by place, id
     limit ?`,

  peekTasks: `
    select id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, lane, ready_at, place
      from holdfast_ready
     where queue = ?
       and lane = ?
       and task in (select value from json_each(?))
       and (start_by is null or start_by > ?)
     order by place, id
     limit ?`,

  /** Peeks at one queue and reads the inputs too: one statement is faster than two, and every row is claimed. */
  peekQueue: `
    select r.id, r.queue, r.task, r.rank, r.job_key, r.epoch, r.attempts, r.crashes, r.max_attempts, r.lane,
           r.ready_at, r.place, j.payload, j.enqueued_at
      from holdfast_ready r
     cross join holdfast_job j on j.id = r.id
     where r.queue = ?
       and r.lane = ''
       and r.task in (select value from json_each(?))
       and (r.start_by is null or r.start_by > ?)
     order by r.place, r.id
     limit ?`,

  deleteReady: `
    delete from holdfast_ready
     where id = ?`,

  insertLease: `
    insert into holdfast_lease
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, lane,
            locked_by, locked_until, claimed_at, heartbeat_at, claim_id)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,

  readJob: `
    select payload, enqueued_at
      from holdfast_job
     where id = ?`,

  /** The fence: returns nothing if it is stale. With `deleteLease`, this is faster than a delete that returns its row. */
  findLease: `
    select queue, task, rank, job_key, attempts, crashes, max_attempts, lane,
           claimed_at, cancel_requested_at
      from holdfast_lease
     where id = ?
       and locked_by = ?
       and epoch = ?`,

  /** Only in the transaction that found the lease by its fence. */
  deleteLease: `
    delete from holdfast_lease
     where id = ?`,

  extendLease: `
    update holdfast_lease
       set locked_until = max(locked_until, ?),
           heartbeat_at = ?
     where id = ?
       and locked_by = ?
       and epoch = ?
    returning locked_until, cancel_requested_at`,
};
