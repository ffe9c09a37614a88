/* oxlint-disable eslint/no-template-curly-in-string -- these are pieces of source texts */
/**
 * Bugs to plant in the product, to see that the simulation finds them.
 *
 * Each is a change of a source text as it is loaded, in a process of its own; nothing of them is ever in the product. A
 * text that is not there exactly once is an error: the product has changed, and its mutant has to follow.
 */

import type { Patch } from "../support/plant.ts";

export interface Mutant {
  readonly name: string;
  readonly patches: readonly Patch[];
}

/**
 * Where those were found that are not found soon. A hunt in a hurry begins there: a change of the product changes what
 * the seeds do, and then it goes on from the first as any other.
 */
export const foundAt: Readonly<Record<string, number>> = {
  "a settlement goes by the worker's name instead of the epoch": 53,
  "a settlement needs no fence": 53,
  "a settlement that concerns others needs no epoch": 13,
  "an extension goes by the worker's name instead of the epoch": 30,
  "a step is written by a former owner": 6,
  "a commit is kept although another worker owns the job": 168,
  "a crash that was none is given back and still counts": 5,
  "a worker that was alive counts as crashed if another came first": 5,
  "a job is blamed for a worker that held others too": 26,
  "the sweep does not ask again": 127,
  "a cancel of a running job is forgotten": 47,
  "a write whose answer was lost is made again": 19,
  "an effect is made without a look at the lease": 37,
  "a function is called after its lease ended unnoticed": 57,
  "a step is kept before its function has run": 5,
  "a rate's instant is written in a transaction of its own, and gets lost": 14,
  "a lease that has ended is not counted": 44,
  "what runs is counted by its place before the next job": 14,
  "the next tick is counted from now": 14,
  "an event that is said while a job goes to wait is lost": 61,
  "a worker looks for jobs only after a hint": 15,
};

function mutant(name: string, ...patches: Patch[]): Mutant {
  return { name, patches };
}

const HOT = "jobs/sqlite.ts";
const STATEMENTS = "jobs/sqlite-statements.ts";
const ENGINE = "database/sqlite/engine.ts";
const MAINTENANCE = "jobs/maintenance.ts";
const ROWS = "jobs/rows.ts";
const STEPS = "steps/store.ts";
const CONTEXT = "steps/context.ts";
const CLAIM = "limits/claim.ts";

