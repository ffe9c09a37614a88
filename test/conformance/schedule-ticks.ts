/**
 * Ten schedulers, a thousand ticks, and edits, pauses and restarts in between: a model knows which ticks there are, and each
 * has exactly one job. `npm test` runs a few of them.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLogger } from "../../src/core/log.ts";
import type { Store } from "../../src/app/store.ts";
import { Scheduler } from "../../src/schedules/scheduler.ts";
import type { Bundle, Open } from "../support/bundle.ts";
import { seededRandom, START_AT, testRuntime } from "../support/runtime.ts";
import { isLong, runSeed, sized } from "../support/scale.ts";
import { allRuns, by, createOne, jobIds } from "../support/schedules.ts";

const SCHEDULERS = 10;
const TICKS = sized(20, 1_000);
/** Every sixth call or so hits a schedule that just changed. */
const CHANGE_ODDS = 6;
/** No step is so long that a tick counts as missed. */
const STEP_MS_MAX = 4_000;

/** The seconds between two ticks, as a cron expression and as an interval: both come at whole multiples. */
const PERIODS = [1, 2, 3, 4, 5, 6, 10];

/** What a schedule of this kind has to do, said without any of its code. */
class Model {
  readonly ticks: number[] = [];
  #period = 1;
  #next = START_AT + 1_000;
  isPaused = false;

  #after(at: number): number {
    const ms = this.#period * 1_000;
    return (Math.floor(at / ms) + 1) * ms;
  }

  handle(now: number): void {
    for (; this.#next <= now; this.#next = this.#after(this.#next)) {
      if (!this.isPaused) this.ticks.push(this.#next);
    }
  }

  /** Ticks before the change are of the schedule as it was. */
  change(now: number, { period = this.#period, isPaused = this.isPaused }): void {
    this.handle(now);
    this.#period = period;
    this.#next = this.#after(now);
    this.isPaused = isPaused;
  }
}

export function manySchedulers(open: Open): void {
  const title = `${SCHEDULERS} schedulers and ${TICKS} ticks: one job each, with edits, pauses and restarts in between`;
  test(title, { timeout: isLong ? 600_000 : 120_000 }, async (context) => {
    context.diagnostic(`seed ${runSeed}`);
    const bundle = await open();
    const fleet = new Fleet(await storesOf(bundle), seededRandom(runSeed));
    await createOne(bundle.store, { every: "1s", missed: { all: 1_000 } });
    const model = new Model();
    while (model.ticks.length < TICKS || model.isPaused) {
      bundle.clock.advance(1 + fleet.draw(STEP_MS_MAX));
      const now = bundle.clock.now();
      if (fleet.draw(CHANGE_ODDS) === 0) await fleet.change(model, now);
      // Sometimes none of them looks, and the next change meets a tick that is due.
      if (fleet.draw(4) === 0) continue;
      await fleet.look();
      model.handle(now);
    }
    await fleet.look();
    model.handle(bundle.clock.now());
    const runs = await allRuns(bundle.store);
    assert.deepEqual(
      runs.map(({ tick }) => tick - START_AT),
      model.ticks.map((tick) => tick - START_AT),
    );
    const jobs = await jobIds(bundle.store);
    assert.equal(jobs.length, model.ticks.length);
    assert.deepEqual(runs.map(({ job }) => job ?? "").toSorted(), jobs.toSorted());
    assert.ok(fleet.late > 0, "no scheduler came too late for a tick, so nothing was proved");
    const shares = fleet.handled.join(", ");
    context.diagnostic(
      `${model.ticks.length} ticks, handled by ${shares}; too late: ${fleet.late}`,
    );
  });
}

async function storesOf({ store, alone, another }: Bundle): Promise<Store[]> {
  return alone === null ? [store, await another(), await another()] : [store];
}

class Fleet {
  readonly #stores: readonly Store[];
  readonly #random: () => number;
  #schedulers: Scheduler[] = [];
  /** The ticks that each has handled. */
  readonly handled = Array.from({ length: SCHEDULERS }, () => 0);

  /** How often one found that another was first. */
  late = 0;

  constructor(stores: readonly Store[], random: () => number) {
    this.#stores = stores;
    this.#random = random;
    this.#schedulers = this.handled.map((_, at) => this.#start(at));
  }

  draw(below: number): number {
    return Math.floor(this.#random() * below);
  }

  /** All at once, beginning with any of them. */
  async look(): Promise<void> {
    const first = this.draw(SCHEDULERS);
    const inTurn = [...this.#schedulers.slice(first), ...this.#schedulers.slice(0, first)];
    await Promise.all(inTurn.map((scheduler) => scheduler.once()));
  }

  async change(model: Model, now: number): Promise<void> {
    const { schedules } = this.#stores[0] as Store;
    const period = PERIODS[this.draw(PERIODS.length)] ?? 1;
    switch (this.draw(5)) {
      case 0:
        await schedules.edit("nightly", { every: `${period}s` }, by());
        model.change(now, { period });
        break;
      case 1:
        await schedules.edit("nightly", { cron: `*/${period} * * * * *` }, by());
        model.change(now, { period });
        break;
      case 2:
        await schedules.pause("nightly", by());
        model.change(now, { isPaused: true });
        break;
      case 3:
        await schedules.resume("nightly", by());
        model.change(now, { isPaused: false });
        break;
      default: {
        const at = this.draw(SCHEDULERS);
        this.#schedulers[at] = this.#start(at);
      }
    }
  }

  #start(at: number): Scheduler {
    const store = this.#stores[at % this.#stores.length] as Store;
    const schedules: Store["schedules"] = Object.assign(
      Object.create(store.schedules) as Store["schedules"],
      {
        due: (filter: { limit: number }) => store.schedules.due(filter),
        fire: async (name: string) => {
          const fired = await store.schedules.fire(name);
          this.handled[at] = (this.handled[at] ?? 0) + (fired?.runs.length ?? 0);
          if (fired === null) this.late += 1;
          return fired;
        },
        release: (name: string) => store.schedules.release(name),
        noteError: (name: string, error: string) => store.schedules.noteError(name, error),
        pruneRuns: () => Promise.resolve(0),
      },
    );
    const runtime = testRuntime({ seed: at + this.draw(1_000) });
    return new Scheduler({ store: { schedules }, runtime, logger: silentLogger, idleMs: 10_000 });
  }
}
