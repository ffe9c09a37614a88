/** `holdfast doctor`: whether every rule holds that the database cannot enforce by itself, and what to do where one does not. */
import { Command } from "commander";
import { HoldfastError } from "../core/errors.ts";
import type { Finding, Offender, Severity } from "../core/finding.ts";
import { systemRuntime } from "../core/runtime.ts";
import { Doctor, type Checked, type Diagnosis, type Fixed } from "../ops/doctor.ts";
import type { CheckRecord } from "../store/findings.ts";
import { actorName, reasonOption, type ReasonOptions } from "./actor.ts";
import { instant, names, wholeNumber } from "./arguments.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { printable, table } from "./table.ts";
import type { Colors, Terminal } from "./terminal.ts";
import { count, counted, relative } from "./words.ts";

interface DoctorOptions extends DatabaseOptions, ReasonOptions {
  readonly check?: string[];
  readonly quick?: boolean;
  readonly deep?: boolean;
  readonly fix?: boolean;
  readonly list?: boolean;
  readonly since?: Date;
  readonly limit: number;
}

/** Of each, so many are shown. */
const LIMIT_DEFAULT = 5;
const WIDTH_DEFAULT = 80;
/** Where there is room for more, lines are not longer than is good to read. */
const WIDTH_MAX = 120;
const ABOUT_WIDTH = 11;

class NotWell extends HoldfastError {
  constructor({ findings }: Diagnosis) {
    const bad = findings.filter(({ severity }) => severity !== "info").length;
    super(
      "NOT_WELL",
      `${bad === 1 ? "One check" : `${count(bad)} checks`} found something wrong: see above.`,
    );
  }
}

export function doctorCommand(terminal: Terminal): Command {
  return new Command("doctor")
    .description("look for what is wrong in the database; exit code 1 if something is")
    .addOption(urlOption())
    .option("--check <names>", "only these, with commas between them", names)
    .option("--quick", "only what costs little, whatever is stored")
    .option("--deep", "also what takes long")
    .option("--since <time>", "leave alone what was written into history before", instant)
    .option("--limit <n>", "how many of each are shown", wholeNumber, LIMIT_DEFAULT)
    .option("--fix", "mend what can be mended without anybody's judgement; it is on record")
    .addOption(reasonOption())
    .option("--list", "list the checks")
    .action((options: DoctorOptions) => doctor(terminal, options));
}

async function doctor(terminal: Terminal, options: DoctorOptions): Promise<void> {
  await using holdfast = await openForLooking(options.url);
  const examiner = new Doctor(holdfast);
  if (options.list === true) {
    list(terminal, await examiner.checks());
    return;
  }
  const fixed = options.fix === true ? await mend(examiner, options) : null;
  const diagnosis = await examiner.examine(whatToLookFor(options));
  if (terminal.json) terminal.printJson(fixed === null ? diagnosis : { ...diagnosis, fixed });
  else
    terminal.print(...(fixed === null ? [] : mendedLines(fixed)), ...report(diagnosis, terminal));
  if (!diagnosis.healthy) throw new NotWell(diagnosis);
}

function whatToLookFor({ check, quick = false, deep = false, limit, since }: DoctorOptions) {
  return {
    quick,
    deep,
    limit,
    ...(check === undefined ? {} : { checks: check }),
    ...(since === undefined ? {} : { since }),
  };
}

function mend(examiner: Doctor, { check, reason }: DoctorOptions): Promise<Fixed[]> {
  return examiner.fix({
    actor: actorName(),
    ...(check === undefined ? {} : { checks: check }),
    ...(reason === undefined ? {} : { reason }),
  });
}

function mendedLines(fixed: readonly Fixed[]): string[] {
  if (fixed.length === 0) return ["Nothing was there to be mended.", ""];
  return [
    ...fixed.map(({ check, subjects }) => `Mended ${check}: ${counted(subjects.length, "case")}.`),
    "",
  ];
}

