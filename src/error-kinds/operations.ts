/** The verbs of kinds of errors: list, show, resolve, mute, reopen. */
import { kindOf } from "../core/error-kind.ts";
import type { ErrorRecord } from "../core/error-record.ts";
import { systemRuntime } from "../core/runtime.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { readInstant } from "../jobs/filter.ts";
import { type Columns, flexible, right, tableOf } from "../operations/show.ts";
import { wholeId } from "../terminal/ids.ts";
import {
  applicationStack,
  count,
  counted,
  facts,
  moment,
  printable,
  relative,
} from "../terminal/table.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { ErrorKindNotFoundError, type Errors } from "./errors.ts";
import { type ErrorKind, type ErrorKindsStore, type ErrorKindState, kindStates } from "./store.ts";

interface FailedAttempt {
  readonly epoch: number;
  readonly error: ErrorRecord | null;
}

interface ErrorsApp {
  readonly errors: Errors;
  readonly jobs: {
    attempts(id: string): Promise<readonly FailedAttempt[]>;
  };
  readonly store: {
    readonly errorKinds: Pick<ErrorKindsStore, "withPrefix">;
    readonly db: { clock(): Promise<number> };
  };
}

const operation = operationsOf<ErrorsApp>("errors");

const id = s.text({ pattern: /^[0-9a-f]{32}$/ });

const time = s.text({ min: 1, max: 64 });
const TIMES = "milliseconds since 1970, an ISO time, or a duration ago.";

const example = s.object({ job: s.id, message: s.text() });

const place = s
  .object({ epoch: s.count, step: s.text().nullable() })
  .nullable()
  .about(
    "The attempt of the job, and the step that failed; null: the job has no such attempt now.",
  );

const group = s
  .object({
    id,
    task: s.text(),
    name: s.text(),
    code: s.text().nullable(),
    message: s.text().about("With … in place of values."),
    state: s.choice(kindStates),
    failed: s.count.about("Jobs that failed for good with it."),
    retried: s.count.about("Attempts that failed with it and were followed by another."),
    firstAt: s.instant,
    lastAt: s.instant,
    firstBuild: s.text().nullable(),
    builds: s.list(s.text()),
    first: example.about("The first job that had it."),
    sample: example.about("The newest job that had it."),
    failedNow: s.count.about("Jobs that failed with it and still are."),
    isFailedNowExact: s
      .boolean()
      .about("False: at least so many; the newest failed jobs are counted."),
    within: s
      .object({ failed: s.count, retried: s.count })
      .nullable()
      .about("In the time or the build that was asked for; null: all was."),
    changedAt: s.instant.nullable(),
    changedBy: s.text().nullable(),
    resolvedIn: s.text().nullable(),
    cameBackAt: s.instant.nullable(),
    isNew: s.boolean().about("First seen within the last 24 hours."),
    trend: s.list(s.count).about("Of each of the last 24 hours, oldest first."),
  })
  .named("ErrorKind", "Errors of one task with the same name, code and message.");

const kinds = s.object({
  counts: s.object({ open: s.count, resolved: s.count, muted: s.count, new: s.count }),
  groups: s.list(group),
  isAll: s.boolean(),
});

/** The start of an id that a terminal shows: others are very rarely equal. */
const SHORT = 8;

const KINDS: Columns<ErrorKind> = [
  { title: "ID", cell: (one, { columns }) => (columns === null ? one.id : one.id.slice(0, SHORT)) },
  right(
    "FAILED NOW",
    ({ failedNow, isFailedNowExact }) => `${count(failedNow)}${isFailedNowExact ? "" : "+"}`,
  ),
  right("EVER", ({ failed }) => count(failed)),
  right("RETRIED", ({ retried }) => count(retried)),
  flexible("TASK", ({ task }) => task),
  flexible("ERROR", (one) => `${titleOf(one)}${one.isNew ? " (new)" : ""}`),
  right("LAST", ({ lastAt }) => relative(lastAt, systemRuntime.now())),
  flexible("MESSAGE", ({ message }) => message),
];

const typed = {
  arguments: { id: "the id of the kind, or an unambiguous prefix" },
  ids: { id: wholeKindId },
};

const change = {
  access: "operator",
  isAudited: true,
  returns: "The kind, as it is now.",
  result: s.object({ group, changed: s.boolean() }),
} as const;

