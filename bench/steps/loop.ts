/** What all bare loops are, and how those of servers keep their connections busy. */
import type { Statement } from "../../src/database/sql.ts";
import type { Place } from "../places.ts";

export interface BareParts {
  readonly place: Place;
  readonly worker: string;
  readonly task: string;
  /** Connections on which steps are written. */
  readonly lanes: number;
  /** With the mark where a job's id goes. */
  readonly steps: readonly Statement[];
}

/** A loop that is ready: what it needs is open and prepared. */
export interface Bare extends AsyncDisposable {
  /** Works off all jobs, `batch` of them in a turn, and returns how many there were. */
  run(batch: number): Promise<number>;
}

/** What the loop needs of a server. */
export interface Wires<Job> {
  /** Settles these and claims so many. */
  turn(settled: readonly Job[], limit: number): Promise<Job[]>;
  /** All steps of a job, one after the other, on a connection. */
  steps(lane: number, job: Job): Promise<void>;
}

/** Every lane has a job, and one batch is on its way: claimed and not begun, or ended and not settled. */
export class LaneLoop<Job> {
  readonly #wires: Wires<Job>;
  readonly #lanes: number;
  readonly #batch: number;
  readonly #waiting: Job[] = [];
  readonly #ended: Job[] = [];
  #turning: Promise<void> | null = null;
  #isDry = false;
  #settled = 0;

  constructor(wires: Wires<Job>, { lanes, batch }: { lanes: number; batch: number }) {
    this.#wires = wires;
    this.#lanes = lanes;
    this.#batch = batch;
  }

  async run(): Promise<number> {
    await this.#turn(this.#lanes + this.#batch);
    await Promise.all(Array.from({ length: this.#lanes }, (_, lane) => this.#lane(lane)));
    await this.#turning;
    await this.#turn(0);
    return this.#settled;
  }

  async #lane(lane: number): Promise<void> {
    for (let job = await this.#next(); job !== null; job = await this.#next()) {
      await this.#wires.steps(lane, job);
      this.#ended.push(job);
      if (this.#ended.length >= this.#batch && this.#turning === null) this.#startTurn();
    }
  }

  async #next(): Promise<Job | null> {
    for (;;) {
      const job = this.#waiting.shift();
      if (job !== undefined) return job;
      if (this.#turning === null) {
        if (this.#isDry) return null;
        this.#startTurn();
      }
      await this.#turning;
    }
  }

  #startTurn(): void {
    this.#turning = this.#turn(this.#isDry ? 0 : this.#batch).finally(() => {
      this.#turning = null;
    });
  }

  async #turn(limit: number): Promise<void> {
    const ended = this.#ended.splice(0);
    const claimed = await this.#wires.turn(ended, limit);
    this.#settled += ended.length;
    if (limit > 0 && claimed.length < limit) this.#isDry = true;
    this.#waiting.push(...claimed);
  }
}
