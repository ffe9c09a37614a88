/**
 * Scripts: all that one actor may say in a race, whatever it is answered.
 *
 * The product is asked what it says after each answer that can be met: those that the database gives before, between and
 * after the other actors' verbs, and the empty one, when another actor was faster. A player that meets any other
 * answer fails, and says so.
 */
import type { PgQuery, PgResult } from "../../src/database/postgres/address.ts";
import type { Verb } from "./verbs.ts";
import { spoken, type Answer, type Picture, type Stage } from "./stage.ts";

/** Changes a text of the product: a bug that is planted. */
export type Plant = (text: string) => string;

/**
 * Where the gates stand. In statements: before and inside each that others can meet, and before each commit. At commits:
 * before each commit and between verbs. Between verbs: nowhere else. In flows: before each statement that decides what
 * becomes of a job that waits for another, and before each commit. In limits: before each lock of a gate, each count of
 * leases and each look for jobs, and before each commit.
 */
export type Stops = "in statements" | "at commits" | "between verbs" | "in flows" | "in limits";

export interface Actor {
  readonly verbs: readonly Verb[];
  /** In how many pieces it runs: one more than there are gates that stop it. Later gates stand open. */
  readonly pieces: number;
  readonly stops: Stops;
  /** How often a rehearsal at most pretends that another actor was faster. */
  readonly pretends?: number;
}

type Node = Question | { readonly tells: unknown };

interface Question {
  readonly asks: PgQuery;
  readonly branches: Map<string, { readonly answer: PgResult; readonly next: Node }>;
}

/** A row of iso.step, with its rows of iso.branch. */
export interface Step {
  readonly at: number;
  readonly kind: "ask" | "begin" | "commit" | "tell";
  readonly gated: boolean;
  readonly text?: string;
  readonly arguments?: readonly string[];
  readonly has_rows?: boolean;
  readonly stands_alone?: boolean;
  readonly stops_alone?: boolean;
  readonly told?: unknown;
  next: number | null;
  readonly branches: { readonly key: string; readonly next: number }[];
}

/** How often a rehearsal at most pretends that another actor was faster. An actor that meets more than that fails. */
const PRETENDED_MAX = 4;

/** Writes down what one actor may say in a race that can bring the tables into these states. */
export async function rehearse(
  stage: Stage,
  actor: Actor,
  options: { pictures: readonly Picture[]; plant: Plant },
): Promise<Step[]> {
  const writer = new Writer(actor.stops);
  for (const verb of actor.verbs) {
    const rehearsal = new Rehearsal(stage, verb, options.plant);
    writer.add(await rehearsal.on(options.pictures, actor.pretends ?? PRETENDED_MAX));
  }
  return writer.steps;
}

class Rehearsal {
  readonly #stage: Stage;
  readonly #verb: Verb;
  readonly #plant: Plant;

  constructor(stage: Stage, verb: Verb, plant: Plant) {
    this.#stage = stage;
    this.#verb = verb;
    this.#plant = plant;
  }

  async on(pictures: readonly Picture[], pretended: number): Promise<Node> {
    const root = await this.#node([]);
    for (const picture of pictures) {
      await this.#stage.on(picture, () => this.#explore(root, [], pretended));
    }
    return root;
  }

  async #node(heard: readonly PgResult[]): Promise<Node> {
    const next = await this.#stage.product.next(this.#verb, heard);
    if ("tells" in next) return next;
    const text = this.#plant(next.asks.text);
    return { asks: { ...next.asks, text }, branches: new Map() };
  }

  async #explore(node: Node, heard: readonly PgResult[], pretended: number): Promise<void> {
    if ("tells" in node) return;
    if (isBoundary(node.asks.text)) return this.#follow(node, heard, NO_ANSWER, pretended);
    const met = await this.#stage.after(node.asks, (answer) =>
      this.#follow(node, heard, answer, pretended),
    );
    if (met === null || pretended === 0 || !isAboutJobs(node.asks.text)) return;
    for (const less of [...lessThan(met), ...withoutGates(met)])
      await this.#follow(node, heard, less, pretended - 1);
  }

  async #follow(
    node: Question,
    heard: readonly PgResult[],
    answer: Answer,
    pretended: number,
  ): Promise<void> {
    const { result } = answer;
    const key = answer.rows.toSorted().join("\n");
    const now = [...heard, result];
    let branch = node.branches.get(key);
    if (branch === undefined) {
      branch = { answer: result, next: await this.#node(now) };
      node.branches.set(key, branch);
    }
    await this.#explore(branch.next, now, pretended);
  }
}

/** Where on the way a node stands. */
interface Place {
  /** Outside a transaction. */
  readonly alone: boolean;
  /** No other actor could have noticed this one before it, or before the verb that begins here. */
  readonly opens: "actor" | "verb" | null;
}

/** Puts the scripts of an actor's verbs one behind the other, and the gates where they belong. */
class Writer {
  readonly steps: Step[] = [];
  readonly #stops: Stops;
  #ends: Step[] = [];

  constructor(stops: Stops) {
    this.#stops = stops;
  }

  add(root: Node): void {
    const before = this.#ends;
    this.#ends = [];
    const opens = this.steps.length === 0 ? "actor" : "verb";
    const first = this.#write(root, { alone: true, opens });
    for (const end of before) end.next = first;
  }

