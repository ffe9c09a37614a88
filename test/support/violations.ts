/**
 * What can be wrong with a store, and how it is brought about: for every check, a violation typed by hand, or come to by time.
 *
 * A check that looks in several places has one for each: what follows the colon tells them apart. Each returns the subject under which the check must tell of it. Some break what the database itself refuses: its
 * triggers are disabled meanwhile.
 */
import { traceId } from "../../src/core/job.ts";
import type { NewStep } from "../../src/core/task.ts";
import { changeItem, declareAll, pay, startItem } from "./items.ts";
import { startBulk } from "./bulk.ts";
import {
  claimOne,
  headOf,
  done,
  enqueueOne,
  failed,
  fenceOf,
  HOUR_MS,
  jobIn,
  member,
  nextId,
  released,
  retry,
  settlement,
  settleOne,
  startOne,
  suspended,
} from "./jobs.ts";
import type { TestClock } from "./runtime.ts";
import { createOne as createSchedule, MINUTE_MS } from "./schedules.ts";
import { start } from "./workers.ts";
import type { Store } from "../../src/app/store.ts";

export interface PlantTarget {
  readonly store: Store;
  readonly clock: TestClock;
  /** Runs hand-typed SQL. Tables are called `holdfast.<name>`. */
  readonly byHand: (text: string) => Promise<unknown>;
}

export interface Violation {
  /** Brings it about, and returns the subject of the finding. */
  readonly plant: (target: PlantTarget) => Promise<string>;
}

const TRAVELS = `id, queue, task, "rank", job_key, epoch, attempts, crashes, max_attempts`;
const FAR_AWAY = 4_000_000_000_000;
const effect: NewStep = { name: "charge", occurrence: 1, position: 1, kind: "effect" };

const job = (id: string): string => `job ${id}`;
const worker = (): string => `mailer-${nextId()}`;

const places: Record<string, Violation> = {
  "job-in-two-tables": {
    async plant({ store, byHand }) {
      const { id } = await enqueueOne(store);
      await byHand(copied("ready", "waiting", WAITING));
      return job(id);
    },
  },
  "job-nowhere": {
    async plant({ store, byHand }) {
      await enqueueOne(store);
      const { id } = await enqueueOne(store);
      await byHand(`delete from holdfast.ready where id = '${id}'`);
      return job(id);
    },
  },
  "state-without-job": {
    async plant({ store, byHand }) {
      const { id } = await startOne(store);
      await settleOne(store, done({ id, worker: "worker-a", epoch: 1 }));
      await byHand(`delete from holdfast.job where id = '${id}'`);
      return job(id);
    },
  },
};

const leases: Record<string, Violation> = {
  "lease-and-elsewhere": {
    async plant({ store, byHand }) {
      const { id } = await startOne(store);
      await byHand(copied("lease", "ready", { ready_at: "1", lane: "''", place: "1" }));
      return job(id);
    },
  },
  "lease-of-stopped-worker": {
    async plant({ store, clock }) {
      const { id: stopped } = await start(store);
      const { id } = await startOne(store, {}, { worker: stopped, leaseMs: HOUR_MS });
      await store.workers.move(stopped, { state: "stopped", reason: "asked" });
      clock.advance(61_000);
      return job(id);
    },
  },
  "lease-expired": {
    async plant({ store, clock }) {
      const { id } = await startOne(store);
      clock.advance(30_000 + 2_000 + 60_001);
      return job(id);
    },
  },
  "lease-never-renewed": {
    async plant({ store, clock }) {
      const { id } = await startOne(store);
      clock.advance(28_000);
      return job(id);
    },
  },
  "lease-of-unknown-worker": {
    async plant({ store, byHand }) {
      const { id: gone } = await start(store);
      const { id } = await startOne(store, {}, { worker: gone });
      await byHand(`delete from holdfast.worker where id = '${gone}'`);
      return job(id);
    },
  },
  "claim-of-two-workers": {
    async plant({ store, byHand }) {
      await startOne(store, {}, { worker: worker() });
      await startOne(store, {}, { worker: worker() });
      await byHand("update holdfast.lease set claim_id = 7");
      return "claim 7";
    },
  },
};

