/**
 * Claims from queues that have limits, lanes or a pause.
 *
 * Lanes take turns. A turn visits the next few lanes behind the cursor of this process and takes a share of each; places that
 * are left go to lanes that have more, so one lane alone gets all. Gates (gates.ts) say how many jobs of a lane may start.
 */
import { bareName } from "../core/name.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { ClaimRules, RuledTurn } from "../jobs/hooks.ts";
import { FIRST_UNTIL, markLanes } from "../jobs/rows.ts";
import type {
  ClaimedJob,
  Claiming,
  CycleResult,
  LaneClaims,
  LanesWanted,
  LockedJob,
} from "../jobs/store.ts";
import {
  type GateRow,
  Gates,
  gatesOf,
  type Lane,
  laneFor,
  laneOf,
  type Rule,
  ruleOf,
  type RuleRow,
  runningByTask,
  type RunningRow,
  type SeenGate,
} from "./gates.ts";
import { isPaced } from "./rates.ts";

/** Lanes that one turn looks at. Saturated lanes cost a look each, and the next turn goes on behind them. */
const VISITS_MAX = 2_000;

/** Lanes that are looked at together. */
const LANES_MAX = 256;

/** Other claims, which held gates, have ended by then. */
const MET_LOOK_MS = 10;

interface Turn {
  readonly claimed: ClaimedJob[];
  /** Where the next turn goes on; null: the queue has no rules any more. */
  readonly cursor: string | null;
  /** Where a turn that began meanwhile went on. */
  readonly reserved?: string;
  /** How many lanes with pending jobs the queue has; null: the turn did not visit them all. */
  readonly lanes?: number | null;
  /** When to look again: at once if there may be more, or when a rate allows the next start. Null: as after any claim. */
  readonly lookInMs: number | null;
  /** Whether the transaction may hold gates of this queue. */
  readonly holds: boolean;
}

interface WantedOfQueue extends Claiming {
  readonly queue: string;
  /** The lane behind which this turn begins. */
  readonly cursor: string;
  /** How many lanes the last turn found, if it visited them all: one look more than that tells of a new one. */
  readonly lanes?: number | null;
  /** The transaction holds no gates yet, so it may wait for those that other claims hold. */
  readonly mayWait: boolean;
  /** Called with the last of the lanes that this turn visits first: another turn at the same time begins behind it. */
  readonly onLanes?: (last: string) => void;
}

export async function claimGoverned<J extends LockedJob>(
  engine: Engine,
  claims: LaneClaims<J>,
  wanted: WantedOfQueue,
): Promise<Turn> {
  const { cursor } = wanted;
  const opened = await open(engine, claims.tx, wanted);
  const none = { claimed: [], cursor, lookInMs: null, holds: true };
  if (opened === null) return { ...none, cursor: null };
  if (opened === "paused") return none;
  if (opened === "met") return { ...none, lookInMs: MET_LOOK_MS };
  const reserved = opened.nextLanes.at(-1) ?? cursor;
  wanted.onLanes?.(reserved);
  const turn = await new GovernedClaim({ engine, claims, wanted, ...opened }).run();
  return { ...turn, reserved };
}

interface Opened {
  readonly gates: Gates;
  readonly nowMs: number;
  /** A job that waits in the worker would start later than its rate allowed it, so none is claimed ahead. */
  readonly isPaced: boolean;
  /** Some lanes have limits or weights of their own. */
  readonly hasLaneRules: boolean;
  /** The lanes behind the cursor, at most `lanesAsked`. */
  readonly nextLanes: readonly string[];
  readonly lanesAsked: number;
  /** The queue is paused, and an operator lets these jobs through, once each. Null: it is not paused. */
  readonly passing: readonly string[] | null;
}

/**
 * Locks the gates of the queue and of tasks, then reads the rules: a claim must not use rules from before it waited. The
 * lanes that it visits first come with the same round trip. "met": another claim holds a gate, and this one may not wait.
 */
