/** The store contract on SQLite: in memory, on a file, and on a file that several processes share. */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { openStore } from "../../src/store/open.ts";
import { sql } from "../../src/store/sql.ts";
import { SqlStore } from "../../src/store/sql-store.ts";
import type { Store } from "../../src/store/store.ts";
import type { Open } from "../support/bundle.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { StoreProcesses } from "../support/remote-store.ts";
import { testRuntime, type TestRuntime } from "../support/runtime.ts";
import { conformance } from "./suite.ts";

/** No promise takes a second; one that takes this long will not come. */
const limits = { timeout: 60_000 };

const PROCESSES = 3;

/** One way of opening a database: what `open` gives to a test. */
interface Mode {
  readonly alone: string | null;
  /** Where a fresh database is. */
  readonly place: () => string;
  readonly open: (url: string, runtime: TestRuntime) => Promise<Store>;
}

/** The tests of one mode. Whatever a test opened is closed after it. */
function inMode({ alone, place, open: openFirst }: Mode): void {
  const opened: Store[] = [];
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((store) => store.close()));
  });
  const keep = (store: Store): Store => {
    opened.push(store);
    return store;
  };

  const open: Open = async ({ migrate = true } = {}) => {
    const runtime = testRuntime();
    const url = place();
    const store = keep(await openFirst(url, runtime));
    if (migrate) await store.migrate();
    const another = async (): Promise<Store> => keep(await openStore(url, { runtime }));
    return {
      store,
      clock: runtime.clock,
      alone,
      another,
      async pretendMigration(version, { breaking }) {
        const opener = store instanceof SqlStore ? store : ((await another()) as SqlStore);
        await opener.engine.transaction((tx) =>
          tx.run(sql`
            insert into holdfast.migration (version, name, breaking, applied_at)
            values (${version}, ${`pretended ${version}`}, ${breaking ? 1 : 0}, ${runtime.now()})`),
        );
      },
    };
  };
  conformance(open);
}

const folder = tempFolder();
const file = (): string => `sqlite:${folder.file(".db")}`;

describe("sqlite in memory", limits, () => {
  inMode({
    alone: "a database in memory has one opener",
    place: () => "sqlite::memory:",
    open: (url, runtime) => openStore(url, { runtime }),
  });
});

describe("sqlite on a file", limits, () => {
  inMode({ alone: null, place: file, open: (url, runtime) => openStore(url, { runtime }) });
});

describe("sqlite on a file shared by several processes", limits, () => {
  let processes: StoreProcesses;
  before(() => void (processes = new StoreProcesses(PROCESSES)));
  after(() => processes.stop());
  inMode({ alone: null, place: file, open: (url, { clock }) => processes.open(url, clock) });

  test("each of the processes had its share in all this", () => {
    const calls = processes.calls();
    assert.equal(calls.size, PROCESSES);
    assert.ok(Math.min(...calls.values()) > 100);
  });
});

after(async () => {
  folder[Symbol.dispose]();
  await assertNothingRuns();
});