const workers: Record<string, Violation> = {
  "worker-stale": {
    async plant({ store, clock }) {
      const { id } = await start(store);
      clock.advance(60_001);
      return `worker ${id}`;
    },
  },
  "worker-hung": {
    async plant({ store, clock }) {
      const { id } = await start(store);
      await store.workers.move(id, { state: "stopping", reason: "asked" });
      clock.advance(120_001);
      return `worker ${id}`;
    },
  },
  "worker-too-many": {
    async plant({ store, byHand }) {
      await start(store, { slots: 2 });
      await start(store, { slots: 2 });
      await byHand("update holdfast.worker_type set slots = 1");
      return "type mailer";
    },
  },
  "worker-version-drift": {
    async plant({ store }) {
      await start(store, { slots: null, version: "abc1234" });
      await start(store, { slots: null, version: "def5678" });
      return "type mailer";
    },
  },
  "enqueuer-version-drift": {
    async plant({ store }) {
      await start(store);
      await store.workers.noteEnqueuer("fed9999");
      return "build fed9999";
    },
  },
};

const waits: Record<string, Violation> = {
  "job-overdue": {
    async plant({ store, clock }) {
      const { id } = await enqueueOne(store, { start: { delayMs: 1_000 } });
      clock.advance(61_001);
      return job(id);
    },
  },
  "waiting-for-nothing": {
    async plant({ store }) {
      const claimed = await startOne(store);
      await settleOne(store, suspended(claimed));
      return job(claimed.id);
    },
  },
  "wait-unheard": {
    async plant({ store, byHand }) {
      const claimed = await startOne(store);
      const paid = { event: "order.paid", key: "42" };
      const outcome = { kind: "suspended", delayMs: null, waits: [paid] } as const;
      await settleOne(store, settlement(claimed, outcome));
      await byHand("update holdfast.event set emitted_at = 1 where name = 'order.paid'");
      return job(claimed.id);
    },
  },
  "wait-orphaned": {
    async plant({ store, byHand }) {
      const { id } = await enqueueOne(store);
      await byHand(
        `insert into holdfast.wait (job_id, name, event_key) values ('${id}', 'order.paid', '42')`,
      );
      return job(id);
    },
  },
  "job-unclaimable": {
    async plant({ store, clock }) {
      await enqueueOne(store);
      clock.advance(60_001);
      return "queue default";
    },
  },
};

const flows: Record<string, Violation> = {
  "dependency-miscounted": {
    async plant({ store, byHand }) {
      const { id } = await waitsForOne(store);
      await byHand(`delete from holdfast.dep where job_id = '${id}'`);
      return job(id);
    },
  },
  "dependency-unheard": {
    async plant({ store, clock, byHand }) {
      const { id, on } = await waitsForOne(store);
      await settleOne(store, done(await claimOne(store)));
      // An older version of the library has ended it.
      await byHand(`delete from holdfast.ready where id = '${id}'`);
      await byHand(`insert into holdfast.waiting (${TRAVELS}, status, due_at, missing)
        select id, queue, task, "rank", job_key, 0, 0, 0, max_attempts, 'waiting', null, 1
          from holdfast.job where id = '${id}'`);
      await byHand(`insert into holdfast.dep (job_id, on_id, on_failed, on_cancelled, look)
        values ('${id}', '${on}', 'fail', 'cancel', 0)`);
      clock.advance(60_001);
      return job(id);
    },
  },
  "dependency-orphaned": {
    async plant({ store, byHand }) {
      const { id } = await enqueueOne(store);
      await byHand(`insert into holdfast.dep (job_id, on_id, on_failed, on_cancelled, look)
        values ('${id}', '${nextId()}', 'fail', 'cancel', 0)`);
      return job(id);
    },
  },
};

/** A job that waits for the end of one that is pending. */
async function waitsForOne(store: Store): Promise<{ id: string; on: string }> {
  const { id: on } = await enqueueOne(store, member());
  const { id } = await enqueueOne(store, member([on]));
  return { id, on };
}

const steps: Record<string, Violation> = {
  "effect-in-doubt": {
    async plant({ store }) {
      const claimed = await startOne(store);
      await store.steps.put(fenceOf(claimed), {
        ...effect,
        status: "doubt",
        result: null,
        isNew: true,
      });
      await settleOne(store, suspended(claimed));
      return job(claimed.id);
    },
  },
  "effect-left-open": {
    async plant({ store }) {
      const claimed = await startOne(store);
      await store.steps.put(fenceOf(claimed), {
        ...effect,
        status: "begun",
        result: null,
        isNew: true,
      });
      await settleOne(store, failed(claimed));
      return job(claimed.id);
    },
  },
  "attempt-missing": {
    async plant({ store, byHand }) {
      const claimed = await startOne(store);
      await settleOne(store, retry(claimed));
      await byHand(`delete from holdfast.attempt where job_id = '${claimed.id}'`);
      return job(claimed.id);
    },
  },
};