function list(terminal: Terminal, checks: readonly CheckRecord[]): void {
  if (terminal.json) return terminal.printJson({ checks });
  const rows = checks.map(({ name, about, severity, cost, fixable, problem }) => [
    name,
    about,
    severity,
    cost,
    fixable ? "--fix" : "",
    problem,
  ]);
  const columns = [
    { title: "CHECK" },
    { title: "ABOUT" },
    { title: "SEVERITY" },
    { title: "COST" },
    { title: "MENDS" },
    { title: "WHAT IT FINDS", flexible: true },
  ];
  terminal.print(
    ...table({ columns, rows, width: terminal.columns, paintTitle: terminal.colors.bold }),
  );
}

function report(diagnosis: Diagnosis, terminal: Terminal): string[] {
  const { checks, findings, tookMs } = diagnosis;
  const width = Math.min(terminal.columns ?? WIDTH_DEFAULT, WIDTH_MAX);
  const { colors } = terminal;
  return [
    ...findings.flatMap((finding) => [...findingLines(finding, { colors, width }), ""]),
    ...wellLines(checks, { colors, width }),
    `${counted(checks.length, "check")} in ${Math.ceil(tookMs)} ms: ${verdict(diagnosis, colors)}`,
  ];
}

function verdict({ findings, healthy }: Diagnosis, { bold, green, red }: Colors): string {
  if (findings.length === 0) return bold(green("all is well."));
  const by = (severity: Severity): number =>
    findings.filter((finding) => finding.severity === severity).length;
  const words = (["critical", "warning", "info"] as const)
    .filter((severity) => by(severity) > 0)
    .map((severity) => `${by(severity)} ${severity}`)
    .join(", ");
  return bold(healthy ? green(`${words}, nothing that is wrong.`) : red(`${words}.`));
}

interface Page {
  readonly colors: Colors;
  readonly width: number;
}

/** The checks that found nothing, a line for what they are about. */
function wellLines(checks: readonly Checked[], { colors, width }: Page): string[] {
  const well = checks.filter(({ outcome }) => outcome === "ok");
  if (well.length === 0) return [];
  const lines = [...Map.groupBy(well, ({ about }) => about)].flatMap(([about, some]) => {
    const head = `ok  ${about.padEnd(ABOUT_WIDTH)}`;
    return wrapped(
      `${head}${some.map(({ name }) => name).join(", ")}`,
      width,
      " ".repeat(head.length),
    );
  });
  return [...lines.map(colors.dim), ""];
}

const TONES = { critical: "red", warning: "yellow", info: "cyan" } as const;

function findingLines(finding: Finding, { colors, width }: Page): string[] {
  const { check, severity, problem, remedy, offenders, more } = finding;
  const paint = colors[TONES[severity]];
  return [
    `${paint(severity)} ${colors.bold(check)}`,
    ...wrapped(`  ${printable(problem)}`, width, "  "),
    ...offenders.flatMap((offender) => wrapped(`  - ${tell(offender)}`, width, "    ")),
    ...(more ? [`  - … and more: --limit ${nextLimit(offenders.length)}`] : []),
    ...wrapped(`  → ${printable(remedy)}`, width, "    ").map(colors.dim),
  ];
}

function nextLimit(shown: number): number {
  return Math.max(100, shown * 10);
}

function tell({ subject, detail, sinceAt }: Offender): string {
  const since = sinceAt === null ? "" : ` (${relative(sinceAt, systemRuntime.now())})`;
  return printable(`${subject} ${detail}${since}`);
}

/** In lines of this width, broken between words; all but the first begin with `indent`. */
function wrapped(text: string, width: number, indent: string): string[] {
  const words = text.split(/(?<=\S) (?=\S)/);
  const lines = [words[0] ?? ""];
  for (const word of words.slice(1)) {
    const line = lines.at(-1) ?? "";
    if (line.length + 1 + word.length > width) lines.push(indent + word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}
