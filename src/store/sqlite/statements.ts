/**
 * The hot statements on SQLite: prepared once, run row by row inside one BEGIN IMMEDIATE.
 *
 * Plain texts in one object, so that a test can plant a bug in one of them and see itself fail.
 */
export const statements = {
  insertJob: `
    insert into holdfast_job (id, queue, task, payload, rank, max_attempts, job_key, enqueued_at)
    values (?, ?, ?, ?, ?, ?, ?, ?)
    on conflict (id) do nothing`,

  insertReady: `
    insert into holdfast_ready
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, ready_at)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,

  insertWaiting: `
    insert into holdfast_waiting
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, status, due_at)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,

  insertTrace: `
    insert into holdfast_job_trace (job_id, traceparent, tracestate)
    values (?, ?, ?)`,

  insertFinished: `
    insert into holdfast_finished
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts,
            status, worker, started_at, finished_at, result, error)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,

  insertAttempt: `
    insert into holdfast_attempt
           (job_id, epoch, attempt, worker, outcome, started_at, ended_at, error)
    values (?, ?, ?, ?, ?, ?, ?, ?)`,

  insertKey: `
    insert into holdfast_job_key (task, job_key, job_id)
    values (?, ?, ?)`,

  findKey: `
    select job_id
      from holdfast_job_key
     where task = ?
       and job_key = ?`,

  /** Who has ended and keeps the key. */
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

  guard: `
    select id
      from holdfast_worker
     where id = ?
       and status in ('starting', 'running')`,

  /** In claim order by the primary key: it reads as many rows as it returns (and those of tasks not asked for). */
  peek: `
    select id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, ready_at
      from holdfast_ready
     where queue = ?
     order by rank, ready_at, id
     limit ?`,

  peekTasks: `
    select id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, ready_at
      from holdfast_ready
     where queue = ?
       and task in (select value from json_each(?))
     order by rank, ready_at, id
     limit ?`,

  deleteReady: `
    delete from holdfast_ready
     where id = ?`,

  insertLease: `
    insert into holdfast_lease
           (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts,
            locked_by, locked_until, claimed_at, heartbeat_at, claim_id)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,

  readJob: `
    select payload, enqueued_at
      from holdfast_job
     where id = ?`,

  /** The fence: what this returns was still ours. */
  takeLease: `
    delete from holdfast_lease
     where id = ?
       and locked_by = ?
       and epoch = ?
    returning queue, task, rank, job_key, attempts, crashes, max_attempts,
              claimed_at, cancel_requested_at`,

  extendLease: `
    update holdfast_lease
       set locked_until = max(locked_until, ?),
           heartbeat_at = ?
     where id = ?
       and locked_by = ?
       and epoch = ?
    returning locked_until, cancel_requested_at`,
};