async function open(
  engine: Engine,
  tx: Transaction,
  { queue, cursor, limit, lanes: lanesBefore, mayWait }: WantedOfQueue,
): Promise<Opened | "paused" | "met" | null> {
  const lanesAsked = Math.min(lanesIn(limit), (lanesBefore ?? limit) + 1);
  const next = engine.dialect.lanes(queue, cursor, lanesAsked);
  const answers = await tx.allOf([
    sql`select kind, name, allowed_at
          from holdfast.gate ${engine.byPrimaryKey()}
         where queue = ${queue}
           and kind in ('queue', 'task')
         order by kind, name
           ${mayWait ? engine.lockRows() : engine.lockFreeRows()}`,
    sql`select q.paused_at, q.let_through, ${engine.now()} as now, r.kind, r.name, r.concurrency, r.rate_count, r.rate_ms, r.rate_burst, r.weight,
               exists (select 1
                         from holdfast.queue_rule
                        where queue = ${queue}
                          and kind = 'lane') as lane_rules,
               ${mayWait ? sql`0` : gatesOf(queue)} as gates
          from holdfast.queue q
          left join holdfast.queue_rule r on r.queue = q.name and r.kind in ('queue', 'lanes', 'task')
         where q.name = ${queue}
           and q.governed = 1`,
    runningByTask(engine, queue),
    ...next.steps,
    // Most lanes have a gate, if lanes are limited at all: it is looked at here and locked later.
    sql`select l.lane, g.name, g.allowed_at
          from (${next.rows}) l
          left join holdfast.gate g ${engine.byPrimaryKey()} on g.queue = ${queue} and g.kind = 'lane' and g.name = l.lane
         order by l.lane`,
  ]);
  const [rows = [], settings = [], running = []] = answers;
  const lanes = answers.at(-1) ?? [];
  const [setting] = settings;
  if (setting === undefined) return null;
  const passing = setting["paused_at"] === null ? null : listOf(setting["let_through"]);
  if (passing?.length === 0) return "paused";
  if (rows.length < Number(setting["gates"])) return "met";
  const nowMs = Number(setting["now"]);
  const nextLanes = lanes.map((row) => String(row["lane"]));
  const seen = lanes.filter((row) => row["name"] !== null) as unknown as SeenGate[];
  const looked = { lanes: new Set(nextLanes), gates: seen };
  const gates = new Gates(engine, tx, { queue, nowMs, looked, mayWait });
  const known = (settings.filter(({ kind }) => kind !== null) as unknown as RuleRow[]).map(ruleOf);
  gates.open(known, rows as unknown as GateRow[], running as unknown as RunningRow[]);
  return {
    gates,
    nowMs,
    isPaced: known.some(isPaced),
    hasLaneRules: Boolean(setting["lane_rules"]),
    nextLanes,
    lanesAsked,
    passing,
  };
}

function listOf(ids: unknown): string[] {
  return typeof ids === "string" ? (JSON.parse(ids) as string[]) : [];
}

/** Few lanes in a turn and several jobs of each: other workers find gates that are free. */
function lanesIn(places: number): number {
  return Math.ceil(Math.sqrt(places));
}

interface Asked {
  readonly lane: Lane;
  readonly places: number;
}

interface ClaimParts<J extends LockedJob> extends Opened {
  readonly engine: Engine;
  readonly claims: LaneClaims<J>;
  readonly wanted: WantedOfQueue;
}

class GovernedClaim<J extends LockedJob> {
  readonly #parts: ClaimParts<J>;
  #cursor: string;
  #places: number;
  /** Places that are not filled yet. */
  #left: number;
  /** The next turn finds jobs at once: this one moved some, or visited no more lanes. */
  #hasMore = false;
  /** Behind this one, the next turn finds a lane for which this one could not make a gate. */
  #behind: string | null = null;
  #taken = 0;
  /** The queue is paused, and an operator lets these through. */
  #only: ReadonlySet<string> | null = null;
  /** All lanes of the queue, once this turn has visited them. */
  #lanes: number | null = null;
  readonly #leases: Promise<ClaimedJob[]>[] = [];

