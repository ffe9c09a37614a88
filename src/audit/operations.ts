/** The verbs of the audit log. `holdfast audit verify` is written by hand: it shows its progress. */
import { HoldfastError } from "../core/errors.ts";
import { type Runtime, systemRuntime } from "../core/runtime.ts";
import { Cached } from "../core/wait.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { type Columns, flexible, plain, right, tableOf } from "../operations/show.ts";
import { counted, relative } from "../terminal/table.ts";
import type { Audit } from "./audit.ts";
import type { AuditEntry } from "./entry.ts";

export interface AuditApp {
  readonly audit: Pick<Audit, "list" | "prune">;
}

const operation = operationsOf<AuditApp>("audit");

/** From this width on, the table also shows the change and the reason. */
const WIDE = 120;

export const auditLine = s
  .object({
    id: s.text(),
    seq: s.count,
    at: s.instant,
    actor: s.text(),
    action: s.text(),
    subject: s.text(),
    oldStatus: s.text().nullable(),
    newStatus: s.text().nullable(),
    reason: s.text().nullable(),
    traceId: s.text().nullable(),
    detail: s.text().nullable(),
    previousHash: s.text().nullable(),
    hash: s.text().nullable(),
  })
  .named("AuditLine", "One entry of the audit log.");

const LINES: Columns<AuditEntry> = [
  right("LINE", ({ seq }) => String(seq)),
  right("WHEN", ({ at }) => relative(at, systemRuntime.now())),
  flexible("ACTOR", ({ actor }) => actor),
  plain("ACTION", ({ action }) => action),
  flexible("SUBJECT", ({ subject }) => subject),
  { ...plain("CHANGE", changeOf), from: WIDE },
  flexible("REASON", ({ reason }) => reason ?? "", WIDE),
];

/** "failed → pending", or "1 → 2" for the limit of a worker type. */
function changeOf({ action, oldStatus, newStatus, detail }: AuditEntry): string {
  if (action === "worker.limit" && detail !== null) {
    const { from, to } = JSON.parse(detail) as { from: number | null; to: number | null };
    return `${from ?? "none"} → ${to ?? "none"}`;
  }
  return [oldStatus, newStatus].filter((status) => status !== null).join(" → ");
}

function footerOf(
  lines: readonly AuditEntry[],
  { after, limit }: { readonly after?: number; readonly limit?: number },
): string[] {
  const shown = counted(lines.length, "line");
  if (lines.length !== limit) return [shown];
  return after === undefined
    ? [shown, `Older: --before ${lines[0]?.seq}`]
    : [shown, `Newer: --after ${lines.at(-1)?.seq}`];
}

export const auditOperations = {
  list: operation({
    name: "listAudit",
    summary: "Read the audit log",
    access: "viewer",
    input: {
      subject: s.key
        .optional()
        .about("For example `job 0199…`, `worker mailer-…` or `lock order:42`."),
      actor: s.name.optional(),
      after: s.count.optional(),
      before: s.count.optional(),
      limit: s.pageLimit.optional(),
    },
    returns: "A page in chronological order: the last page, unless `after` is given.",
    result: s.object({ lines: s.list(auditLine) }),
    run: async ({ audit }, input) => ({ lines: await audit.list(input) }),
    http: { method: "GET", path: "/api/v1/audit" },
    cli: {
      command: "audit list",
      about: "list operator actions, newest last",
      flags: {
        subject: { about: "only lines about this: 'job <id>', 'worker <id>', 'lock <key>', …" },
        actor: { value: "<name>", about: "only lines of this actor" },
        before: { value: "<number>", about: "only lines before this one (previous page)" },
        after: { value: "<number>", about: "only lines after this one (next page)" },
        limit: { about: "maximum number of lines", initial: 20 },
      },
      examples: ["audit list --actor ada"],
      show: ({ lines }, { terminal, input }) => {
        if (lines.length === 0) return ["No lines."];
        const footer = footerOf(lines, input).map(terminal.colors.dim);
        return [...tableOf(LINES, lines, terminal), "", ...footer];
      },
    },
    agent: "What operators did: who, when, why, and what it changed.",
  }),

  prune: operation({
    name: "pruneAudit",
    summary: "Delete old audit lines of operators; the audit log records this",
    access: "operator",
    input: { keep: s.durationText },
    isAudited: true,
    returns: "How many lines were deleted.",
    result: s.object({ pruned: s.count }),
    run: async ({ audit }, { keep }, { by: { trace: _trace, ...by } }) => ({
      pruned: await audit.prune({ keep, ...by }),
    }),
    cli: {
      command: "audit prune",
      flags: {
        keep: { about: "keep lines younger than this, such as 400d", isRequired: true },
      },
      examples: ["audit prune --keep 365d"],
      show: ({ pruned }) => [
        pruned === 0 ? "No line is that old." : `Deleted ${counted(pruned, "line")}.`,
      ],
    },
  }),
};

// The verification that the server shares: a chain of a million lines takes a while.

/** All who ask share one walk, and its result for this long. */
const VERIFIED_FOR_MS = 60_000;
const VERIFY_WAIT_MS = 20_000;

const verified = s.object({
  lines: s.count.about("Of operators and of items."),
  isWhole: s.boolean(),
  broken: s
    .object({ kind: s.text(), item: s.text().nullable(), seq: s.count, problem: s.text() })
    .nullable()
    .about("The first break."),
  breaks: s.count,
  verifiedAt: s.instant,
  tookMs: s.number(),
});

type Verified = Cached<s.TypeOf<typeof verified>>;

export function sharedVerification(audit: Pick<Audit, "verify">, runtime: Runtime): Verified {
  return new Cached({
    runtime,
    forMs: VERIFIED_FOR_MS,
    waitMs: VERIFY_WAIT_MS,
    ask: async () => {
      const begunAt = runtime.monotonic();
      const { actions, lines, held, breaks, breaksFound } = await audit.verify();
      const tookMs = Math.round(runtime.monotonic() - begunAt);
      return {
        lines: actions + lines,
        isWhole: held,
        broken: breaks[0] ?? null,
        breaks: breaksFound,
        verifiedAt: runtime.now(),
        tookMs,
      };
    },
  });
}

class TookTooLongError extends HoldfastError {
  constructor() {
    super(
      "TOOK_TOO_LONG",
      "The audit log could not be read in time. To verify it: holdfast audit verify",
    );
  }
}

export const verifyOperations = {
  verify: operationsOf<Verified>("audit")({
    name: "verifyAudit",
    summary: "Whether the audit log is whole",
    access: "viewer",
    returns: "At most a minute old.",
    result: verified,
    run: async (verification) => {
      const found = await verification.get();
      if (found === null) throw new TookTooLongError();
      return found;
    },
    http: { method: "GET", path: "/api/v1/audit/verify" },
    agent: "Whether a line of the audit log was removed, added or changed since it was written.",
  }),
};
