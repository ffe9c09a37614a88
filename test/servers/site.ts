/** Two stores on one database: one by way of a proxy, whose engine a test may change, and one without faults. */
import { composeStore, openStore, type Store } from "../../src/app/store.ts";
import type { Engine } from "../../src/database/engine.ts";
import type { StoreOptions } from "../../src/database/open.ts";
import { statementsFor } from "../../src/jobs/statements.ts";
import type { JobStatements } from "../../src/jobs/store.ts";
import { Proxy as TcpProxy } from "../support/proxy.ts";
import type { EngineUnderTest } from "./engines.ts";
import type { Verb } from "./verbs.ts";

export type Change = (engine: Engine, statements: JobStatements) => [Engine, JobStatements];

export class Site implements AsyncDisposable {
  readonly engine: EngineUnderTest;
  readonly proxy: TcpProxy;
  readonly store: Store;
  readonly direct: Store;
  static #queues = 0;

  private constructor(engine: EngineUnderTest, proxy: TcpProxy, store: Store, direct: Store) {
    this.engine = engine;
    this.proxy = proxy;
    this.store = store;
    this.direct = direct;
  }

  static async open(
    engine: EngineUnderTest,
    url: string,
    { change = (...same) => same, ...options }: StoreOptions & { change?: Change } = {},
  ): Promise<Site> {
    const proxy = await TcpProxy.before(url);
    const store = await openStore(proxy.url, options);
    return new Site(
      engine,
      proxy,
      composeStore(...change(store.db.engine, await statementsFor(store.db.engine))),
      await openStore(url),
    );
  }

  static newQueue(): string {
    Site.#queues += 1;
    return `queue-${Site.#queues}`;
  }

  message({ message }: Pick<Verb, "message">): RegExp {
    return message === "commit" ? this.engine.commit : this.engine.alone[message];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.store.close();
    await this.direct.close();
    await this.proxy[Symbol.asyncDispose]();
  }
}

/** The same engine, but for these members. */
export function changed(engine: Engine, changes: Partial<Engine>): Engine {
  return new Proxy(engine, {
    get(target, name) {
      if (Object.hasOwn(changes, name)) return Reflect.get(changes, name) as unknown;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function" ? (member.bind(target) as unknown) : member;
    },
  });
}
