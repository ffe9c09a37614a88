/**
 * A database, and the stores that tests have opened on it. Opening one takes longer than most tests, so the next test is
 * given the same, with empty tables, unless this one has done something to them that deleting rows does not undo.
 */
import { openStore, type Store } from "../../src/app/store.ts";
import { sql } from "../../src/database/sql.ts";
import type { Hint } from "../../src/database/engine.ts";
import type { TestRuntime } from "../support/runtime.ts";
import { isNear } from "../support/near.ts";
import { emptyTables } from "../support/tables.ts";

export interface Place {
  readonly url: string;
  /** The test is over: another test may have the place. */
  free?(): Promise<void>;
}

/** The first of the openers has a way of its own. */
export type OpenFirst = (url: string, runtime: TestRuntime) => Promise<Store>;

export class Home {
  readonly #place: Place;
  readonly #runtime: TestRuntime;
  readonly #openFirst: OpenFirst;
  readonly #stores: Store[] = [];
  readonly #closes: (() => Promise<void>)[] = [];
  /** How many of the stores the present test has. */
  #given = 0;
  /** The next test shall not have it. */
  isSpent = false;

  constructor(parts: { place: Place; runtime: TestRuntime; openFirst: OpenFirst }) {
    this.#place = parts.place;
    this.#runtime = parts.runtime;
    this.#openFirst = parts.openFirst;
  }

  /** Another opener of the same database. */
  async open(): Promise<Store> {
    const at = this.#given;
    this.#given += 1;
    return this.#stores[at] ?? this.#add(await this.#openAt(at));
  }

  /** One in this process, whose engine can be had. */
  async plain(): Promise<Store> {
    const here = this.#stores.find((store) => isNear(store));
    return here ?? (await this.open());
  }

  async empty(): Promise<void> {
    await emptyTables((await this.plain()).db.engine);
    this.#given = 0;
  }

  /** Their rows cannot simply be deleted. */
  async hasWorkflows(): Promise<boolean> {
    const { engine } = (await this.plain()).db;
    const rows = await engine.all(sql`select name from holdfast.workflow limit 1`);
    return rows.length > 0;
  }

  async leave(): Promise<void> {
    await Promise.all(this.#closes.map((close) => close()));
    await this.#place.free?.();
  }

  #openAt(at: number): Promise<Store> {
    const { url } = this.#place;
    return at === 0
      ? this.#openFirst(url, this.#runtime)
      : openStore(url, { runtime: this.#runtime });
  }

  /** A closed store cannot be opened again, and a watcher may still be called. */
  #add(store: Store): Store {
    const close = store.close.bind(store);
    const { db } = store;
    const watch = db.watch.bind(db);
    this.#stores.push(store);
    this.#closes.push(close);
    Object.assign(db, {
      watch: (hear: (hint: Hint) => void) => {
        this.isSpent = true;
        return watch(hear);
      },
    });
    return Object.assign(store, {
      close: () => {
        this.isSpent = true;
        return close();
      },
    });
  }
}
