/**
 * The shop's own tables, beside the jobs.
 *
 * A worker may be killed between booking an order and saying so; then the order is worked on again. So booking is
 * idempotent: the job's id is the booking's key, and the money goes into the till only with a new booking, in the same
 * transaction. Every execution that came this far leaves a row of its own, so that the proof can tell how often that
 * was needed.
 */
import { InvalidArgument } from "../../core/errors.ts";
import type { Fence } from "../../core/job.ts";
import type { Engine } from "../../store/engine.ts";
import { SqlStore } from "../../store/sql-store.ts";
import { sql } from "../../store/sql.ts";
import type { Store } from "../../store/store.ts";
import type { Order } from "./order.ts";

const TABLES = `
create table booking (
  job     text    primary key,
  number  integer not null,
  cents   integer not null,
  worker  text    not null,
  epoch   integer not null
);
create table execution (
  job     text    not null,
  worker  text    not null,
  epoch   integer not null,
  booked  integer not null
);
create table till (
  cents   integer not null
);
insert into till values (0);`;

export interface Books {
  /** The jobs whose orders are booked. */
  readonly jobs: readonly string[];
  /** Orders that have more than one booking. */
  readonly bookedTwice: number;
  readonly cents: number;
  /** How often a worker came as far as booking. */
  readonly executions: number;
}

export class Ledger {
  readonly #engine: Engine;

  constructor(store: Store) {
    if (!(store instanceof SqlStore)) {
      throw new InvalidArgument({ field: "store", problem: "the demo's shop needs an SQL store." });
    }
    this.#engine = store.engine;
  }

  async create(): Promise<void> {
    await this.#engine.transaction((tx) => tx.script(TABLES));
  }

  /** False: the order was booked before. */
  book({ number, cents }: Order, { id, worker, epoch }: Fence): Promise<boolean> {
    return this.#engine.transaction(async (tx) => {
      const added = await tx.run(sql`
        insert or ignore into booking (job, number, cents, worker, epoch)
        values (${id}, ${number}, ${cents}, ${worker}, ${epoch})`);
      if (added === 1) await tx.run(sql`update till set cents = cents + ${cents}`);
      await tx.run(sql`
        insert into execution (job, worker, epoch, booked)
        values (${id}, ${worker}, ${epoch}, ${added})`);
      return added === 1;
    });
  }

  async read(): Promise<Books> {
    const jobs = await this.#engine.all<{ job: string }>(sql`select job from booking`);
    return {
      jobs: jobs.map(({ job }) => job),
      bookedTwice: await this.#number(sql`
        select count(*) as n
          from (select number from booking group by number having count(*) > 1)`),
      cents: await this.#number(sql`select cents as n from till`),
      executions: await this.#number(sql`select count(*) as n from execution`),
    };
  }

  async #number(query: ReturnType<typeof sql>): Promise<number> {
    const [row] = await this.#engine.all<{ n: number }>(query);
    return row?.n ?? 0;
  }
}
