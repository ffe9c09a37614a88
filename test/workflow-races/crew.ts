/** Processes that change the same items at once, seen from the test. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Holdfast } from "../../src/index.ts";
import type { Tree } from "./check.ts";
import type { Mode } from "./open.ts";
import { dealt, type Op, type Result } from "./plan.ts";
import type { RacerConfig, Round } from "./racer.ts";
import { order, part } from "./workflows.ts";

const RACER = join(import.meta.dirname, "racer.ts");
const PLANT = join(import.meta.dirname, "plant.ts");

export interface CrewOptions extends Omit<RacerConfig, "process"> {
  readonly processes: number;
  /** The bug that is planted in the product there; see plants.ts. */
  readonly plant?: string;
}

export class Crew implements AsyncDisposable {
  readonly #racers: readonly ChildProcess[];

  private constructor(racers: readonly ChildProcess[]) {
    this.#racers = racers;
  }

  static async start({ processes, plant, ...config }: CrewOptions): Promise<Crew> {
    const racers = Array.from({ length: processes }, (_, process) =>
      startRacer({ ...config, process }, plant),
    );
    return new Crew(await Promise.all(racers));
  }

  /** Everybody begins at once, with what they are dealt. */
  async race(mode: Mode, tree: Tree, ops: readonly Op[]): Promise<Result[]> {
    const all = this.#racers.map((racer, place) =>
      ask(racer, { mode, tree, ops: dealt(ops, place, this.#racers.length) }),
    );
    return (await Promise.all(all)).flat();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#racers.map(end));
  }
}

async function startRacer(config: RacerConfig, plant: string | undefined): Promise<ChildProcess> {
  const racer = fork(RACER, [JSON.stringify(config)], {
    execArgv: plant === undefined ? [] : ["--import", PLANT],
    env: { ...process.env, HOLDFAST_PLANT: plant ?? "" },
    serialization: "advanced",
  });
  await answer(racer);
  return racer;
}

async function ask(racer: ChildProcess, round: Round): Promise<Result[]> {
  const said = answer(racer);
  racer.send(round);
  return (await said) as Result[];
}

async function answer(racer: ChildProcess): Promise<unknown> {
  const ended = new AbortController();
  const { signal } = ended;
  const gone = once(racer, "exit", { signal }).then(() => {
    throw new Error(`A racer ended with ${racer.signalCode ?? `code ${racer.exitCode}`}.`);
  });
  try {
    const [message] = await Promise.race([once(racer, "message", { signal }), gone]);
    return message as unknown;
  } finally {
    gone.catch(() => {});
    ended.abort();
  }
}

async function end(racer: ChildProcess): Promise<void> {
  if (racer.exitCode !== null || racer.signalCode !== null) return;
  const exited = once(racer, "exit");
  racer.disconnect();
  await exited;
}

/** An order with so many parts. Its revision is 2 then: it was started, and so were they. */
export async function startTree({ workflows }: Holdfast, children: number): Promise<Tree> {
  const parent = await workflows.start(order, { data: {}, actor: "test" });
  const parts = await workflows.startMany(
    part,
    Array.from({ length: children }, () => ({ data: {}, parent })),
    { actor: "test" },
  );
  return { parent: parent.id, children: parts.map(({ id }) => id) };
}