export const errorOperations = {
  list: operation({
    name: "listErrors",
    summary: "List errors by kind, last seen first",
    access: "viewer",
    input: {
      state: s.choice(kindStates).optional(),
      task: s.name.optional().about("Of this task, without its version."),
      build: s.name.optional().about("Seen in this build, within the last week."),
      since: time
        .optional()
        .about(`Seen since: ${TIMES} Whole minutes of the last day, whole hours of the last week.`),
      until: time.optional().about("Seen before."),
      limit: s.pageLimit.optional(),
    },
    returns:
      "At most 200 kinds, last seen first; of a time or a build, the most frequent first. They are counted when a minute is over.",
    result: kinds,
    run: async ({ errors, store }, { since, until, ...filter }) => {
      if (since === undefined && until === undefined) return errors.list(filter);
      const now = await store.db.clock();
      return errors.list({
        ...filter,
        ...(since === undefined ? {} : { since: readInstant("since", since, now) }),
        ...(until === undefined ? {} : { until: readInstant("until", until, now) }),
      });
    },
    http: { method: "GET", path: "/api/v1/errors" },
    cli: {
      command: "errors list",
      flags: {
        state: { about: "only these", initial: "open" },
        task: { value: "<name>" },
        build: { value: "<name>" },
        since: { value: "<time>", about: "seen since: 1h (ago), or 2027-01-31T09:00:00Z" },
        until: { value: "<time>", about: "seen before" },
        limit: { about: "maximum number of kinds", initial: 20 },
      },
      examples: [
        "errors list",
        "errors list --state resolved",
        "errors list --since 1h --build 9c41d07",
      ],
      after: `
Workers count errors when a minute is over. A kind is one task, error name and
code, and a message that differs in values only. 'holdfast jobs --kind <id>'
lists its jobs and 'holdfast retry --kind <id>' retries them, with the whole id,
which 'holdfast errors show' prints.`,
      show: ({ groups, counts, isAll }, { terminal, input: { state = "open" } }) => {
        if (groups.length === 0) return [`No ${state} kind of error.`];
        const all = isAll
          ? `${counted(groups.length, "kind")}.`
          : `${counted(counts[state], "kind")}, ${groups.length} of them here.`;
        return [...tableOf(KINDS, groups, terminal), "", terminal.colors.dim(all)];
      },
    },
    agent:
      "Errors by kind, last seen first: how many jobs failed with it, since which build, and one of them.",
  }),

  get: operation({
    name: "getError",
    summary: "One kind of error with its newest stack",
    access: "viewer",
    input: { id },
    returns: "The kind.",
    result: s.object({ group, stack: s.text().nullable(), first: place, newest: place }),
    run: async ({ errors, jobs }, input) => {
      const found = await errors.get(input.id);
      const [first, newest] = [
        await attemptWith(jobs, found, found.first.job),
        await attemptWith(jobs, found, found.sample.job),
      ];
      return {
        group: found,
        stack: newest?.error?.stack ?? null,
        first: placeOf(first),
        newest: placeOf(newest),
      };
    },
    http: { method: "GET", path: "/api/v1/errors/{id}" },
    cli: {
      ...typed,
      command: "errors show",
      examples: ["errors show 5f2c9a01"],
      show: ({ group: found, stack }, { terminal }) => [
        ...factsOf(found, terminal),
        ...(stack === null ? [] : ["", printable(applicationStack(stack), { lines: true })]),
      ],
    },
    agent: "One kind of error, with the stack of its newest error.",
  }),

  resolve: operation({
    ...change,
    name: "resolveError",
    summary: "Resolve a kind of error; it is open again when it comes back",
    input: {
      id,
      inBuild: s.name
        .optional()
        .about("It stays resolved until a build that was not known to have it has it."),
    },
    run: (app, { id: kind, ...build }, { by, ids: [once] }) =>
      changed(app, kind, app.errors.resolve(kind, { ...by, ...build }, once)),
    http: { method: "POST", path: "/api/v1/errors/{id}/resolve" },
    cli: {
      ...typed,
      command: "errors resolve",
      flags: { inBuild: { value: "<name>" } },
      examples: ["errors resolve 5f2c9a01 --in-build 9c41d07"],
      show: standing,
    },
  }),

  mute: operation({
    ...change,
    name: "muteError",
    summary: "Mute a kind of error",
    input: { id },
    run: (app, { id: kind }, { by, ids: [once] }) =>
      changed(app, kind, app.errors.mute(kind, by, once)),
    http: { method: "POST", path: "/api/v1/errors/{id}/mute" },
    cli: {
      ...typed,
      command: "errors mute",
      examples: ["errors mute 5f2c9a01 --reason 'the carrier knows'"],
      show: standing,
    },
  }),

  reopen: operation({
    ...change,
    name: "reopenError",
    summary: "Open a kind of error again",
    input: { id },
    run: (app, { id: kind }, { by, ids: [once] }) =>
      changed(app, kind, app.errors.reopen(kind, by, once)),
    http: { method: "POST", path: "/api/v1/errors/{id}/reopen" },
    cli: {
      ...typed,
      command: "errors reopen",
      examples: ["errors reopen 5f2c9a01"],
      show: standing,
    },
  }),
};

