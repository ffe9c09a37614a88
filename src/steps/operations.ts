/** The verbs of effects in doubt, of reruns and of events. The command `rerun`, which shows the plan too, is written by hand. */
import { type Redaction, restoredInput } from "../config/redaction.ts";
import { invalid } from "../core/errors.ts";
import { defineEvent, type Emitted, type EventType } from "../core/event.ts";
import type { Status } from "../core/job.ts";
import { systemRuntime } from "../core/runtime.ts";
import { type EffectInDoubt, stepKinds, stepStates } from "../core/task.ts";
import type { Jobs } from "../jobs/jobs.ts";
import { attempts } from "../jobs/shapes.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { type Columns, flexible, plain, right, tableOf } from "../operations/show.ts";
import { counted, relative } from "../terminal/table.ts";

interface StepsApp {
  readonly jobs: Jobs;
  readonly redaction: Redaction;
}

const operation = operationsOf<StepsApp>("jobs");

const doubt = s
  .object({
    job: s.id,
    name: s.text(),
    occurrence: s.count,
    task: s.text(),
    queue: s.text(),
    begunAt: s.instant,
  })
  .named("Doubt", "An effect that started but whose outcome is unknown.");

const DOUBTS: Columns<EffectInDoubt> = [
  plain("JOB", ({ job }) => job),
  right("BEGUN", ({ begunAt }) => relative(begunAt, systemRuntime.now())),
  flexible("EFFECT", ({ name, occurrence }) =>
    occurrence === 1 ? name : `${name} (${occurrence})`,
  ),
  flexible("TASK", ({ task }) => task),
];

const which = s.integer({ min: 1 }).optional();

interface TypedOutcome {
  readonly job: string;
  readonly step: string;
  readonly done?: boolean;
  readonly notDone?: boolean;
  readonly occurrence: number;
  readonly result?: unknown;
}

const effectOperations = {
  list: operation({
    name: "listEffects",
    summary: "List effects in doubt",
    access: "viewer",
    input: { limit: s.pageLimit.optional() },
    returns: "The effects, oldest first.",
    result: s.object({ effects: s.list(doubt) }),
    run: async ({ jobs }, input) => ({ effects: await jobs.effectsInDoubt(input) }),
    http: { method: "GET", path: "/api/v1/effects" },
    cli: {
      command: "effects list",
      about: "list effects that may or may not have happened, oldest first",
      flags: { limit: { about: "maximum number of effects", initial: 50 } },
      examples: ["effects list"],
      show: async ({ effects }, { app, terminal }) => {
        if (effects.length === 0) return ["No effects in doubt."];
        const ids = effects.map(({ job }) => job);
        const short = terminal.columns === null ? null : await app.jobs.shortIds(ids);
        const shown = effects.map((one) => ({ ...one, job: short?.get(one.job) ?? one.job }));
        const hints = [
          `${counted(effects.length, "effect")} in doubt. Find out whether it happened, then run:`,
          "holdfast effects resolve <job> <effect> --done [--result <json>]  or  --not-done",
        ];
        return [...tableOf(DOUBTS, shown, terminal), "", ...hints.map(terminal.colors.dim)];
      },
    },
    agent: "Effects that started and whose outcome is unknown. Their jobs wait for an operator.",
  }),

  resolve: operation({
    name: "resolveDoubt",
    summary: "Resolve an effect in doubt; its job continues",
    access: "operator",
    input: {
      id: s.id,
      name: s.name,
      occurrence: which,
      done: s.boolean(),
      result: s.anything().optional(),
    },
    isAudited: true,
    returns: "The decision is recorded.",
    result: s.object({ id: s.id, done: s.boolean() }),
    run: async ({ jobs }, { id, name, occurrence = 1, done, result }, { by }) => {
      const happened = done ? { done, result } : { done };
      await jobs.resolve({ job: id, name, occurrence }, happened, by);
      return { id, done };
    },
    http: { method: "POST", path: "/api/v1/jobs/{id}/resolve" },
    cli: {
      command: "effects resolve",
      about: "record whether an effect happened, and continue its job",
      arguments: { job: "the job's id, or an unambiguous prefix", step: "the effect's name" },
      flags: {
        done: { about: "the effect happened" },
        notDone: { about: "it did not happen: the job performs it again" },
        result: { about: "with --done: the result of the effect" },
        occurrence: { about: "which one, if several effects have this name", initial: 1 },
      },
      typed: { job: s.text(), step: s.text(), notDone: s.boolean().optional() },
      inputOf: ({ job, step, done = false, notDone = false, ...rest }: TypedOutcome) => {
        if (done === notDone) throw invalid("done", "pass either --done or --not-done.");
        if (notDone && "result" in rest) throw invalid("result", "requires --done.");
        return { id: job, name: step, done, ...rest };
      },
      ids: { id: async (app, typed) => (await import("../jobs/command.ts")).jobId(app, typed) },
      examples: [
        `effects resolve 01890a5d charge --done --result '{"paid":true}'`,
        "effects resolve 01890a5d charge --not-done",
      ],
      json: ({ id: job, done }, { name, occurrence }) => ({ job, name, occurrence, done }),
      show: ({ id, done }, { input: { name } }) => [
        `Job ${id} continues: ${name} ${done ? "happened" : "did not happen"}`,
      ],
    },
  }),
};

