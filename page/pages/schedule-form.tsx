/** The form of a schedule, which tells what its timing means while it is typed. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { sentence } from "../api.ts";
import {
  createScheduleRequestDefaults,
  type EditScheduleRequest,
  type Schedule,
} from "../api.gen.ts";
import { post } from "../client.ts";
import { durationOf, durationText } from "../duration.ts";
import * as f from "../format.ts";
import { useRead } from "../live.ts";
import { type Answers, ask, type Field, reasonIn, toast } from "../notices.ts";
import { go, to } from "../router.ts";
import { parsed } from "./json-text.ts";

const OVERLAPS = [
  { value: "allow", text: "run both" },
  { value: "skip", text: "leave this run out" },
  { value: "queue", text: "run it afterwards" },
] as const;

const MISSED = [
  { value: "once", text: "make up for one" },
  { value: "skip", text: "leave them out" },
] as const;

type Missed = Schedule["missed"];

/** A choice of a form is a text: `all:20` stands for up to 20 runs. */
function missedText(missed: Missed): string {
  return typeof missed === "string" ? missed : `all:${missed.all}`;
}

function missedOf(text: string): Missed {
  if (text.startsWith("all:")) return { all: Number(text.slice("all:".length)) };
  return text === "skip" ? "skip" : "once";
}

/** Those of the form, and what this schedule has beside them. */
function missedChoices(schedule: Schedule | null) {
  const missed = schedule?.missed;
  if (missed === undefined || typeof missed === "string") return MISSED;
  return [...MISSED, { value: missedText(missed), text: `make up for up to ${missed.all}` }];
}

function fieldsOf(schedule: Schedule | null): Field[] {
  const every = schedule?.everyMs ?? null;
  return [
    ...(schedule === null
      ? [
          { name: "name", label: "Name", required: true },
          { name: "task", label: "Task", required: true },
        ]
      : []),
    {
      name: "cron",
      label: "Cron",
      value: schedule?.cron ?? "",
      hint: "such as 30 2 * * * for every day at 02:30",
    },
    {
      name: "every",
      label: "or every",
      value: every === null ? "" : durationText(every),
      hint: "such as 10 s, 5 min, 1 h 30 min, 1 day",
    },
    {
      name: "timeZone",
      label: "Time zone",
      value: schedule?.timeZone ?? (schedule === null ? f.zoneName() : ""),
      list: zones(),
      told: (answers: Answers) => <Tried answers={answers} />,
    },
    {
      name: "input",
      label: "Payload (JSON)",
      kind: "area" as const,
      value: JSON.stringify(schedule?.input ?? null, null, 2),
    },
    {
      name: "overlap",
      label: "If the one before still runs",
      kind: "choice" as const,
      value: schedule?.overlap ?? createScheduleRequestDefaults.overlap,
      choices: OVERLAPS,
    },
    {
      name: "missed",
      label: "If runs were missed",
      kind: "choice" as const,
      value: schedule === null ? "once" : missedText(schedule.missed),
      choices: missedChoices(schedule),
    },
  ];
}

function zones(): readonly string[] {
  return ["UTC", ...Intl.supportedValuesOf("timeZone")];
}

function textIn(answers: Answers, name: string): string {
  return String(answers[name] ?? "").trim();
}

/** The timing as it is typed. What is no duration is left to the server, which says what to write. */
function timingIn(answers: Answers): Pick<EditScheduleRequest, "cron" | "every" | "timeZone"> {
  const [cron, every, timeZone] = ["cron", "every", "timeZone"].map((name) =>
    textIn(answers, name),
  );
  if (cron === "" || cron === undefined) return { every: durationOf(every ?? "") ?? every ?? "" };
  return { cron, ...(timeZone === "" || timeZone === undefined ? {} : { timeZone }) };
}

/** Only what was changed: a form does not know everything that a schedule may be. */
function changesIn(answers: Answers, schedule: Schedule): EditScheduleRequest {
  const before = new Map(fieldsOf(schedule).map(({ name, value }) => [name, value]));
  const isChanged = (name: string): boolean => answers[name] !== before.get(name);
  const timing = ["cron", "every", "timeZone"].some(isChanged);
  // Who types a cron expression into a form that has an interval means the expression, and the other way round.
  const typed = isChanged("every") && !isChanged("cron") ? { ...answers, cron: "" } : answers;
  return {
    ...(timing ? timingIn(typed) : {}),
    ...(isChanged("input") ? { input: parsed(textIn(answers, "input")) } : {}),
    ...(isChanged("overlap") ? { overlap: overlapIn(answers) } : {}),
    ...(isChanged("missed") ? { missed: missedOf(textIn(answers, "missed")) } : {}),
  };
}