  constructor(parts: ClaimParts<J>) {
    this.#parts = parts;
    this.#cursor = parts.wanted.cursor;
    this.#places = parts.wanted.limit;
    this.#left = Math.min(this.#places, parts.gates.roomOfQueue());
    if (parts.isPaced) this.#claimNoneAhead();
  }

  #claimNoneAhead(): void {
    const { limit, ahead = 0 } = this.#parts.wanted;
    this.#places = Math.min(this.#places, limit - ahead);
    this.#left = Math.min(this.#left, Math.max(0, this.#places - this.#taken));
  }

  async run(): Promise<Turn> {
    const { passing } = this.#parts;
    if (this.#left > 0) await (passing === null ? this.#visitLanes() : this.#letThrough(passing));
    const [leases] = await Promise.all([
      Promise.all(this.#leases),
      this.#parts.claims.runLast(this.#parts.gates.changes()),
    ]);
    const { holds } = this.#parts.gates;
    const next = { lanes: this.#lanes, lookInMs: this.#lookInMs(), holds };
    return { claimed: leases.flat(), cursor: this.#behind ?? this.#cursor, ...next };
  }

  /** Soon, if the next turn finds what this one had to leave. */
  #lookInMs(): number | null {
    const { nextStartMs, hasMet } = this.#parts.gates;
    const isFull = this.#taken >= this.#places;
    if (this.#hasMore || isFull || (this.#behind !== null && this.#left > 0)) return 0;
    if (!hasMet || this.#left === 0) return nextStartMs;
    return this.#taken > 0 ? 0 : Math.min(nextStartMs ?? MET_LOOK_MS, MET_LOOK_MS);
  }

  async #visitLanes(): Promise<void> {
    let visited = 0;
    let wrapped = false;
    let more: Lane[] = [];
    while (this.#left > 0 && visited < VISITS_MAX) {
      if (visited > 0 && this.#parts.gates.isLate) return void (this.#hasMore = true);
      const count =
        visited === 0
          ? Math.min(lanesIn(this.#left), this.#parts.lanesAsked)
          : Math.max(lanesIn(this.#left), Math.min(visited, LANES_MAX));
      const before = this.#cursor;
      const lanes: readonly Lane[] = wrapped ? more : await this.#nextLanes(count, visited);
      if (lanes.length === 0 && wrapped) return;
      if (wrapped) more = [];
      else wrapped = lanes.length < count || this.#cursor === this.#parts.wanted.cursor;
      visited += lanes.length;
      if (wrapped) this.#lanes ??= visited;
      const taken = this.#taken;
      more.push(...(await this.#takeFrom(lanes)));
      const left = lanes.findIndex(({ name }) => this.#parts.gates.withoutGate.has(name));
      if (left !== -1) this.#behind ??= lanes[left - 1]?.text ?? before;
      // A lane with a rate was met when the places for it were taken: the next turn begins with it.
      else if (this.#left === 0 && this.#taken === taken) this.#behind ??= before;
    }
  }

  /** They are the first of their lanes, so the claims of these lanes find them. */
  async #letThrough(passing: readonly string[]): Promise<void> {
    const { engine, claims, wanted } = this.#parts;
    const rows = await claims.tx.all<{ id: string; lane: string }>(sql`
      select id, lane
        from holdfast.ready
       where ${engine.among(sql`id`, passing)}
         and queue = ${wanted.queue}
         and place < ${FIRST_UNTIL}`);
    if (rows.length === 0) return;
    this.#only = new Set(rows.map(({ id }) => id));
    const lanes = [...new Set(rows.map(({ lane }) => lane))].toSorted().slice(0, LANES_MAX);
    const more = await this.#takeFrom(lanes.map(laneOf));
    if (more.length > 0 && this.#taken > 0) this.#hasMore = true;
  }

  /** From the cursor to the last lane, then from the first to where the turn began. */
  async #nextLanes(count: number, visited: number): Promise<Lane[]> {
    const { wanted, nextLanes } = this.#parts;
    const { cursor: start } = wanted;
    const behind = visited === 0 ? nextLanes : await this.#lanesAfter(this.#cursor, count);
    let texts = behind.slice(0, count);
    if (this.#cursor < start) texts = texts.filter((text) => text <= start);
    else if (texts.length < count) {
      const first = await this.#lanesAfter(null, count - texts.length);
      texts.push(...first.filter((text) => text <= start));
    }
    this.#cursor = texts.at(-1) ?? start;
    return texts.map(laneOf);
  }

  async #lanesAfter(after: string | null, count: number): Promise<string[]> {
    const { engine, claims, wanted } = this.#parts;
    const { steps, rows } = engine.dialect.lanes(wanted.queue, after, count);
    const inOrder = sql`select lane from (${rows}) l order by lane`;
    const answers = await claims.tx.allOf<{ lane: string }>([...steps, inOrder]);
    return (answers.at(-1) ?? []).map(({ lane }) => lane);
  }

  /** Takes a share of each lane. Returns the lanes that may have more. */
  async #takeFrom(lanes: readonly Lane[]): Promise<Lane[]> {
    const { gates } = this.#parts;
    const only = this.#only;
    const rules = await this.#laneRules(lanes);
    if ([...rules.values()].some(isPaced)) this.#claimNoneAhead();
    if (this.#left === 0) return [];
    const unpaused = lanes.filter(({ name }) => (rules.get(name)?.paused ?? null) === null);
    const passable = await gates.lockLanes(unpaused, rules);
    const asked = this.#shares(passable, rules);
    // Without limits of tasks, no job is in the wrong lane.
    const { take } = this.#parts.claims;
    const isTaken = take !== undefined && gates.limitedTasks.size === 0 && only === null;
    const first = isTaken ? await this.#takeJobs(asked, take) : await this.#lockJobs(asked);
    const jobsFound = only === null ? first : first.filter(({ id }) => only.has(id));
    const found = Map.groupBy(jobsFound, ({ lane }) => lane);
    const more: Lane[] = [];
    const taken: J[] = [];
    for (const { lane, places } of asked) {
      const jobs = found.get(lane.text) ?? [];
      const misplaced = jobs.filter(({ task }) => this.#belongsElsewhere(lane, task));
      const ours = misplaced.length === 0 ? jobs : jobs.filter((job) => !misplaced.includes(job));
      await this.#move(lane, misplaced);
      gates.charge(lane, ours.length - places);
      taken.push(...ours);
      if (jobs.length >= places) more.push(lane);
    }
    if (!isTaken) this.#lease(taken);
    // Lanes that got no share are asked if others did not use theirs.
    const isAsked = new Set(asked.map(({ lane }) => lane.text));
    more.push(...passable.filter((lane) => !isAsked.has(lane.text) && gates.roomOf(lane) > 0));
    return more;
  }

  /** How many places each lane gets, by its weight and its room. */
  #shares(lanes: readonly Lane[], rules: ReadonlyMap<string, Rule>): Asked[] {
    const { gates } = this.#parts;
    const weightOf = ({ name }: Lane): number => rules.get(name)?.weight ?? 1;
    const total = lanes.reduce((sum, lane) => sum + weightOf(lane), 0);
    const shareOf = (lane: Lane): number => Math.floor((this.#left * weightOf(lane)) / total);
    // What rounding left over: a second pass for a few places would cost as much as the first.
    const rest = this.#left - lanes.reduce((sum, lane) => sum + shareOf(lane), 0);
    let left = this.#left;
    return lanes.flatMap((lane, index) => {
      const share = Math.max(1, shareOf(lane) + (index < rest ? 1 : 0));
      const places = Math.min(share, gates.roomOf(lane), left);
      if (places <= 0) return [];
      left -= places;
      gates.charge(lane, places);
      return [{ lane, places }];
    });
  }

  async #laneRules(lanes: readonly Lane[]): Promise<Map<string, Rule>> {
    const { engine, claims, wanted, hasLaneRules } = this.#parts;
    const names = [...new Set(lanes.map(({ name }) => name))].filter((name) => name !== "");
    if (names.length === 0 || !hasLaneRules) return new Map();
    const rows = await claims.tx.all<RuleRow>(sql`
      select kind, name, concurrency, rate_count, rate_ms, rate_burst, weight, paused_at
        from holdfast.queue_rule ${engine.byPrimaryKey()}
       where queue = ${wanted.queue}
         and kind = 'lane'
         and ${engine.among(sql`name`, names)}`);
    return new Map(rows.map((row) => [row.name, ruleOf(row)]));
  }

  #lockJobs(asked: readonly Asked[]): Promise<J[]> {
    if (asked.length === 0) return Promise.resolve([]);
    return this.#parts.claims.lock(this.#wantedOf(asked));
  }

  /** Finds them and moves them under leases. */
  async #takeJobs(asked: readonly Asked[], take: NonNullable<LaneClaims<J>["take"]>): Promise<J[]> {
    if (asked.length === 0) return [];
    const taken = await take(this.#wantedOf(asked), this.#parts.wanted);
    this.#count(taken.length, Promise.resolve(taken.map(({ claimed }) => claimed)));
    return taken.map(({ locked }) => locked);
  }

  #wantedOf(asked: readonly Asked[]): LanesWanted {
    const { wanted, nowMs } = this.#parts;
    const { queue, tasks } = wanted;
    const lanes = asked.map(({ lane, places }) => ({ lane: lane.text, limit: places }));
    return { queue, tasks, lanes, nowMs };
  }

  /** Its task got a limit after the job was enqueued. */
  #belongsElsewhere({ task: laneTask }: Lane, task: string): boolean {
    return laneTask === null && this.#parts.gates.limitedTasks.has(bareName(task));
  }

  async #move({ name }: Lane, jobs: readonly J[]): Promise<void> {
    const { engine, claims, gates } = this.#parts;
    if (jobs.length > 0) this.#hasMore = true;
    for (const [task, some] of Map.groupBy(jobs, (job) => job.task)) {
      const ids = some.map(({ id }) => id);
      await claims.tx.run(sql`
        update holdfast.ready
           set lane = ${laneFor(name, task, gates.limitedTasks)}
         where ${engine.among(sql`id`, ids)}`);
    }
  }

  /** Sent at once, so that the next pass over a lane does not find them again. */
  #lease(jobs: readonly J[]): void {
    if (jobs.length === 0) return;
    const { claims, wanted, nowMs } = this.#parts;
    const leases = claims.lease(jobs, wanted, nowMs);
    leases.catch(() => {}); // if another statement fails first
    this.#count(jobs.length, leases);
  }

  #count(jobs: number, leases: Promise<ClaimedJob[]>): void {
    this.#leases.push(leases);
    this.#left -= jobs;
    this.#taken += jobs;
  }
}

// The queues that have rules, as far as this process knows, and where its turns among their lanes stand.

export class GovernedQueues implements ClaimRules {
  readonly #engine: Engine;
  /** The lane that was visited last, by queue. */
  readonly #cursors = new Map<string, string>();
  /** How many lanes a queue has, if the last turn visited them all. */
  readonly #lanes = new Map<string, number>();
  #turns = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Queues with rules and all others take turns in claiming first: a backlog in one of them must not stop the other. */
  turnFor(claiming: Claiming): Ruled | null {
    const isKnown = (queue: string): boolean => this.#cursors.has(queue);
    const queues = claiming.queues.filter(isKnown);
    if (queues.length === 0) return null;
    this.#turns += 1;
    const ruled: Ruled = {
      plain: { ...claiming, queues: claiming.queues.filter((queue) => !isKnown(queue)) },
      visits: new Map(),
      turn: {
        first: this.#turns % 2 === 0,
        claim: (claims, places) => {
          // Places that the other queues have filled were those of free slots.
          const limit = Math.min(places, claiming.limit);
          const ahead = Math.min(limit, claiming.ahead ?? 0);
          return this.#claim(claims, { ...claiming, queues, limit, ahead }, ruled.visits);
        },
      },
    };
    return ruled;
  }

  after(cycle: CycleResult, ruled: RuledTurn | null): CycleResult {
    // Workers that start together must not all begin with the same lanes.
    for (const queue of cycle.governed) this.#cursors.set(queue, randomLane(this.#engine));
    if (ruled === null) return cycle;
    const free: string[] = [];
    const waits: number[] = [];
    for (const [queue, { cursor, reserved, lanes, lookInMs }] of (ruled as Ruled).visits) {
      if (lanes === null || lanes === undefined) this.#lanes.delete(queue);
      else this.#lanes.set(queue, lanes);
      if (lookInMs !== null) waits.push(lookInMs);
      if (cursor === null) free.push(queue);
      if (cursor === null) this.#cursors.delete(queue);
      // Otherwise another turn began behind this one.
      else if (reserved === undefined || this.#cursors.get(queue) === reserved) {
        this.#cursors.set(queue, cursor);
      }
    }
    const lookInMs = waits.length === 0 ? null : Math.min(...waits);
    return { ...cycle, governed: [...cycle.governed, ...free], lookInMs };
  }

  async useLanes(queues: readonly string[], tx?: Transaction): Promise<void> {
    const engine = this.#engine;
    const inTheirs = engine.kind === "sqlite" ? tx : undefined;
    for (const queue of new Set(queues)) {
      // Looked up every time: the row may have been deleted, or be missing in a restored backup.
      const [row] = await (inTheirs ?? engine).all(
        sql`select name from holdfast.queue where name = ${queue} and lanes = 1`,
      );
      if (row !== undefined) continue;
      if (inTheirs === undefined) await engine.transaction((own) => markLanes(engine, own, queue));
      else await markLanes(engine, inTheirs, queue);
    }
  }

  async #claim<J extends LockedJob>(
    claims: LaneClaims<J>,
    wanted: Claiming,
    visits: Map<string, Turn>,
  ): Promise<ClaimedJob[]> {
    const claimed: ClaimedJob[] = [];
    visits.clear(); // the transaction may run again
    for (const queue of inTurn([...new Set(wanted.queues)], this.#turns)) {
      const limit = wanted.limit - claimed.length;
      if (limit <= 0) break;
      const turn = await claimGoverned(this.#engine, claims, {
        ...wanted,
        queue,
        cursor: this.#cursors.get(queue) ?? "",
        lanes: this.#lanes.get(queue) ?? null,
        limit,
        ahead: Math.min(limit, wanted.ahead ?? 0),
        mayWait: ![...visits.values()].some(({ holds }) => holds),
        onLanes: (last) => void this.#cursors.set(queue, last),
      });
      claimed.push(...turn.claimed);
      visits.set(queue, turn);
    }
    return claimed;
  }
}

interface Ruled extends RuledTurn {
  /** What the turn found, by queue. */
  readonly visits: Map<string, Turn>;
}

/** Some text: where in the ring of lanes it falls does not matter. */
function randomLane({ runtime }: Engine): string {
  return Math.floor(runtime.random() * 36 ** 4).toString(36);
}

function inTurn(queues: readonly string[], turn: number): string[] {
  const first = queues.length === 0 ? 0 : turn % queues.length;
  return [...queues.slice(first), ...queues.slice(0, first)];
}