export const effectCommands = {
  name: "effects",
  about: "list and resolve effects in doubt",
  parts: Object.values(effectOperations),
};

// Running an ended job again from a step.

const plannedStep = s.object({
  name: s.text(),
  occurrence: s.count,
  kind: s.choice(stepKinds),
  status: s.choice(stepStates),
});

const rerunPlan = s
  .object({
    job: s.id,
    from: s.object({ name: s.text(), occurrence: s.count }).nullable(),
    keeps: s.list(plannedStep),
    repeats: s.list(plannedStep),
    confirm: s.list(s.text()),
  })
  .named(
    "RerunPlan",
    "Which steps would keep their results and which would run again. `confirm` names those that change something outside the job.",
  );

/** Names of confirmed steps: a job has fewer steps. */
const CONFIRM_MAX = 10_000;

const PENDING: Status = "pending";

const rerunOperations = {
  plan: operation({
    name: "planRerun",
    summary: "Show what a rerun from a step would repeat",
    access: "viewer",
    input: {
      id: s.id,
      from: s.name.optional().about("The step to start from; if omitted, the beginning."),
      occurrence: which.about("Which step, if several have this name."),
    },
    returns: "The plan; nothing is changed.",
    result: rerunPlan,
    run: ({ jobs }, { id, from: name, occurrence = 1 }) =>
      jobs.planRerun(id, { from: name === undefined ? null : { name, occurrence } }),
    http: { method: "GET", path: "/api/v1/jobs/{id}/rerun-plan" },
    agent: "What a rerun of an ended job from a step would repeat, and what it would not.",
  }),

  rerun: operation({
    name: "rerunJob",
    summary: "Run an ended job again from a step",
    access: "operator",
    input: {
      id: s.id,
      from: s
        .union<string | { readonly name: string; readonly occurrence: number }>(
          s.name,
          s.strict({ name: s.name, occurrence: s.integer({ min: 1 }) }),
        )
        .nullable()
        .about("The step to start from; null: the beginning."),
      confirm: s
        .list(s.text(), { max: CONFIRM_MAX })
        .optional()
        .about("`confirm` of the plan: the steps that may happen again."),
      input: s.anything().optional().about("Replaces the input."),
      attempts: attempts.optional(),
    },
    isAudited: true,
    returns: "The job is pending again.",
    result: s.object({ id: s.id, status: s.status }),
    run: async ({ jobs, redaction }, { id, input, ...how }, { by, ids }) => {
      const given =
        input === undefined ? {} : { input: await restoredInput({ jobs, redaction }, id, input) };
      await jobs.rerun(id, { ...by, ...how, ...given }, ids[0]);
      return { id, status: PENDING };
    },
    http: {
      method: "POST",
      path: "/api/v1/jobs/{id}/rerun",
      problems: [409, 413],
      repeatable: true,
      restores: true,
    },
  }),
};

export const stepOperations = { ...effectOperations, ...rerunOperations };

interface EventsApp {
  emit(event: EventType, key: string, payload: unknown): Promise<Emitted>;
}

export const eventOperations = {
  emit: operationsOf<EventsApp>("jobs")({
    name: "emitEvent",
    summary: "Emit an event; jobs waiting for it continue",
    access: "operator",
    input: { name: s.name, key: s.key, payload: s.anything().optional() },
    returns: "If `first` is false, the event was emitted before and keeps its first payload.",
    result: s.object({ first: s.boolean(), woken: s.count }),
    run: async (app, { name, key, payload = null }) => {
      const { first, woken } = await app.emit(defineEvent<unknown>({ name }), key, payload);
      return { first, woken };
    },
    http: { method: "POST", path: "/api/v1/events", problems: [413] },
    cli: {
      command: "events emit",
      about: "emit an event; jobs waiting for it continue",
      arguments: { name: "the event's name", key: "what the event is about" },
      flags: { payload: { about: "the payload (default: null)" } },
      examples: [`events emit order.paid 42 --payload '{"cents":500}'`],
      show: ({ first, woken }, { input: { name, key } }) => [
        first
          ? `Emitted ${name} ${key}; ${counted(woken, "job")} continued`
          : `${name} ${key} was emitted before and keeps its first payload`,
      ],
    },
  }),
};

export const eventCommands = {
  name: "events",
  about: "emit events that jobs wait for",
  parts: Object.values(eventOperations),
};