export const mutants: readonly Mutant[] = [
  // ── The fence ────────────────────────────────────────────────────────────────────────────────
  mutant("a settlement goes by the worker's name instead of the epoch", {
    file: STATEMENTS,
    find: `       and epoch = ?\`,

  /** Only in the transaction`,
    put: `       and ? > 0\`,

  /** Only in the transaction`,
  }),
  mutant("a settlement needs no fence", {
    file: STATEMENTS,
    find: `       and locked_by = ?
       and epoch = ?\`,

  /** Only in the transaction`,
    put: `       and ? <> ''
       and ? > 0\`,

  /** Only in the transaction`,
  }),
  mutant("a settlement that concerns others needs no epoch", {
    file: "jobs/settle.ts",
    find: "const where = sql`id = ${id} and locked_by = ${worker} and epoch = ${epoch}`;",
    put: "const where = sql`id = ${id} and ${epoch} > 0 and ${worker} <> ''`;",
  }),
  mutant("an extension goes by the worker's name instead of the epoch", {
    file: STATEMENTS,
    find: `       and epoch = ?
    returning locked_until`,
    put: `       and ? > 0
    returning locked_until`,
  }),
  mutant("a lease that is gone counts as extended", {
    file: HOT,
    find: "if (row === undefined) continue;\n      const [lockedUntil",
    put: `if (row === undefined) {
        extended.push({ id, worker, epoch, lockedUntil: now + leaseMs, cancelRequested: false });
        continue;
      }
      const [lockedUntil`,
  }),
  mutant("a step is written by a former owner", {
    file: STEPS,
    find: "return sql`id = ${id} and locked_by = ${worker} and epoch = ${epoch}`;",
    put: "return sql`id = ${id} and ${worker} <> '' and ${epoch} > 0`;",
  }),
  mutant("a commit is kept although another worker owns the job", {
    file: STEPS,
    find: "if (written === 0) throw new LeaseLostError(fence);",
    put: "",
  }),

  // ── The counters ─────────────────────────────────────────────────────────────────────────────
  mutant("a release takes the epoch back", {
    file: ROWS,
    find: "row: readyRow(engine, { ...lease, attempts: lease.attempts - 1 }, now),",
    put: "row: readyRow(engine, { ...lease, attempts: lease.attempts - 1, epoch: lease.epoch - 1 }, now),",
  }),
  mutant("a release is charged", {
    file: ROWS,
    find: "row: readyRow(engine, { ...lease, attempts: lease.attempts - 1 }, now),",
    put: "row: readyRow(engine, lease, now),",
  }),
  mutant("a suspension is charged", {
    file: ROWS,
    find: `          attempts: lease.attempts - 1,
          status: "waiting",`,
    put: `          status: "waiting",`,
  }),
  mutant(
    "an attempt is charged when it fails, not when it is claimed",
    { file: HOT, find: "const attempt = attempts + 1;", put: "const attempt = attempts;" },
    {
      file: ROWS,
      find: `row: { ...jobColumns(lease), status: "retry", due_at: dueAt, start_by: null },`,
      put: `row: { ...jobColumns(lease), attempts: lease.attempts + 1, status: "retry", due_at: dueAt, start_by: null },`,
    },
  ),
  mutant("a crash is not counted", {
    file: ROWS,
    find: "crashes: lease.crashes + 1 };",
    put: "crashes: lease.crashes };",
  }),
  mutant("a crash that was none is given back and still counts", {
    file: "jobs/outages.ts",
    find: "const attempts = await correct(tx, id, await crashesFrom(tx, { id, epoch }));",
    put: "const attempts = await crashesFrom(tx, { id, epoch });",
  }),
  mutant("a worker that was alive counts as crashed if another came first", {
    file: "jobs/outages.ts",
    find: "return uncountCrash(engine, tx, report);",
    put: "return settled;",
  }),
  mutant("a job is blamed for a worker that held others too", {
    file: "jobs/outages.ts",
    find: "crashes > 0 && beside[index]?.length === 0;",
    put: "crashes > 0 && beside[index] !== undefined;",
  }),
  mutant("a job that kills its workers is never put aside", {
    file: ROWS,
    find: "if (crashed.crashes >= maxCrashes || lease.attempts >= lease.max_attempts) {",
    put: "if (lease.attempts >= lease.max_attempts) {",
  }),

  // ── Moves ────────────────────────────────────────────────────────────────────────────────────
  mutant("the sweep uses the clock of its own process", {
    file: MAINTENANCE,
    find: "const where = sql`locked_until < ${now - chore.graceMs}${spared}${inQueue}`;",
    put: "const where = sql`locked_until < ${engine.runtime.now() - chore.graceMs}${spared}${inQueue}`;",
  }),
  mutant(
    "the sweep does not ask again",
    {
      file: MAINTENANCE,
      find: "const [any] = await engine.all(sql`select id from holdfast.lease where ${ended} limit 1`);",
      put: "const [any] = await engine.all<{ id: string }>(sql`select id from holdfast.lease where ${ended} limit 1`);",
    },
    {
      file: MAINTENANCE,
      find: "const where = sql`locked_until < ${now - chore.graceMs}${spared}${inQueue}`;",
      put: "const where = sql`id = ${any.id}${spared}${inQueue}`;",
    },
  ),
  mutant("a dead letter is moved in two transactions", {
    file: MAINTENANCE,
    find: "const beside = await besideEach(context.engine, tx, taken);",
    put: `const beside = await besideEach(context.engine, tx, taken);
  await tx.script("commit");
  await tx.script("begin immediate");`,
  }),
  mutant("a promotion does not take the row", {
    file: MAINTENANCE,
    find: [
      "const taken = await tx.take<WaitingRow>({",
      '      table: "waiting",',
      "      where: sql`due_at <= ${engine.now()}`,",
      "      orderBy: sql`due_at, id`,",
      "      limit,",
      "      skipLocked: true,",
      "    });",
    ].join("\n"),
    put: "const taken = await tx.all<WaitingRow>(sql`select * from holdfast.waiting where due_at <= ${engine.now()} order by due_at limit ${limit}`);",
  }),
  mutant("a cancel of a running job is forgotten", {
    file: ROWS,
    find: `  if (lease.cancel_requested_at !== null) {
    return finish(`,
    put: `  if (lease.cancel_requested_at === -1) {
    return finish(`,
  }),
  mutant("a job that ended keeps its key", {
    file: STATEMENTS,
    find: `     where task = ?
       and job_key = ?
       and job_id = ?`,
    put: `     where task = ?
       and job_key = ?
       and job_id = ?
       and 1 = 0`,
  }),

  // ── Lost answers ─────────────────────────────────────────────────────────────────────────────
  mutant("a job is accepted before it is written", {
    file: "jobs/sql-jobs.ts",
    find: `const enqueued = await this.#db.write(
      () => this.#statements.insert(news),
      () => lookUpEnqueued(this.#statements, news),
    );`,
    put: `const enqueued = news.map(({ id }) => ({ id, added: true }));
    void this.#statements.insert(news).catch(() => {});`,
  }),
  mutant("a write whose answer was lost is made again", {
    file: "database/database.ts",
    find: "persist(engine, lookUp, { unknown: error, lookMs })",
    put: "persist(engine, write, { unknown: error, lookMs })",
  }),
  mutant("a claim whose answer was lost brings everything that the worker has", {
    file: "jobs/recovery.ts",
    find: "       and l.claim_id = ${claimId}\n",
    put: "       and ${claimId} > 0\n",
  }),

  // ── What tasks are promised ──────────────────────────────────────────────────────────────────
  mutant("an effect is made again without asking", {
    file: CONTEXT,
    find: "const found = kept === undefined ? undefined : await this.#asOwner(ask);",
    put: "const found = undefined as T | undefined;",
  }),
  mutant("an effect is made without a look at the lease", {
    file: CONTEXT,
    find: "return found ?? (await this.#act(step, () => this.#asOwner(() => act(effect))));",
    put: "return found ?? (await this.#act(step, () => act(effect)));",
  }),
  mutant("a function is called after its lease ended unnoticed", {
    file: "worker/attempts.ts",
    find: "    if (!isOverdue(attempt, now)) return;\n",
    put: "    if (attempt.job.epoch > 0) return;\n",
  }),
  mutant("the rows of a commit are written outside of its transaction", {
    file: ENGINE,
    find: `this.connection.transaction(async () => {
        const value = await theirs(user);
        await last(this.#transaction, value);
        return value;
      }),`,
    put: `theirs(user).then((value) =>
        this.connection.transaction(async () => {
          await last(this.#transaction, value);
          return value;
        }),
      ),`,
  }),
  mutant("a step is kept before its function has run", {
    file: CONTEXT,
    find: `const value = await this.#inSpan(step, async () => this.#asOwner(body));
      const result = encodeStep(value, step);
      const tookMs = tookSince(this.#parts.runtime, begunAt);
      await this.#put(step, kept, { status: "done", result, tookMs });
      return value;`,
    put: `const tookMs = tookSince(this.#parts.runtime, begunAt);
      await this.#put(step, kept, { status: "done", result: null, tookMs });
      return await body();`,
  }),
  mutant("a sleep begins anew in every attempt", {
    file: CONTEXT,
    find: "const restMs = lasts - (kept?.ageMs ?? 0);",
    put: "const restMs = lasts;",
  }),
  mutant("a called job is enqueued again under a new id", {
    file: CONTEXT,
    find: `const id = typeof told === "string" ? told : told.id;`,
    put: `const id = told === "" ? "" : calledId(this.#parts.newId());`,
  }),

  // ── Limits and schedules: the broken variants of the design ──────────────────────────────────
  mutant("a lease under a limit has no lane, so that no limit counts it", {
    file: HOT,
    find: 'this.#claimOne(row, laneName(lane) ?? "", claiming, now)',
    put: "this.#claimOne(row, lane === laneName(lane) ? null : null, claiming, now)",
  }),
  mutant("a job comes back from a crash or a retry without its lane", {
    file: ROWS,
    find: 'lane: row.lane ?? "", ready_at: now',
    put: 'lane: row.lane === null ? "" : "", ready_at: now',
  }),
  mutant("a rate goes by the clock of the worker", {
    file: CLAIM,
    find: 'const nowMs = Number(setting["now"]);',
    put: "const nowMs = engine.runtime.now();",
  }),
  mutant("a rate's instant is written in a transaction of its own, and gets lost", {
    file: CLAIM,
    find: "this.#parts.claims.runLast(this.#parts.gates.changes()),",
    put:
      "this.#parts.engine.runtime.random() < 0.5" +
      " ? this.#parts.claims.runLast(this.#parts.gates.changes()) : Promise.resolve([]),",
  }),
  mutant("a lease that has ended is not counted", {
    file: CLAIM,
    find: "runningByTask(engine, queue),",
    put:
      "sql`select task, count(*) as running from holdfast.lease where queue = ${queue} and lane is not null" +
      " and locked_until > ${engine.now()} group by task`,",
  }),
  mutant("what runs is counted by its place before the next job", {
    file: CLAIM,
    find: "runningByTask(engine, queue),",
    put:
      "sql`select task, count(*) as running from holdfast.lease where queue = ${queue} and lane is not null" +
      " and id < (select min(r.id) from holdfast.ready r where r.queue = ${queue}) group by task`,",
  }),
  mutant(
    "the next tick is counted from now",
    {
      file: "schedules/timing.ts",
      find: "...between(timing, Math.max(from, lateUntil), now, Number.POSITIVE_INFINITY),",
      put: "...between(timing, Math.max(from, lateUntil), now, 0),",
    },
    {
      file: "schedules/timing.ts",
      find: "next: timing.next(Math.max(last, sinceAt)) };",
      put: "next: timing.next(Math.max(last, now)) };",
    },
  ),
  mutant("the run of a tick is written in a transaction after that of its job", {
    file: "schedules/runs.ts",
    find: `  await tx.insert(
    "schedule_run",`,
    put: `  await tx.script("commit");
  await tx.script("begin immediate");
  await tx.insert(
    "schedule_run",`,
  }),

  // ── Waits that end ─────────────────────────────────────────────────────────────────────────
  mutant("an event that is said while a job goes to wait is lost", {
    file: "steps/events.ts",
    find: "return (row?.emitted_at ?? null) !== null;",
    put: "return row === null;",
  }),
  mutant("the end of a called job wakes no waiting job", {
    file: "jobs/settle.ts",
    find: "if (jobs.length === 0) break;",
    put: "if (jobs.length >= 0) break;",
  }),
  mutant(
    "a worker looks for jobs only after a hint",
    {
      file: "worker/poll-cycle.ts",
      find: "if (limit > 0) this.#lookAt = runtime.monotonic() + restMs;",
      put: "if (limit > 0) this.#lookAt = Number.POSITIVE_INFINITY;",
    },
    {
      file: "worker/session.ts",
      find: "this.#pollCycle.onPending(heartbeat.pending);",
      put: "",
    },
  ),
];