const orphans: Record<string, Violation> = {
  "key-orphaned": {
    async plant({ store, byHand }) {
      const claimed = await startOne(store, { key: "order-42" });
      await settleOne(store, done(claimed));
      await byHand(`
        insert into holdfast.job_key (task, job_key, job_id) values ('mail.send', 'order-42', '${claimed.id}')`);
      return job(claimed.id);
    },
  },
  "key-missing": {
    async plant({ store, byHand }) {
      const { id } = await enqueueOne(store, { key: "order-42" });
      await byHand(`delete from holdfast.job_key where job_id = '${id}'`);
      return job(id);
    },
  },
  "kept-key-orphaned": {
    async plant({ byHand }) {
      const id = nextId();
      await byHand(`
        insert into holdfast.kept_key (task, job_key, job_id, keep_ms) values ('mail.send', 'order-42', '${id}', 1000)`);
      return job(id);
    },
  },
  "trace-orphaned": {
    async plant({ byHand }) {
      const id = nextId();
      await byHand(
        `insert into holdfast.job_trace (job_id, traceparent) values ('${id}', '00-1-1-01')`,
      );
      return job(id);
    },
  },
  "tag-orphaned": {
    async plant({ byHand }) {
      const id = nextId();
      await byHand(`insert into holdfast.job_tag (tag, job_id) values ('invoices', '${id}')`);
      return job(id);
    },
  },
  "step-orphaned": {
    async plant({ store, byHand }) {
      const claimed = await startOne(store);
      await store.steps.put(fenceOf(claimed), {
        ...effect,
        status: "done",
        result: null,
        isNew: true,
      });
      await settleOne(store, done(claimed));
      await byHand(`delete from holdfast.finished where id = '${claimed.id}'`);
      await byHand(`delete from holdfast.job where id = '${claimed.id}'`);
      return job(claimed.id);
    },
  },
  "history-orphaned": {
    async plant({ store, byHand }) {
      const claimed = await startOne(store);
      await settleOne(store, retry(claimed));
      await byHand(`delete from holdfast.waiting where id = '${claimed.id}'`);
      await byHand(`delete from holdfast.job where id = '${claimed.id}'`);
      return job(claimed.id);
    },
  },
};

const items: Record<string, Violation> = {
  "item-behind-child": {
    async plant({ store, byHand }) {
      const { parent, child } = await family(store);
      await byHand(`update holdfast.item set updated_at = updated_at + 1000 where id = '${child}'`);
      return `item ${parent}`;
    },
  },
  "item-progress": {
    async plant({ store, byHand }) {
      const { parent } = await family(store);
      await byHand(`update holdfast.item_progress set children = 2 where item_id = '${parent}'`);
      return `item ${parent}`;
    },
  },
  "item-undeclared": {
    async plant({ store, byHand }) {
      const { parent } = await family(store);
      await byHand(`update holdfast.item set status = 'lost' where id = '${parent}'`);
      return `item ${parent}`;
    },
  },
  "item-tree": {
    async plant({ store, byHand }) {
      const { parent, child } = await family(store);
      await byHand(`delete from holdfast.item where id = '${parent}'`);
      return `item ${child}`;
    },
  },
  "item-due-orphaned": {
    async plant({ store, byHand }) {
      await declareAll(store);
      const { id } = await startItem(store, { limitMs: HOUR_MS });
      await byHand(
        `update holdfast.item_due set entered_at = entered_at - 1 where item_id = '${id}'`,
      );
      return `item ${id}`;
    },
  },
  "item-waits-for-missing-job": {
    async plant({ store, byHand }) {
      const { parent } = await family(store);
      await byHand(
        `insert into holdfast.item_job (job_id, item_id) values ('${nextId()}', '${parent}')`,
      );
      return `item ${parent}`;
    },
  },
  "item-job-orphaned": {
    async plant({ byHand }) {
      const id = nextId();
      await byHand(`
        insert into holdfast.item_job (job_id, item_id, status) values ('${nextId()}', '${id}', 'done')`);
      return `item ${id}`;
    },
  },
};

