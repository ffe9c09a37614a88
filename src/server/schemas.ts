/** What goes over the wire, as schemas: they check what comes and describe what goes. Instants are milliseconds since 1970. */
import { z } from "zod";
import { alertStatuses } from "../core/alert.ts";
import { severities } from "../core/finding.ts";
import { itemActions } from "../core/item.ts";
import { statuses } from "../core/job.ts";
import { KEY_LENGTH_MAX, NAME_LENGTH_MAX } from "../core/name.ts";
import { stepKinds, stepStates } from "../core/step.ts";

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
/** No control characters, which some databases do not take. */
const TEXT = /^\P{Cc}*$/u;
const DURATION_LENGTH_MAX = 64;
const WORKER_LENGTH_MAX = 255;
const REASON_LENGTH_MAX = 1_000;

export const id = z
  .string()
  .regex(ID)
  .meta({ description: "The id of a job or an item: a UUID in lower case." });
export const idPrefix = z
  .string()
  .regex(/^[0-9a-fA-F-]{1,36}$/)
  .meta({ description: "Only those whose id begins so, in either case." });
export const instant = z.int().meta({ description: "Milliseconds since 1970." });
export const count = z.int().min(0);

/** What is longer is refused here; what else is wrong with a name, the library says. */
export const name = z.string().min(1).max(NAME_LENGTH_MAX).regex(TEXT);
export const key = z.string().min(1).max(KEY_LENGTH_MAX).regex(TEXT);
export const workerId = z.string().min(1).max(WORKER_LENGTH_MAX).regex(TEXT);
export const reason = z.string().max(REASON_LENGTH_MAX).regex(TEXT);
export const duration = z
  .union([z.string().max(DURATION_LENGTH_MAX), z.number()])
  .meta({ description: "Milliseconds, or a text such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m." });
export const durationText = z
  .string()
  .max(DURATION_LENGTH_MAX)
  .meta({ description: "A text such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m." });

export const status = z.enum(statuses);

export const pageLimit = z.int().min(1).max(1_000).meta({ description: "How many at most." });

export const problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string(),
    field: z.string().optional(),
    requestId: z.string(),
  })
  .meta({ id: "Problem", description: "What is wrong (RFC 9457)." });

export const errorRecord = z
  .object({
    name: z.string(),
    message: z.string(),
    code: z.string().optional(),
    stack: z.string().optional(),
    cause: z.unknown().optional(),
  })
  .meta({ id: "ErrorRecord", description: "What an attempt failed with." });

const summary = {
  id,
  queue: z.string(),
  task: z.string(),
  status,
  priority: z.int(),
  key: z.string().nullable(),
  epoch: count,
  attempts: count,
  attemptsMax: count,
  crashes: count,
  enqueuedAt: instant,
  dueAt: instant.nullable(),
  lockedBy: z.string().nullable(),
  lockedUntil: instant.nullable(),
  claimedAt: instant.nullable(),
  heartbeatAt: instant.nullable(),
  traceId: z.string().nullable(),
  finishedAt: instant.nullable(),
  lastError: errorRecord.nullable(),
  inDoubt: z.string().nullable().meta({
    description: "An effect of which an operator has to say whether it happened.",
  }),
};

export const jobSummary = z
  .object(summary)
  .meta({ id: "JobSummary", description: "A job without what it carries." });

export const job = z
  .object({
    ...summary,
    input: z.unknown(),
    result: z.unknown().optional(),
    cancelRequestedAt: instant.nullable(),
  })
  .meta({ id: "Job", description: "A job with what it carries and what came of it." });

export const attempt = z
  .object({
    epoch: count,
    attempt: count,
    worker: z.string(),
    outcome: z.string(),
    startedAt: instant,
    endedAt: instant.nullable(),
    traceId: z.string(),
    error: errorRecord.nullable(),
  })
  .meta({ id: "Attempt", description: "One try at a job." });

export const step = z
  .object({
    name: z.string(),
    occurrence: count,
    kind: z.enum(stepKinds),
    place: count,
    status: z.enum(stepStates),
    result: z.unknown().optional(),
    epoch: count,
    begunAt: instant,
    endedAt: instant.nullable(),
  })
  .meta({ id: "Step", description: "A part of a job whose result is kept." });

export const doubt = z
  .object({
    job: id,
    name: z.string(),
    occurrence: count,
    task: z.string(),
    queue: z.string(),
    begunAt: instant,
  })
  .meta({ id: "Doubt", description: "An effect that began, and of which nobody knows the end." });

export const alert = z
  .object({
    id,
    rule: z.string(),
    subject: z.string(),
    severity: z.enum(severities),
    status: z.enum(alertStatuses),
    message: z.string(),
    facts: z.record(z.string(), z.unknown()),
    sinceAt: instant,
    seenAt: instant,
    raisedAt: instant.nullable(),
    resolvedAt: instant.nullable(),
  })
  .meta({
    id: "Alert",
    description: "Something that somebody should look at, raised once and resolved once.",
  });

const numbered = { seq: count, at: instant, epoch: count };

export const report = z
  .discriminatedUnion("kind", [
    z.object({
      ...numbered,
      kind: z.literal("progress"),
      share: z.number(),
      done: z.number().nullable(),
      total: z.number().nullable(),
      text: z.string().nullable(),
    }),
    z.object({
      ...numbered,
      kind: z.literal("log"),
      text: z.string(),
      data: z.unknown().optional(),
    }),
    z.object({
      ...numbered,
      kind: z.literal("report"),
      name: z.string(),
      data: z.unknown().optional(),
    }),
    z.object({ ...numbered, kind: z.literal("dropped"), count }),
  ])
  .meta({ id: "Report", description: "What a job told while it ran." });