function overlapIn(answers: Answers): Schedule["overlap"] {
  return OVERLAPS.find(({ value }) => value === answers["overlap"])?.value ?? "allow";
}

export function askNew(): void {
  ask({
    title: "New schedule",
    wide: true,
    fields: fieldsOf(null),
    reason: true,
    confirm: "Create it",
    run: async (answers) => {
      await post("schedules", {
        name: textIn(answers, "name"),
        task: textIn(answers, "task"),
        ...timingIn(answers),
        input: parsed(textIn(answers, "input")),
        overlap: overlapIn(answers),
        missed: missedOf(textIn(answers, "missed")),
        ...reasonIn(answers),
      });
      toast("The schedule is created.");
    },
  });
}

export function askEdit(schedule: Schedule): void {
  const { name, revision } = schedule;
  ask({
    title: `Change ${name}`,
    wide: true,
    fields: fieldsOf(schedule),
    reason: true,
    confirm: "Change it",
    run: async (answers) => {
      const changes = changesIn(answers, schedule);
      if (Object.keys(changes).length === 0) return;
      await post("schedules/{name}/edit", { name, ...changes, revision, ...reasonIn(answers) });
      toast(`${name} is changed.`);
    },
  });
}

const TYPING_MS = 250;

/** The timing in words with its next runs, once a person stops typing. */
function Tried({ answers }: { readonly answers: Answers }): JSX.Element | null {
  const { every, ...timing } = timingIn(answers);
  const asked = JSON.stringify(
    every === undefined ? timing : { every: `${every}${typeof every === "number" ? "ms" : ""}` },
  );
  const [settled, settle] = useState(asked);
  useEffect(() => {
    const timer = setTimeout(() => settle(asked), TYPING_MS);
    return () => clearTimeout(timer);
  }, [asked]);
  const wanted = JSON.parse(settled) as { cron?: string; every?: string; timeZone?: string };
  const isEmpty = (wanted.cron ?? wanted.every ?? "") === "";
  const from = useRead("schedule-preview", isEmpty ? null : wanted, PREVIEW_EVERY_MS);
  if (isEmpty) return null;
  if (from.error !== null) return <p class="sm retry">{sentence(from.error)}</p>;
  if (from.data === undefined) return <p class="sm faint">…</p>;
  const { words, nextRuns, clock } = from.data;
  return (
    <div class="tried sm">
      <p class="strong">{words}</p>
      <NextRuns at={nextRuns} zone={wanted.timeZone ?? null} />
      {clock !== null && <p class="retry">{clock}</p>}
    </div>
  );
}

const PREVIEW_EVERY_MS = 60_000;

/** In the viewer's zone, and in that of the schedule where it is another one. */
function NextRuns({
  at: all,
  zone,
}: {
  readonly at: readonly number[];
  readonly zone: string | null;
}): JSX.Element {
  if (all.length === 0) return <p class="dim">It never runs.</p>;
  const isOther = zone !== null && zone !== f.zoneName();
  return (
    <ol class="dim" aria-label="Next runs">
      {all.map((at) => (
        <li key={at}>
          {f.dayOf(at)}, {f.timeOfDay(at)}
          {isOther && <span class="faint"> ({f.inZone(at, zone)})</span>}
        </li>
      ))}
    </ol>
  );
}

export function askDelete(schedule: Schedule): void {
  ask({
    title: `Delete ${schedule.name}?`,
    body: (
      <p>
        It runs no more. The jobs it has enqueued stay.
        {schedule.declaredBy !== null &&
          ` Build ${schedule.declaredBy} declares it in code: it would come back with the next start unless the code changes.`}
      </p>
    ),
    fields:
      schedule.declaredBy === null
        ? []
        : [{ name: "force", label: "Delete it although code declares it", kind: "check" }],
    reason: true,
    danger: true,
    confirm: "Delete it",
    run: async (answers) => {
      await post("schedules/{name}/delete", {
        name: schedule.name,
        ...(answers["force"] === true ? { force: true } : {}),
        ...reasonIn(answers),
      });
      go(to("schedules"));
      toast(`${schedule.name} is deleted.`);
    },
  });
}