export const errorCommands = {
  name: "errors",
  about: "list errors by kind; resolve, mute and reopen them",
  parts: Object.values(errorOperations),
};

/** The last attempt of a job that failed with this kind of error; undefined: the job is gone, or was retried since. */
async function attemptWith(
  jobs: ErrorsApp["jobs"],
  { id: kind, task }: ErrorKind,
  job: string,
): Promise<FailedAttempt | undefined> {
  const attempts = await jobs.attempts(job);
  return attempts.findLast(({ error }) => error !== null && kindOf(task, error).id === kind);
}

function placeOf(attempt: FailedAttempt | undefined): s.TypeOf<typeof place> {
  if (attempt === undefined) return null;
  return { epoch: attempt.epoch, step: attempt.error?.step?.name ?? null };
}

async function changed(
  { errors }: ErrorsApp,
  kind: string,
  isChanged: Promise<boolean>,
): Promise<{ group: ErrorKind; changed: boolean }> {
  const didChange = await isChanged;
  return { group: await errors.get(kind), changed: didChange };
}

function wholeKindId({ store }: ErrorsApp, text: string): Promise<string> {
  return wholeId(text, {
    what: "kind of error",
    find: async (prefix, limit) => {
      const found = await store.errorKinds.withPrefix(prefix.toLowerCase(), limit);
      return found.map(({ id: whole, task, name }) => ({ id: whole, about: `${task} ${name}` }));
    },
    notFound: (missing) => new ErrorKindNotFoundError({ id: missing }),
  });
}

const STATES: Readonly<Record<ErrorKindState, string>> = {
  open: "Open",
  resolved: "Resolved",
  muted: "Muted",
};

function standing({ group: kind }: { group: ErrorKind }) {
  const build = kind.resolvedIn === null ? "" : ` in build ${kind.resolvedIn}`;
  return [printable(`${STATES[kind.state]}${build}: ${titleOf(kind)} of ${kind.task}`)];
}

/** An error has one name everywhere: its class, and its code if that says more. */
function titleOf({ name, code }: Pick<ErrorKind, "name" | "code">): string {
  return code === null || code === name ? name : `${name} (${code})`;
}

function factsOf(kind: ErrorKind, { colors }: Terminal): string[] {
  const now = systemRuntime.now();
  const { changedAt, changedBy, cameBackAt, resolvedIn, builds, sample, first } = kind;
  const decided = changedAt === null ? "" : `, by ${changedBy ?? ""} ${relative(changedAt, now)}`;
  const lines = facts(colors, {
    state: `${kind.state}${resolvedIn === null ? "" : ` in build ${resolvedIn}`}${decided}`,
    back: cameBackAt === null ? null : moment(cameBackAt, now),
    message: kind.message,
    "failed now": `${kind.isFailedNowExact ? "" : "at least "}${counted(kind.failedNow, "job")}`,
    "failed ever": counted(kind.failed, "job"),
    retried: counted(kind.retried, "attempt"),
    first: moment(kind.firstAt, now),
    last: moment(kind.lastAt, now),
    builds: builds.length === 0 ? null : builds.join(", "),
    "first job": first.job,
    "newest job": sample.job,
    jobs: `holdfast jobs --kind ${kind.id}`,
  });
  return [`${colors.bold(printable(`${kind.task} ${titleOf(kind)}`))} ${kind.id}`, ...lines];
}