export const enqueued = z
  .object({
    id,
    task: z.string(),
    added: z.boolean(),
    warning: z.string().optional().meta({
      description:
        "Why no worker runs it. Given by a server with tasks that does not know this one.",
    }),
  })
  .meta({
    id: "Enqueued",
    description: "An accepted job; `added` false: the job that holds the key.",
  });

export const lease = z
  .object({
    id,
    worker: z.string(),
    epoch: count,
    queue: z.string(),
    task: z.string(),
    input: z.unknown(),
    attempt: count,
    attemptsMax: count,
    lockedUntil: instant,
  })
  .meta({
    id: "Lease",
    description:
      "A job that is yours until an instant. Show worker and epoch with all you say about it.",
  });

export const leaseRecord = z
  .object({
    id,
    worker: z.string(),
    epoch: count,
    queue: z.string(),
    task: z.string(),
    attempt: count,
    traceId: z.string(),
    claimedAt: instant,
    heartbeatAt: instant,
    lockedUntil: instant,
    cancelRequestedAt: instant.nullable(),
  })
  .meta({ id: "LeaseRecord", description: "Who has which job, and until when." });

export const queue = z
  .object({
    queue: z.string(),
    counts: z.object(Object.fromEntries(statuses.map((one) => [one, count]))),
    oldestPendingAt: instant.nullable(),
  })
  .meta({ id: "Queue", description: "How many jobs of a queue have which status." });

export const minute = z
  .object({
    minute: instant,
    queue: z.string(),
    arrived: count,
    done: count,
    failed: count,
    cancelled: count,
    runMsSum: z.number(),
    runMsMax: z.number(),
  })
  .meta({ id: "Minute", description: "What happened in a queue within one minute." });

export const stranded = z
  .object({ queue: z.string(), task: z.string(), jobs: count, waitedMs: z.number() })
  .meta({ id: "Stranded", description: "Pending jobs that no live worker can run." });

export const workflow = z
  .object({
    name: z.string(),
    version: z.int(),
    parent: z.string().nullable(),
    keepMs: z.number().nullable(),
    declaredAt: instant,
    types: z.array(z.string()),
    states: z.array(z.object({ name: z.string(), isInitial: z.boolean(), isFinal: z.boolean() })),
    moves: z.array(z.object({ name: z.string(), from: z.string(), to: z.string() })),
    movable: z.boolean().meta({ description: "This server has its code, and can move its items." }),
  })
  .meta({ id: "Workflow", description: "States, and the moves between them." });

const itemFields = {
  id,
  workflow: z.string(),
  type: z.string(),
  tenant: z.string(),
  identifier: z.string(),
  parent: z.string().nullable(),
  root: z.string(),
  status: z.string(),
  revision: count,
  createdAt: instant,
  updatedAt: instant,
  enteredAt: instant,
};

export const itemSummary = z
  .object(itemFields)
  .meta({ id: "ItemSummary", description: "An item without its data." });
export const item = z
  .object({ ...itemFields, data: z.unknown() })
  .meta({ id: "Item", description: "One thing that goes through a workflow." });

export const itemLine = z
  .object({
    item: z.string(),
    seq: count,
    at: instant,
    actor: z.string(),
    action: z.enum(itemActions),
    move: z.string().nullable(),
    oldStatus: z.string().nullable(),
    newStatus: z.string(),
    revision: count,
    reason: z.string().nullable(),
    lockWaitMs: z.number().nullable(),
    traceId: z.string().nullable(),
    jobs: z.array(z.string()),
    dataHash: z.string(),
    previousHash: z.string(),
    hash: z.string(),
  })
  .meta({ id: "ItemLine", description: "What was done to an item." });

export const childrenIn = z
  .object({ workflow: z.string(), status: z.string(), isFinal: z.boolean(), children: count })
  .meta({ id: "ChildrenIn", description: "How many items below one are in which state." });

export const lock = z
  .object({
    key: z.string(),
    token: z.number(),
    owner: z.string(),
    trace: z.string().nullable(),
    acquiredAt: instant,
    expiresAt: instant,
    expiresInMs: z.number(),
  })
  .meta({ id: "Lock", description: "A lock that somebody has." });

const figures = {
  type: z.string(),
  acquisitions: count,
  timeouts: count,
  waitMs: z
    .object({ average: z.number(), p50: z.number(), p95: z.number(), p99: z.number() })
    .nullable(),
  heldMsMax: z.number(),
};

export const lockStats = z
  .object({
    types: z.array(z.object(figures)),
    minutes: z.array(z.object({ ...figures, minute: instant })),
    partial: z.boolean(),
  })
  .meta({ id: "LockStats", description: "How locks were used." });

export const auditLine = z
  .object({
    id: z.string(),
    seq: count,
    at: instant,
    actor: z.string(),
    action: z.string(),
    subject: z.string(),
    oldStatus: z.string().nullable(),
    newStatus: z.string().nullable(),
    reason: z.string().nullable(),
    traceId: z.string().nullable(),
    detail: z.string().nullable(),
    previousHash: z.string().nullable(),
    hash: z.string().nullable(),
  })
  .meta({ id: "AuditLine", description: "What an operator did." });
