/**
 * Holds what everybody says against what the witness saw. Shares no code with the product.
 *
 * The invariants have the numbers that docs/evidence/simulation.md gives them.
 */
import { checkAnswers, livesOf } from "./answers.ts";
import { checkEffects } from "./effects.ts";
import { Findings, type Evidence, type Violation } from "./evidence.ts";
import { Lives, type Life } from "./life.ts";
import { checkLimits, checkTicks } from "./limits.ts";
import { checkSteps } from "./steps.ts";

export type { Violation } from "./evidence.ts";

export function check(evidence: Evidence): readonly Violation[] {
  const findings = new Findings();
  const lives = new Lives(evidence, findings).read();
  checkAnswers(evidence, lives, findings);
  checkAttempts(evidence, lives, findings);
  checkKeys(evidence, lives, findings);
  const steps = checkSteps(evidence, lives, findings);
  checkEffects(evidence, lives, steps, findings);
  checkLimits(evidence, findings);
  checkTicks(evidence, findings);
  if (evidence.stuck !== null) findings.add("I14 liveness", whyStuck(evidence.stuck, lives));
  return findings.violations;
}

/** The counters follow from what happened, and the history of attempts tells it. */
function checkAttempts({ tables }: Evidence, lives: Lives, findings: Findings): void {
  const told = new Map<string, string[]>();
  for (const { job_id: job, epoch, attempt, worker, outcome } of tables.attempt) {
    told.set(job, [...(told.get(job) ?? []), `${epoch} ${attempt} ${worker} ${outcome}`]);
  }
  for (const life of lives.jobs.values()) {
    const { id, row, claims, givenBack, attempts } = life;
    if (row === null) continue;
    if (row.epoch !== claims)
      findings.add("I3 epochs", `${id} was claimed ${claims} times and has the epoch ${row.epoch}`);
    if (row.attempts !== claims - givenBack) {
      findings.add(
        "I7 attempts",
        `${id} was claimed ${claims} times, ${givenBack} were given back, and is charged ${row.attempts}`,
      );
    }
    const seen = attempts
      .map(({ epoch, attempt, worker, outcome }) => `${epoch} ${attempt} ${worker} ${outcome}`)
      .join("; ");
    const said = (told.get(id) ?? []).join("; ");
    if (seen !== said)
      findings.add("I9 the attempts' history", `${id}: seen ${seen}; told ${said}`);
  }
}

/** At no moment had two jobs of a task the same key; every live job has its key, and no other job has one. */
function checkKeys({ tables }: Evidence, lives: Lives, findings: Findings): void {
  const holders = new Map<string, Life[]>();
  for (const life of lives.jobs.values()) {
    if (life.key === null) continue;
    const name = `${life.task} ${life.key}`;
    holders.set(name, [...(holders.get(name) ?? []), life]);
  }
  for (const [name, jobs] of holders) {
    const spans = jobs.flatMap((life) => livesOf(life).map((span) => ({ ...span, id: life.id })));
    const inOrder = spans.toSorted((a, b) => a.from - b.from);
    inOrder.forEach(({ from, id }, index) => {
      const before = inOrder[index - 1];
      if (before !== undefined && before.to > from) {
        findings.add(
          "I2 no phantom, no duplicate",
          `${before.id} and ${id} had the key ${name} at once`,
        );
      }
    });
  }
  const live = [...lives.jobs.values()].filter(
    ({ key, table }) => key !== null && table !== "finished",
  );
  const expected = live.map(({ id, task, key }) => `${task} ${key} ${id}`).toSorted();
  const found = tables.job_key
    .map(({ task, job_key: key, job_id: id }) => `${task} ${key} ${id}`)
    .toSorted();
  if (expected.join() !== found.join()) {
    findings.add(
      "I2 no phantom, no duplicate",
      `keys held: ${found.join(", ")}; by live jobs: ${expected.join(", ")}`,
    );
  }
}

function whyStuck(stuck: string, lives: Lives): string {
  const left = [...lives.jobs.values()].filter(({ table }) => table !== "finished");
  const told = left.map(
    ({ id, task, row }) => `${id} (${task}) is ${row?.status}, epoch ${row?.epoch}`,
  );
  return [stuck, ...told].join("; ");
}
