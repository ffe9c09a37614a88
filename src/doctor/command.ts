/** `holdfast doctor`: checks the rules that the database cannot enforce by itself, and says how to fix violations. */
import { Command } from "commander";
import { HoldfastError } from "../core/errors.ts";
import type { CheckRecord, Finding, Offender, Severity } from "../database/check.ts";
import { systemRuntime } from "../core/runtime.ts";
import {
  actorName,
  instant,
  names,
  reasonOption,
  type ReasonOptions,
  wholeNumber,
} from "../terminal/arguments.ts";
import { count, counted, printable, relative, table } from "../terminal/table.ts";
import {
  type Colors,
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import { type Checked, type Diagnosis, Doctor, type DoctorTarget, type Fixed } from "./doctor.ts";

type Kit = CommandKit<DoctorTarget>;

interface DoctorOptions extends DatabaseOptions, ReasonOptions {
  readonly check?: string[];
  readonly quick?: boolean;
  readonly deep?: boolean;
  readonly fix?: boolean;
  readonly list?: boolean;
  readonly since?: Date;
  readonly limit: number;
}

/** Cases shown per check. */
const LIMIT_DEFAULT = 5;

const WIDTH_DEFAULT = 80;

/** Longer lines are hard to read, even where there is room. */
const WIDTH_MAX = 120;

const ABOUT_WIDTH = 11;

class UnhealthyError extends HoldfastError {
  constructor({ findings }: Diagnosis) {
    const bad = findings.filter(({ severity }) => severity !== "info").length;
    super(
      "NOT_WELL",
      `${bad === 1 ? "One check" : `${count(bad)} checks`} found problems, listed above.`,
    );
  }
}

export function doctorCommand(kit: Kit): Command {
  return new Command("doctor")
    .description("check the database for problems; exit code 1 if there are any")
    .addOption(urlOption())
    .option("--check <names>", "only these checks, comma-separated", names)
    .option("--quick", "only checks that stay fast on a large database")
    .option("--deep", "also run checks that take minutes on a large database")
    .option("--since <time>", "ignore format errors in history written before this time", instant)
    .option("--limit <n>", "maximum number of cases shown per check", wholeNumber, LIMIT_DEFAULT)
    .option("--fix", "apply the safe fixes; each is recorded in the audit log")
    .addOption(reasonOption())
    .option("--list", "list the checks")
    .action((options: DoctorOptions) => doctor(kit, options));
}

async function doctor({ terminal, open }: Kit, options: DoctorOptions): Promise<void> {
  await using holdfast = await open(options.url);
  const examiner = new Doctor(holdfast);
  if (options.list === true) {
    list(terminal, await examiner.checks());
    return;
  }
  const { check, quick = false, deep = false, limit, since, reason } = options;
  const checks = check === undefined ? {} : { checks: check };
  const why = reason === undefined ? {} : { reason };
  const fixed =
    options.fix === true ? await examiner.fix({ actor: actorName(), ...why, ...checks }) : null;
  const when = since === undefined ? {} : { since };
  const diagnosis = await examiner.examine({ quick, deep, limit, ...checks, ...when });
  if (terminal.json) terminal.printJson(fixed === null ? diagnosis : { ...diagnosis, fixed });
  else terminal.print(...(fixed === null ? [] : fixedLines(fixed)), ...report(diagnosis, terminal));
  if (!diagnosis.healthy) throw new UnhealthyError(diagnosis);
}

function fixedLines(fixed: readonly Fixed[]): string[] {
  if (fixed.length === 0) return ["Nothing to fix.", ""];
  const lines = fixed.map(
    ({ check, subjects }) => `Fixed ${check}: ${counted(subjects.length, "case")}.`,
  );
  return [...lines, ""];
}

function list(terminal: Terminal, checks: readonly CheckRecord[]): void {
  if (terminal.json) return terminal.printJson({ checks });
  const rows = checks.map(({ name, about, severity, cost, fixable, problem }) => [
    name,
    about,
    severity,
    cost,
    fixable ? "yes" : "",
    problem,
  ]);
  const columns = [
    { title: "CHECK" },
    { title: "ABOUT" },
    { title: "SEVERITY" },
    { title: "COST" },
    { title: "FIX" },
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
  if (findings.length === 0) return bold(green("no problems."));
  const by = (severity: Severity): number =>
    findings.filter((finding) => finding.severity === severity).length;
  const words = (["critical", "warning", "info"] as const)
    .filter((severity) => by(severity) > 0)
    .map((severity) => `${by(severity)} ${severity}`)
    .join(", ");
  return bold(healthy ? green(`${words}, no problems.`) : red(`${words}.`));
}

interface Page {
  readonly colors: Colors;
  readonly width: number;
}

/** The checks that found nothing, one line per subject. */
function wellLines(checks: readonly Checked[], { colors, width }: Page): string[] {
  const well = checks.filter(({ outcome }) => outcome === "ok");
  if (well.length === 0) return [];
  const lines = [...Map.groupBy(well, ({ about }) => about)].flatMap(([about, some]) => {
    const head = `ok  ${about.padEnd(ABOUT_WIDTH)}`;
    const text = head + some.map(({ name }) => name).join(", ");
    return wrapped(text, width, " ".repeat(head.length));
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
    ...offenders.flatMap((offender) => wrapped(`  - ${described(offender)}`, width, "    ")),
    ...(more ? [`  - … and more: --limit ${Math.max(100, offenders.length * 10)}`] : []),
    ...wrapped(`  → ${printable(remedy)}`, width, "    ").map(colors.dim),
  ];
}

function described({ subject, detail, sinceAt }: Offender): string {
  const since = sinceAt === null ? "" : ` (${relative(sinceAt, systemRuntime.now())})`;
  return printable(`${subject} ${detail}${since}`);
}

/** Wraps at this width, between words; all lines but the first begin with `indent`. */
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
