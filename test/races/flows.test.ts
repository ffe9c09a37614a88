/**
 * Flows of many shapes, while their workers are killed: every job ends once, none before those it waits for, and none is left
 * waiting. The shapes are those with which pg-boss measures its flows, and a failure in the midst of one.
 */
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { Doctor } from "../../src/app/ops.ts";
import { type Holdfast, openHoldfast } from "../../src/index.ts";
import type { FlowBuilder, FlowJob } from "../../src/flows/index.ts";
import { sql } from "../../src/database/sql.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { isLong, notItsTurn, reasonOf, runSeed, sized } from "../support/scale.ts";
import { missing, scratchDatabase } from "../support/servers.ts";
import { WorkerProcess } from "./worker-process.ts";

const JOBS = sized(80, 10_000);
const LAYERED = sized(60, 1_000);
const LAYERS = 5;
const WORKERS = 2;
const KILL_EVERY_MS = sized(600, 2_000);
const KILLS = sized(4, 40);
const MS_MAX = sized(60_000, 1_800_000);

after(assertNothingRuns);

/** What comes of a flow: how deep its last jobs are, and how many jobs end as what. */
interface Shape {
  readonly depth: number;
  readonly done: number;
  readonly failed?: number;
  readonly build: (flow: FlowBuilder) => void;
}

type Options = Parameters<FlowBuilder["job"]>[2];

const job = (flow: FlowBuilder, options?: Options, input: object = {}): FlowJob =>
  flow.job("depth", input, { maxAttempts: 1_000, ...options });

const several = (count: number, make: (at: number) => FlowJob): FlowJob[] =>
  Array.from({ length: count }, (_, at) => make(at));

function layers(flow: FlowBuilder, count: number, wide: number): FlowJob[][] {
  const all: FlowJob[][] = [];
  for (let layer = 0; layer < count; layer += 1) {
    const before = all.at(-1);
    const options = before === undefined ? {} : { after: before };
    all.push(several(wide, () => job(flow, options)));
  }
  return all;
}

const shapes: Readonly<Record<string, Shape>> = {
  "fan-in": {
    depth: 2,
    done: JOBS + 1,
    build: (flow) => void job(flow, { after: several(JOBS, () => job(flow)) }),
  },
  "fan-out": {
    depth: 2,
    done: JOBS + 1,
    build(flow) {
      const first = job(flow);
      several(JOBS, () => job(flow, { after: [first] }));
    },
  },
  chain: {
    depth: JOBS / 2,
    done: JOBS / 2,
    build(flow) {
      let last = job(flow);
      several(JOBS / 2 - 1, () => (last = job(flow, { after: [last] })));
    },
  },
  layers: {
    depth: LAYERS,
    done: LAYERED,
    build: (flow) => void layers(flow, LAYERS, LAYERED / LAYERS),
  },
  diamonds: {
    depth: 3,
    done: JOBS,
    build(flow) {
      several(JOBS / 4, () => {
        const top = job(flow);
        const sides = several(2, () => job(flow, { after: [top] }));
        return job(flow, { after: sides });
      });
    },
  },
  "a failure in the midst": {
    depth: 0,
    // The leaf, the job after it, and the sink fail; the job that ignores it runs.
    done: JOBS + 1,
    failed: 3,
    build(flow) {
      const leaf = job(flow, { maxAttempts: 1 }, { fails: true });
      const others = several(JOBS, () => job(flow));
      const middle = job(flow, { after: [leaf, ...others.slice(0, 3)] });
      job(flow, { after: [middle, ...others], onFailed: "fail" });
      job(flow, { after: [middle], onFailed: "ignore" });
    },
  },
};

const engines = ["sqlite", "postgres", "mysql"] as const;

for (const engine of engines) {
  const isMissing = engine === "sqlite" ? false : missing(engine);
  const skip = reasonOf(notItsTurn(engine, engines), isMissing);
  describe(`flows on ${engine}, whose workers are killed`, { skip, timeout: MS_MAX }, () => {
    test("end, each job once and in order", async (t) => {
      using folder = tempFolder();
      await using database = engine === "sqlite" ? null : await scratchDatabase(engine);
      const url = database?.url ?? `sqlite:${folder.file(".db")}`;
      await using holdfast = await openHoldfast(url);
      const flows: Record<string, string> = {};
      for (const [name, { build }] of Object.entries(shapes)) {
        flows[name] = (await holdfast.flows.enqueue(name, build)).id;
      }
      const killed = await runAndKill(holdfast, url, Object.values(flows));
      t.diagnostic(`${killed} workers killed, seed ${runSeed}, long ${isLong}`);
      for (const [name, { done, failed = 0, depth }] of Object.entries(shapes)) {
        const view = await holdfast.flows.get(flows[name] ?? "");
        assert.deepEqual(
          [name, view?.done, view?.failed, view?.cancelled],
          [name, done, failed, 0],
        );
        if (depth > 0) assert.equal(await deepest(holdfast, flows[name] ?? ""), depth, name);
      }
      const { findings } = await new Doctor(holdfast).examine();
      const bad = findings.filter(({ severity }) => severity === "critical");
      assert.deepEqual(bad, []);
    });
  });
}

async function runAndKill(holdfast: Holdfast, url: string, flows: string[]): Promise<number> {
  const worker = {
    concurrency: 20,
    lease: "1s",
    grace: 50,
    maintenanceInterval: 50,
    poll: 200,
    maxCrashes: 1_000,
  };
  const start = (): WorkerProcess =>
    new WorkerProcess("flow-child.ts", { url, role: "flow", worker });
  const crew = Array.from({ length: WORKERS }, start);
  let seed = runSeed;
  const draw = (): number => (seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0);
  let killed = 0;
  try {
    for (;;) {
      await new Promise((resolve) =>
        setTimeout(resolve, KILL_EVERY_MS * (0.5 + (draw() % 100) / 100)),
      );
      const running = await Promise.all(flows.map((id) => holdfast.flows.get(id)));
      if (running.every((flow) => flow?.status !== "running")) return killed;
      // A process of a test ends by itself after a minute.
      for (const [at, one] of crew.entries()) if (one.hasEnded) crew[at] = start();
      if (killed >= KILLS) continue;
      const at = draw() % crew.length;
      await crew[at]?.[Symbol.asyncDispose]();
      crew[at] = start();
      killed += 1;
    }
  } finally {
    await Promise.all(crew.map((one) => one[Symbol.asyncDispose]()));
  }
}

async function deepest(holdfast: Holdfast, flow: string): Promise<number> {
  const [row] = await holdfast.store.db.engine.all<{ depth: string }>(sql`
    select f.result as depth
      from holdfast.flow_job m
      join holdfast.finished f on f.id = m.job_id
     where m.flow_id = ${flow}
     order by m.job_id desc
     limit 1`);
  return Number(row?.depth);
}