const records: Record<string, Violation> = {
  "item-audit-gap": {
    async plant({ store, byHand }) {
      await declareAll(store);
      const { id } = await startItem(store);
      await changeItem(store, { id }, pay);
      await byHand(`delete from holdfast.item_audit where item_id = '${id}' and seq = 1`);
      return `item ${id}`;
    },
  },
  "operator-audit-gap": {
    async plant({ store, byHand }) {
      for (const subject of ["job 1", "job 2"]) {
        await store.audit.note({ id: nextId(), actor: "ada" }, { action: "job.cancel", subject });
      }
      await byHand(`
        delete from holdfast.audit where subject = 'job 1' and seq <= (select seq from holdfast.audit_head)`);
      return "audit";
    },
  },
  "bulk-stalled": {
    async plant({ store, clock }) {
      const { id } = await startBulk(store, { action: "cancel", filter: { all: true } });
      clock.advance(HOUR_MS);
      return `bulk ${id}`;
    },
  },
  "schedule-overdue": {
    async plant({ store, clock }) {
      await createSchedule(store);
      clock.advance(HOUR_MS);
      return "schedule nightly";
    },
  },
  "schedule-failing": {
    async plant({ store }) {
      await createSchedule(store);
      await store.schedules.noteError("nightly", "InvalidArgumentError: timeZone: no such zone");
      return "schedule nightly";
    },
  },
  "schedule-over": {
    async plant({ store, byHand }) {
      await createSchedule(store);
      await byHand("update holdfast.schedule set next_at = null");
      return "schedule nightly";
    },
  },
  "schedule-run-orphaned": {
    async plant({ store, clock, byHand }) {
      await createSchedule(store, { overlap: "queue" });
      for (let tick = 0; tick < 2; tick += 1) {
        clock.advance(MINUTE_MS);
        await store.schedules.fire("nightly");
      }
      await byHand("update holdfast.schedule set queued_count = 0");
      return "schedule nightly";
    },
  },
  "lock-left-behind": {
    async plant({ store, clock }) {
      const holder = nextId();
      const request = { key: "order:42", holder, owner: "shop", trace: null, ttlMs: 15_000 };
      await store.locks.take({ ...request, contender: nextId() });
      clock.advance(HOUR_MS);
      return "lock order:42";
    },
  },
  "job-id-format": {
    async plant({ store }) {
      const { id } = await enqueueOne(store, { id: "e2c6a1c4-6f0b-4a5e-9d57-0d0d6ab1f0aa" });
      return job(id);
    },
  },
  "worker-id-format": {
    async plant({ store }) {
      await startOne(store, {}, { worker: "legacy" });
      return "worker legacy";
    },
  },
  "trace-of-another-owner": {
    async plant({ store }) {
      const claimed = await startOne(store, {}, { worker: worker() });
      const other = traceId({ ...claimed, worker: worker() });
      const action = { action: "job.cancel", subject: job(claimed.id) };
      await store.audit.note({ id: nextId(), actor: "ada", traceId: other }, action);
      return `line ${(await headOf(store)).seq} of operators`;
    },
  },
  "schema-newer": {
    async plant({ byHand }) {
      await byHand(`
        insert into holdfast.migration (version, name, breaking, applied_at) values (999, 'pretended 999', 0, 1)`);
      return "migration 999";
    },
  },
};

/** Copies a job from the table where it stands into another. */
function copied(from: string, to: string, more: Record<string, string>): string {
  const columns = [TRAVELS, ...Object.keys(more)].join(", ");
  const values = [TRAVELS, ...Object.values(more)].join(", ");
  return `insert into holdfast.${to} (${columns}) select ${values} from holdfast.${from}`;
}

const FINISHED = { status: "'failed'", finished_at: "1" };
const WAITING = { status: "'scheduled'", due_at: String(FAR_AWAY) };

