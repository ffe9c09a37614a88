/** Races, played in every order: several testers at once, each in a database of its own. */
import { sql } from "../../src/database/sql.ts";
import { PostgresEngine } from "../../src/database/postgres/engine.ts";
import { postgresAddress } from "../../src/database/postgres/address.ts";
import { testRuntime } from "../support/runtime.ts";
import { urlOf } from "../support/servers.ts";
import { rehearse, type Actor, type Plant, type Step } from "./script.ts";
import { Stage, type Picture } from "./stage.ts";
import { permutations, runTester, specOf, type Played } from "./tester.ts";
import type { Verb } from "./verbs.ts";

export interface Race {
  /** What happened before. */
  readonly before: readonly Verb[];
  readonly actors: Readonly<Record<string, Actor>>;
  /** Everything that may come of it, in the judge's words. Each must be seen, or the race did not take place. */
  readonly outcomes: readonly string[];
  /** How many jobs may run at once, in all and of a lane. */
  readonly limits?: { readonly queue?: number; readonly lane?: number };
  /** The only outcome if one actor, the first of these, has ended before the other begins. */
  readonly ordered?: { readonly actors: readonly [string, string]; readonly outcome: string };
}

/** A tester mostly waits to see whether a step is blocked, so there may be more of them than cores. */
const STAGES = 6;
const ORDERS_AT_ONCE = 30;

interface Production {
  readonly fixture: Picture;
  readonly scripts: Readonly<Record<string, readonly Step[]>>;
  readonly pieces: Readonly<Record<string, number>>;
}

export class Theatre implements AsyncDisposable {
  readonly #settings: string;
  readonly #stages: readonly Stage[];
  readonly #idle: Stage[];
  readonly #waiting: ((stage: Stage) => void)[] = [];

  private constructor(settings: string, stages: readonly Stage[]) {
    this.#settings = settings;
    this.#stages = stages;
    this.#idle = [...stages];
  }

  static async open(): Promise<Theatre> {
    const settings = await productSettings();
    return new Theatre(settings, await Stage.openMany(STAGES, settings));
  }

  /** Plays a race in every order there is. */
  async play(race: Race, plant: Plant = (text) => text): Promise<(Played & { before: Picture })[]> {
    const production = await this.#use((stage) => prepare(stage, race, plant));
    const orders = permutations(production.pieces);
    const batches = Array.from({ length: Math.ceil(orders.length / ORDERS_AT_ONCE) }, (_, batch) =>
      orders.slice(batch * ORDERS_AT_ONCE, (batch + 1) * ORDERS_AT_ONCE),
    );
    const played = batches.map((batch) =>
      this.#use(async (stage) => {
        await install(stage, production);
        const spec = specOf(production.pieces, batch);
        return runTester(stage.url, { spec, settings: this.#settings });
      }),
    );
    const all = (await Promise.all(played)).flat();
    return all.map((each) => ({ ...each, before: production.fixture }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#stages.map((stage) => stage[Symbol.asyncDispose]()));
  }

  async #use<T>(body: (stage: Stage) => Promise<T>): Promise<T> {
    const stage =
      this.#idle.pop() ?? (await new Promise<Stage>((resolve) => this.#waiting.push(resolve)));
    try {
      return await body(stage);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#idle.push(stage);
      else next(stage);
    }
  }
}

/** What the product sets in its own sessions; but a gate may stay closed for longer than it lets a statement run. */
async function productSettings(): Promise<string> {
  const address = postgresAddress(urlOf("postgres"));
  const engine = await PostgresEngine.open({ address, runtime: testRuntime() });
  const rows = await engine.all<{ name: string; setting: string }>(sql`
    select name, setting from pg_settings
     where source = 'client' and name not like '%timeout' and name not like '%encoding'
       and name <> 'application_name'`);
  await engine.close();
  const ours = [
    ...rows,
    // A commit is not awaited on the disk, and who waits for one another in a circle is told soon.
    { name: "synchronous_commit", setting: "off" },
    { name: "deadlock_timeout", setting: "20" },
  ];
  return ours
    .map(({ name, setting }) => `-c ${name}=${setting.replaceAll(" ", String.raw`\ `)}`)
    .join(" ");
}

async function prepare(stage: Stage, race: Race, plant: Plant): Promise<Production> {
  const fixture = await stage.picture(null, race.before);
  const actors = Object.entries(race.actors);
  const verbs = actors.map(([, actor]) => actor.verbs);
  const pictures = await picturesOf(stage, fixture, verbs);
  const scripts: Record<string, readonly Step[]> = {};
  for (const [name, actor] of actors) {
    scripts[name] = await rehearse(stage, actor, { pictures, plant });
  }
  const pieces = Object.fromEntries(actors.map(([name, actor]) => [name, actor.pieces]));
  return { fixture, scripts, pieces };
}

/** The tables before, between and after the verbs, in whatever order these come. */
async function picturesOf(
  stage: Stage,
  picture: Picture,
  verbs: readonly (readonly Verb[])[],
): Promise<Picture[]> {
  const pictures = [picture];
  for (const [index, [first, ...rest]] of verbs.entries()) {
    if (first === undefined) continue;
    const after = await stage.picture(picture, [first]);
    pictures.push(...(await picturesOf(stage, after, verbs.with(index, rest))));
  }
  return pictures;
}

async function install(stage: Stage, { fixture, scripts, pieces }: Production): Promise<void> {
  const steps = Object.entries(scripts).flatMap(([actor, all]) =>
    all.map((step) => ({ actor, ...step })),
  );
  const branches = steps.flatMap(({ actor, at, branches: all }) =>
    all.map((branch) => ({ actor, at, ...branch })),
  );
  const closed = Object.values(pieces).map((count, index) => ({
    actor: index + 1,
    gates: count - 1,
  }));
  await stage.client.query("delete from iso.step; delete from iso.branch");
  await stage.client.query("delete from iso.fixture; delete from iso.closed");
  await fill(stage, "step", steps);
  await fill(stage, "branch", branches);
  await fill(stage, "closed", closed);
  await fill(stage, "fixture", [{ picture: fixture }]);
}

async function fill(stage: Stage, table: string, rows: readonly object[]): Promise<void> {
  await stage.client.query(
    `insert into iso.${table} select * from jsonb_populate_recordset(null::iso.${table}, $1)`,
    [JSON.stringify(rows)],
  );
}
