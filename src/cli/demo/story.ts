/** What the demo tells: the plan in two lines, the proof in a table, the verdict in one. */
import { HoldfastError } from "../../core/errors.ts";
import { table, type Cell } from "../table.ts";
import type { Terminal } from "../terminal.ts";
import { count } from "../words.ts";
import type { Fault } from "./plan.ts";
import { seconds } from "./progress.ts";
import { problemsIn, type Evidence } from "./proof.ts";

class ProofFailed extends HoldfastError {
  constructor(facts: { problems: readonly string[]; seed: number }) {
    super(
      "PROOF_FAILED",
      `NOT PROVED: ${facts.problems.join("; ")}. Please report it with the seed ${facts.seed}.`,
    );
  }
}

export function sayPlan(
  terminal: Terminal,
  { orders, workers, seed }: { orders: number; workers: number; seed: number },
  faults: readonly Fault[],
): void {
  if (terminal.json) return;
  const kills = faults.filter(({ kind }) => kind === "kill").length;
  const freezes = faults.length - kills;
  const { bold, dim } = terminal.colors;
  const what = bold(`${count(orders)} orders`);
  terminal.print(
    `${what} in one SQLite file, and ${workers} worker processes that book them.`,
    `At random, ${kills}× kill -9 and ${freezes}× frozen past the lease. ${dim(`(--seed ${seed})`)}`,
    "",
  );
}

/** Throws when the promise was broken. */
export function sayProof(
  terminal: Terminal,
  evidence: Evidence,
  { seed, ms }: { seed: number; ms: number },
): void {
  const problems = problemsIn(evidence);
  const proved = problems.length === 0;
  if (terminal.json) {
    terminal.printJson({ proved, seed, ms: Math.round(ms), ...evidence, problems });
  } else {
    terminal.print(...proofTable(terminal, evidence), "");
  }
  if (!proved) throw new ProofFailed({ problems, seed });
  if (terminal.json) return;
  const { bold, green } = terminal.colors;
  const verdict = `PROVED in ${seconds(ms)}: nothing was lost, nothing was booked twice.`;
  terminal.print(bold(green(verdict)));
}

function proofTable({ colors, columns }: Terminal, evidence: Evidence): string[] {
  const { green, red, dim } = colors;
  const must = (held: boolean): Cell =>
    held ? { text: "✓", paint: green } : { text: "✗ broken", paint: red };
  const note = (text: string): Cell => ({ text, paint: dim });
  const { accepted, booked, centsAsked, centsBooked, takenOver, staleWritesRefused } = evidence;
  const rows: [string, string, Cell][] = [
    ["orders accepted", count(accepted), note("")],
    ["orders booked", count(booked), must(booked === accepted)],
    ["orders lost", count(evidence.lost), must(evidence.lost === 0)],
    ["orders booked twice", count(evidence.bookedTwice), must(evidence.bookedTwice === 0)],
    ["jobs not done exactly once", count(evidence.notDoneOnce), must(evidence.notDoneOnce === 0)],
    ["jobs left over", count(evidence.unfinished), must(evidence.unfinished === 0)],
    ["money in the till", money(centsBooked), must(centsBooked === centsAsked)],
    ["workers killed with kill -9", count(evidence.kills), must(evidence.kills > 0)],
    ["workers frozen past their lease", count(evidence.freezes), note("")],
    ["leases recovered", count(evidence.leasesRecovered), note("orders of the dead and frozen")],
    [
      "late writes refused",
      count(staleWritesRefused),
      takenOver > 0 ? must(staleWritesRefused > 0) : note(""),
    ],
    ["attempts repeated", count(evidence.attemptsRepeated), note("")],
    ["bookings tried again", count(evidence.bookingsRepeated), note("and found booked")],
  ];
  const [, ...lines] = table({
    columns: [{ title: "" }, { title: "", align: "right" }, { title: "", flexible: true }],
    rows,
    width: columns === null ? null : columns - 2,
  });
  return lines.map((line) => `  ${line}`);
}

function money(cents: number): string {
  return (cents / 100).toLocaleString("en-US", { minimumFractionDigits: 2 });
}