/** The other places in which some checks look. */
const elsewhere: Record<string, Violation> = {
  "job-in-two-tables: pending and finished": {
    async plant({ store, byHand }) {
      const { id } = await enqueueOne(store);
      await byHand(copied("ready", "finished", FINISHED));
      return job(id);
    },
  },
  "job-in-two-tables: waiting and finished": {
    async plant({ store, byHand }) {
      const { id } = await enqueueOne(store, { start: { delayMs: HOUR_MS } });
      await byHand(copied("waiting", "finished", FINISHED));
      return job(id);
    },
  },
  "lease-and-elsewhere: waiting": {
    async plant({ store, byHand }) {
      const { id } = await startOne(store);
      await byHand(copied("lease", "waiting", WAITING));
      return job(id);
    },
  },
  "lease-and-elsewhere: finished": {
    async plant({ store, byHand }) {
      const { id } = await startOne(store);
      await byHand(copied("lease", "finished", FINISHED));
      return job(id);
    },
  },
  ...Object.fromEntries(
    (["pending", "scheduled", "processing"] as const).map((status) => [
      `state-without-job: ${status}`,
      {
        async plant({ store, byHand }: PlantTarget) {
          const id = await jobIn(store, status);
          await byHand(`delete from holdfast.job where id = '${id}'`);
          return job(id);
        },
      },
    ]),
  ),
  ...Object.fromEntries(
    (["scheduled", "processing"] as const).map((status) => [
      `key-missing: ${status}`,
      {
        async plant({ store, byHand }: PlantTarget) {
          const id = await jobIn(store, status, { key: "order-42" });
          await byHand(`delete from holdfast.job_key where job_id = '${id}'`);
          return job(id);
        },
      },
    ]),
  ),
  "attempt-missing: handed back": {
    async plant({ store, byHand }) {
      const claimed = await startOne(store);
      await settleOne(store, released(claimed));
      await byHand(`delete from holdfast.attempt where job_id = '${claimed.id}'`);
      return job(claimed.id);
    },
  },
  "attempt-missing: under way": {
    async plant({ store, byHand }) {
      const claimed = await startOne(store);
      await settleOne(store, released(claimed));
      const again = await claimOne(store);
      await byHand(`delete from holdfast.attempt where job_id = '${again.id}'`);
      return job(again.id);
    },
  },
  "history-orphaned: reports": {
    async plant({ byHand }) {
      const id = nextId();
      await byHand(
        `insert into holdfast.report (job_id, seq, epoch, kind, at) values ('${id}', 1, 1, 'log', 1)`,
      );
      return job(id);
    },
  },
  "item-progress: counted and not there": {
    async plant({ byHand }) {
      const id = nextId();
      await byHand(`
        insert into holdfast.item_progress (item_id, workflow, status, children) values ('${id}', 'line', 'new', 1)`);
      return `item ${id}`;
    },
  },
  "item-undeclared: its type": {
    async plant({ store, byHand }) {
      const { parent } = await family(store);
      await byHand(`update holdfast.item set type = 'gift' where id = '${parent}'`);
      return `item ${parent}`;
    },
  },
  "item-tree: another depth": {
    async plant({ store, byHand }) {
      const { child } = await family(store);
      await byHand(`update holdfast.item set depth = 3 where id = '${child}'`);
      return `item ${child}`;
    },
  },
  "item-audit-gap: the last line": {
    async plant({ store, byHand }) {
      await declareAll(store);
      const { id } = await startItem(store);
      await changeItem(store, { id }, pay);
      await byHand(`update holdfast.item_audit set seq = 3 where item_id = '${id}' and seq = 2`);
      return `item ${id}`;
    },
  },
  "item-audit-gap: lines without an item": {
    async plant({ store, byHand }) {
      await declareAll(store);
      const { id } = await startItem(store);
      await byHand(`delete from holdfast.item where id = '${id}'`);
      return `item ${id}`;
    },
  },
  "worker-id-format: of an attempt": {
    async plant({ store }) {
      const claimed = await startOne(store, {}, { worker: "legacy" });
      await settleOne(store, retry(claimed));
      return "worker legacy";
    },
  },
  "worker-id-format: of a job that ended": {
    async plant({ store }) {
      await settleOne(store, done(await startOne(store, {}, { worker: "legacy" })));
      return "worker legacy";
    },
  },
  "worker-id-format: of a worker": {
    async plant({ store }) {
      const { id } = await start(store, { id: "mailer" });
      return `worker ${id}`;
    },
  },
  "operator-audit-gap: pruned without a line": {
    async plant({ store, byHand }) {
      await store.audit.note(
        { id: nextId(), actor: "ada" },
        { action: "job.cancel", subject: "job 1" },
      );
      await byHand("update holdfast.audit_head set pruned_seq = seq, pruned_hash = hash");
      await byHand("delete from holdfast.audit");
      return "audit";
    },
  },
  "trace-of-another-owner: in an item": {
    async plant({ store }) {
      await declareAll(store);
      const claimed = await startOne(store, {}, { worker: worker() });
      const { id } = await startItem(store);
      const never = traceId({ ...claimed, attempt: 9 });
      await changeItem(store, { id }, { ...pay, line: { traceId: never } });
      return `line 2 of item ${id}`;
    },
  },
};

async function family(store: Store): Promise<{ parent: string; child: string }> {
  await declareAll(store);
  const parent = await startItem(store);
  const child = await startItem(store, { workflow: "line", parent });
  return { parent: parent.id, child: child.id };
}

/** Of the store on any database; what a server can have by itself is in test/ops/doctor-servers.test.ts. */
export const violations: Readonly<Record<string, Violation>> = {
  ...places,
  ...leases,
  ...workers,
  ...waits,
  ...flows,
  ...steps,
  ...orphans,
  ...items,
  ...records,
  ...elsewhere,
};
