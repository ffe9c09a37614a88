/** The store contract on SQLite: in memory, on a file, and on a file that several processes share. */
import assert from "node:assert/strict";
import { copyFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { openStore } from "../../src/app/store.ts";
import { tempFolder } from "../support/folder.ts";
import { statements } from "../../src/jobs/sqlite-statements.ts";
import { listenToDrivers } from "../support/sql-texts.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { notItsTurn } from "../support/scale.ts";
import { StoreProcesses } from "../support/remote-store.ts";
import { inMode, type Place } from "./in-mode.ts";

/** No promise takes a second; one that takes this long will not come. */
const limits = { timeout: 120_000 };

const PROCESSES = 3;

const drivers = listenToDrivers();
const folder = tempFolder();

/** A file with the tables, which most tests begin with: making them takes longer than most tests. */
let migrated = "";
before(async () => {
  migrated = folder.file(".db");
  const store = await openStore(`sqlite:${migrated}`);
  await store.migrate();
  await store.close();
});

function file({ migrate }: { migrate: boolean }): Place {
  const path = folder.file(".db");
  if (migrate) copyFileSync(migrated, path);
  return { url: `sqlite:${path}` };
}

/** Both are the same engine: a sample has one of them whole. */
const KINDS = ["memory", "file"];

describe("sqlite in memory", { ...limits, skip: notItsTurn("memory", KINDS) }, () => {
  inMode({
    alone: "a database in memory has one opener",
    place: () => ({ url: "sqlite::memory:" }),
    open: (url, runtime) => openStore(url, { runtime }),
  });
});

describe("sqlite on a file", { ...limits, skip: notItsTurn("file", KINDS) }, () => {
  inMode({ alone: null, place: file, open: (url, runtime) => openStore(url, { runtime }) });
});

describe("sqlite on a file shared by several processes", limits, () => {
  let processes: StoreProcesses;
  before(() => void (processes = new StoreProcesses(PROCESSES)));
  inMode({
    alone: null,
    place: file,
    open: (url, { clock }) => processes.open(url, clock),
    which: "between",
    apart: true,
  });

  after(() => processes.stop());

  test("each of the processes had its share in all this", () => {
    const calls = processes.calls();
    assert.equal(calls.size, PROCESSES);
    assert.ok(Math.min(...calls.values()) > 100);
  });
});

test("every SQL text of the store was executed", (context) => {
  const texts = {
    folder: "sqlite",
    prefix: "holdfast_",
    statements,
    except: /force index|unnest\(|strpos/,
  } as const;
  context.diagnostic(`${drivers.count(texts)} texts`);
  assert.deepEqual(drivers.missing(texts), []);
});

after(async () => {
  folder[Symbol.dispose]();
  await assertNothingRuns();
});