  #write(node: Node, place: Place): number {
    if ("tells" in node) return this.#ending(node.tells);
    const { text } = node.asks;
    if (isBoundary(text)) return this.#boundary(node, place);
    const step = this.#question(node, place);
    const opens = this.#meetsOthers(text) ? null : place.opens;
    for (const [key, { next }] of node.branches) {
      step.branches.push({ key, next: this.#write(next, { ...place, opens }) });
    }
    return step.at;
  }

  #ending(told: unknown): number {
    const end = this.#push({ kind: "tell", gated: false, told });
    this.#ends.push(end);
    return end.at;
  }

  #boundary({ asks, branches }: Question, place: Place): number {
    const begins = asks.text.startsWith("begin");
    const gated = !begins && this.#stops !== "between verbs";
    const step = this.#push({ kind: begins ? "begin" : "commit", gated });
    const [branch] = branches.values();
    step.next = this.#write(branch!.next, { ...place, alone: !begins });
    return step.at;
  }

  #question({ asks, branches }: Question, { alone, opens }: Place): Step {
    const [met] = branches.values();
    if (met === undefined) throw new Error(`Nowhere could be asked: ${asks.text}`);
    const text = this.#stops === "in statements" ? withGates(asks.text) : asks.text;
    const [said, literals, rows] = spoken({ ...asks, text }, met.answer);
    return this.#push({
      kind: "ask",
      gated: this.#isGated(asks.text, opens),
      text: said,
      arguments: literals,
      has_rows: rows,
      // Its own commit has a gate as well, unless it only reads.
      stands_alone: alone,
      stops_alone: alone && this.#stops !== "between verbs" && WRITES.test(text),
    });
  }

  #isGated(text: string, opens: Place["opens"]): boolean {
    if (opens === "actor" || !this.#meetsOthers(text)) return false;
    return opens === "verb" || this.#stops.startsWith("in ");
  }

  #meetsOthers(text: string): boolean {
    if (this.#stops === "in limits") return LIMITS.test(text);
    return this.#stops === "in flows" ? DECIDES.test(text) : meetsOthers(text);
  }

  #push(step: Omit<Step, "at" | "next" | "branches">): Step {
    const added: Step = { ...step, at: this.steps.length, next: null, branches: [] };
    this.steps.push(added);
    return added;
  }
}

const WRITES = /\b(?:insert into|delete from|update) /;

/** Statements lock rows of the state tables by changing them, or in what the condition of the change contains. */
const CHANGE =
  /\b(?:delete from|update) "holdfast"\.(?:ready|waiting|lease|finished)\b.*?\bwhere\b/gs;

/** The gate is evaluated once, before the first row is looked for, and so after the snapshot and before the locks. */
function withGates(text: string): string {
  let number = 0;
  return text.replaceAll(CHANGE, (change) => {
    number += 1;
    return `${change} (select iso.gate_inside(${number})) and`;
  });
}

/** Locks the row of a member or of a waiting job; looks which jobs wait for an end; looks whether a job has ended. */
const DECIDES =
  /from "holdfast"\.(?:flow_job|waiting)\b.*order by (?:job_)?id|order by job_id, on_id|left join "holdfast"\.finished f on f\.id = j\.id\s+where/s;

/** Locks gates, or a queue's settings; counts leases; takes pending jobs, or marks leases. */
const LIMITS =
  /from "holdfast"\.(?:gate|queue|ready)\b.*for update|from "holdfast"\.lease\b.*(?:group by|lane is null)|update "holdfast"\.lease\b/s;

/** Adding a row that we have just taken from elsewhere, and that no other sees yet, conflicts with nothing. */
function meetsOthers(text: string): boolean {
  if (text.includes("json_populate_recordset")) return false;
  return /"holdfast"\.(?:ready|waiting|lease|finished|job_key)\b/.test(text);
}

function isAboutJobs(text: string): boolean {
  return text.includes('"holdfast".');
}

function isBoundary(text: string): boolean {
  return /^(?:begin|commit|rollback)\b/.test(text);
}

const NO_ANSWER: Answer = { rows: [], result: { rows: [], rowCount: null } };

/** Lanes whose gates another actor makes only after this answer. */
function withoutGates({ result, rows }: Answer): Answer[] {
  const lanes = result.rows as { lane?: string; name?: string; allowed_at?: number }[];
  if (!lanes.some(({ lane, name }) => lane !== undefined && name === lane)) return [];
  return [
    {
      rows: rows.map((row) => row.replace(/^\(([^,]*),.*\)$/, "($1,,)")),
      result: {
        ...result,
        rows: lanes.map(({ lane }) => ({ lane, name: null, allowed_at: null })),
      },
    },
  ];
}

/** What is left of an answer when others were faster: every choice of its rows but all of them. */
function lessThan({ result, rows }: Answer): Answer[] {
  const choices = 2 ** rows.length - 1;
  return Array.from({ length: choices }, (_, choice) => {
    const isLeft = (_row: unknown, index: number): boolean => ((choice >> index) & 1) === 1;
    const left = rows.filter(isLeft);
    return {
      rows: left,
      result: { ...result, rows: result.rows.filter(isLeft), rowCount: left.length },
    };
  });
}
