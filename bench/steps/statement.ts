/** The statement that keeps a step, as the store sends it: asked from the store's own code, so that it cannot differ. */
import type { Engine } from "../../src/database/engine.ts";
import { type StepWrite, putStep } from "../../src/steps/store.ts";
import { Compiler, type Sql, type Statement } from "../../src/database/sql.ts";

/** Stands in the statement where a job's id goes. */
export const ID_MARK = "00000000-0000-7000-8000-000000000000";

/** The names of a job's steps, in turn. */
export const STEPS = ["reserve", "charge", "ship"] as const;
export const STEP_RESULT = '{"ok":true}';

/** As the engines spell shared SQL. */
export const SPELLINGS = {
  sqlite: { prefix: "holdfast_", placeholder: () => "?" },
  postgres: { prefix: '"holdfast".', placeholder: (position: number) => `$${position}` },
  mariadb: { prefix: "holdfast_", placeholder: () => "?" },
};

/** One for each step of a first attempt. */
export function stepStatements(
  engine: Engine,
  name: keyof typeof SPELLINGS,
  worker: string,
): Promise<Statement[]> {
  const compiler = new Compiler(SPELLINGS[name]);
  const fence = { id: ID_MARK, worker, epoch: 1 };
  return Promise.all(
    STEPS.map(async (step, place) =>
      compiler.compile(
        await sent(engine, (asking) => putStep(asking, fence, writeOf(step, place + 1))),
      ),
    ),
  );
}

function writeOf(name: string, position: number): StepWrite {
  const made = { name, occurrence: 1, position, kind: "step" } as const;
  return { ...made, status: "done", result: STEP_RESULT, isNew: true };
}

/** What the store would send: the engine only lends its spelling. */
async function sent(engine: Engine, ask: (engine: Engine) => Promise<unknown>): Promise<Sql> {
  const sending: Sql[] = [];
  const lent: Pick<Engine, "now" | "typed" | "lockRows" | "run"> = {
    now: () => engine.now(),
    typed: (value) => engine.typed(value),
    lockRows: () => engine.lockRows(),
    async run(query) {
      sending.push(query);
      return 1;
    },
  };
  await ask(lent as Engine);
  const [query] = sending;
  if (query === undefined) throw new Error("the store sent nothing");
  return query;
}
