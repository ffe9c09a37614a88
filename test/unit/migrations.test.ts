/** The migrations are frozen text: nothing rewrites them, and what they say agrees with the constants of the code. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { suite, test } from "node:test";
import { openStore, type Store } from "../../src/app/store.ts";
import { alertStatuses } from "../../src/alerts/alert.ts";
import { severities } from "../../src/database/check.ts";
import { ITEM_LEVELS_MAX, itemActions } from "../../src/core/item.ts";
import { finalStatuses, home, statuses } from "../../src/core/job.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX } from "../../src/core/json.ts";
import { LOCK_KEY_LENGTH_MAX } from "../../src/locks/lock.ts";
import { KEY_LENGTH_MAX, NAME_LENGTH_MAX, TAG_LENGTH_MAX, TASK_NAME } from "../../src/core/name.ts";
import { reportKinds } from "../../src/core/report.ts";
import { stepKinds, stepStates } from "../../src/core/task.ts";
import {
  activeStates,
  desiredStates,
  SLOTS_MAX,
  workerMoves,
  workerStates,
} from "../../src/registry/worker-record.ts";
import { roles } from "../../src/core/role.ts";
import { PRUNE, PRUNED_BY_LINE } from "../../src/audit/store.ts";
import {
  migrationsFolder,
  migrationsIn,
  mysqlMigrations,
  postgresMigrations,
  sqliteDialect,
  sqliteMigrations,
} from "../../src/database/migrate.ts";
import { statements } from "../../src/jobs/postgres-statements.ts";
import { TAGS_MAX } from "../../src/jobs/list.ts";
import type { EngineKind } from "../../src/database/engine.ts";
import { partsOf } from "../../src/database/dialect.ts";
import { NO_HASH } from "../../src/audit/entry.ts";

const ROOT = join(import.meta.dirname, "../..");
const ENGINES = ["sqlite", "postgres", "mysql"] as const;

/** The SHA-256 of every file. A new migration adds a line; no line ever changes. */
const PINS: Readonly<Record<string, string>> = {
  "sqlite/0010-first.sql": "29b8ed76da7dc14cffc0cc5b1a9b13d39c5d575d737e106105582de2a8d8682a",
  "postgres/0010-first.sql": "8751d1a6dc0cf3268f341f91dfc4db0bd4528b8a563e66af7a589e49252657f5",
  "mysql/0010-first.sql": "8dab41683f4d11e704fc05811a197f96561d0cc0dd4dc3e29128183d3dc7bb9f",
  "sqlite/0011-lanes-and-limits.breaking.sql":
    "0217b749308e50cd6fa82519fae94c55c914c585ed98e50e78c4806fbb7aae3e",
  "postgres/0011-lanes-and-limits.breaking.sql":
    "01b26764931b83d69a9274048fdeeae89304541c32fcaaa1ce09df97ca46f7c7",
  "mysql/0011-lanes-and-limits.breaking.sql":
    "dc67f51c65086f048f12a2fee2c9f8cebcd8afd1a2cc8f071a283aca14c10726",
  "sqlite/0013-flows.sql": "a75bd33dd30c717d5dbda7333276c9ce259a740eea7f984b852942de740a6576",
  "postgres/0013-flows.sql": "522ee8507456ee0de937065a562f76417fad446e5a6429724959cc9ab477ee83",
  "mysql/0013-flows.sql": "10a6968c2817237f4ab113c826160595bb4656ef8e338d6fbf838a7bf16f4a7a",
  "sqlite/0012-schedules.sql": "267f140b19c1dcb3377fda0f1ad1cd4f53910b785682fbe0297c253742f40453",
  "postgres/0012-schedules.sql": "9da3fa16014eb17158709f601d075489e3361259da1516a3b3ca220654f51e52",
  "mysql/0012-schedules.sql": "bc7959d17fd78033e24a7af67e71b3536a539c205d9ec5d1606cf5a17174e19f",
  "sqlite/0014-operators.sql": "91c73e69d58e500efb9ccd4e07bb7a12522b2846201ba4e2272b9d889f0de454",
  "postgres/0014-operators.sql": "bc5c86109317fb214c16657a4b987bbe35a0494caec2097f4e90170cc82794d2",
  "mysql/0014-operators.sql": "29bbb86e17d18006c7d9cfa0fa5e8e9667ca5f6d58f2d93e16d6b6016ac5f688",
  "sqlite/0015-dashboard.sql": "289302916e9a24705d2dde8eb09130ed842cde3de1ffa41f89eda0b7367223f3",
  "postgres/0015-dashboard.sql": "dae733712ce527d875342ce8f5f3c1541add34734615cad8e7f45bc05bd07ff1",
  "mysql/0015-dashboard.sql": "7f0bbf856c3bdc1fa9bb4750176999ced7fac5c3b8e6dfef8cd638fa0fa8450a",
  "sqlite/0016-sparse-indexes.sql":
    "e152fe1b77a6c718475250dd3cb38ba98180aa4a312313da32d47b095f0bb7f3",
  "postgres/0016-sparse-indexes.sql":
    "e152fe1b77a6c718475250dd3cb38ba98180aa4a312313da32d47b095f0bb7f3",
  "mysql/0016-sparse-indexes.breaking.sql":
    "ab8dc295964c131ac3d5f6ba91000767b3e6d08173ac00b198f172c89f2c5804",
  "sqlite/0017-open-runs.sql": "4b195ad4ba5862dd1d8c8eb0e6f1da9d3dcc6c91a5c71704acd8f93702cca4c4",
  "postgres/0017-open-runs.sql": "bf9582bb9bc610fd985fd53ef95f60c66b5d4bad395ed80447b857045a4159ed",
  "mysql/0017-open-runs.sql": "f0948d893cb05449acecdafdb73badbc9e82438e6b3547795ced6d2247e6efa9",
};

const files = ENGINES.flatMap((engine) =>
  readdirSync(migrationsFolder(engine)).map((file) => `${engine}/${file}`),
);

function hashOf(file: string): string {
  const [engine, name = ""] = file.split("/") as [EngineKind, string?];
  return createHash("sha256")
    .update(readFileSync(join(migrationsFolder(engine), name)))
    .digest("hex");
}

suite("frozen migrations", () => {
  test("every file is pinned", () => {
    assert.deepEqual(new Set(files), new Set(Object.keys(PINS)));
  });

  for (const file of files) {
    test(`${file} is as it was`, () => {
      assert.equal(
        hashOf(file),
        PINS[file],
        `${file} is frozen: databases have run it. Restore it, and add a new migration instead.`,
      );
    });
  }

  test("every file is part of the history, in the order of the numbers", () => {
    for (const engine of ENGINES) {
      const history = migrationsIn(migrationsFolder(engine));
      assert.equal(history.length, readdirSync(migrationsFolder(engine)).length);
      history.forEach(({ version }, at) => assert.equal(version, (history[0]?.version ?? 0) + at));
    }
    const [sqlite, ...others] = [
      sqliteMigrations(),
      postgresMigrations(),
      mysqlMigrations(MYSQL),
    ].map((history) => history.map(({ version, name }) => ({ version, name })));
    for (const other of others) assert.deepEqual(other, sqlite);
  });

  test("a database that ran it as one that breaks older versions is corrected", async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-migrations-"));
    t.after(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "jobs.db");
    const old = new DatabaseSync(file);
    old.exec(sqliteDialect.head);
    for (const { version, name, script } of sqliteMigrations().filter((one) => one.version <= 16)) {
      old.exec(script);
      old
        .prepare("insert into holdfast_migration values (?, ?, ?, 0)")
        .run(version, name, version === 16 ? 1 : 0);
    }
    old.close();
    const store = await openStore(`sqlite:${file}`);
    assert.equal((await store.migrate()).from, 16);
    await store.close();
    using now = new DatabaseSync(file);
    const breaking = "select version from holdfast_migration where breaking = 1";
    assert.deepEqual(now.prepare(breaking).all(), []);
  });

  test("a migration that changes nothing on a database breaks no older version there", () => {
    const isEmpty = (script: string): boolean => /^\s*(?:select 1;)?\s*$/.test(plain(script));
    for (const history of [sqliteMigrations(), postgresMigrations(), mysqlMigrations(MYSQL)]) {
      const wrong = history.filter(({ breaking, script }) => breaking && isEmpty(script));
      assert.deepEqual(
        wrong.map(({ version }) => version),
        [],
      );
    }
  });

  test("a new file is the next migration; its name says whether it breaks older versions, or is online", (t) => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-migrations-"));
    t.after(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, "0011-drop-old-columns.breaking.sql"), "-- old");
    writeFileSync(
      join(folder, "0010-first.sql"),
      "alter table holdfast_job add column wanted text;",
    );
    writeFileSync(join(folder, "0012-by-label.online.sql"), "-- an index");
    const [first, second, third] = migrationsIn(folder, (script) => script.toUpperCase());
    assert.deepEqual(
      { ...second },
      { version: 11, name: "drop old columns", breaking: true, online: false, script: "-- OLD" },
    );
    assert.deepEqual([third?.name, third?.breaking, third?.online], ["by label", false, true]);
    assert.deepEqual([first?.version, first?.name, first?.breaking], [10, "first", false]);
    assert.deepEqual(partsOf(migrationsIn(folder)), ["column job.wanted"]);
  });

  test("no constant of the code is part of them", (t) => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-planted-"));
    t.after(() => rmSync(folder, { recursive: true }));
    cpSync(join(ROOT, "src"), join(folder, "src"), { recursive: true });
    cpSync(join(ROOT, "package.json"), join(folder, "package.json"));
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    const plant = (file: string, from: string, to: string): void => {
      const path = join(folder, "src", file);
      const text = readFileSync(path, "utf8");
      assert.ok(text.includes(from), `${file} has no '${from}'`);
      writeFileSync(path, text.replace(from, to));
    };
    plant("core/name.ts", "NAME_LENGTH_MAX = 128", "NAME_LENGTH_MAX = 99");
    plant("core/job.ts", "finalStatuses = [", 'finalStatuses = ["planted",');
    plant(
      "registry/worker-record.ts",
      '"stopping", "stopped"]',
      '"stopping", "stopped", "planted"]',
    );
    plant("jobs/postgres-statements.ts", "locked_by = $2", "locked_by = $2 and true");
    const program = `
      const { openStore } = await import("./src/app/store.ts");
      const history = await import("./src/database/migrate.ts");
      const { NAME_LENGTH_MAX } = await import("./src/core/name.ts");
      const store = await openStore("sqlite::memory:");
      const plan = await store.planMigration();
      await store.close();
      const all = [history.sqliteMigrations(), history.postgresMigrations(), history.mysqlMigrations({ collation: "c" })];
      const scripts = all.map((migrations) => migrations.map(({ script }) => script));
      console.log(JSON.stringify([NAME_LENGTH_MAX, plan.sql, scripts]));`;
    const shown = (cwd: string): unknown[] =>
      JSON.parse(
        execFileSync(process.execPath, ["--input-type=module", "--eval", program], {
          cwd,
          encoding: "utf8",
        }),
      ) as unknown[];
    const [length, ...planted] = shown(folder);
    assert.equal(length, 99);
    assert.deepEqual(planted, shown(ROOT).slice(1));
  });
});

suite("databases in memory", () => {
  const open = async (): Promise<{ store: Store; database: DatabaseSync }> => {
    const store = await openStore("sqlite::memory:");
    const { connection } = store.db.engine as unknown as { connection: { database: DatabaseSync } };
    return { store, database: connection.database };
  };
  const schema = (database: DatabaseSync): unknown[] =>
    database.prepare("select type, name, sql from sqlite_schema order by rowid").all();

  test("start as copies of the first one, each with tables of its own", async () => {
    const opened = [await open(), await open(), await open()] as const;
    const [first, second, third] = opened;
    const migrated = [await first.store.migrate()];
    first.database.exec(
      "insert into holdfast_queue (name, governed, updated_at) values ('first', 0, 0)",
    );
    migrated.push(await second.store.migrate(), await third.store.migrate());
    second.database.exec(
      "insert into holdfast_queue (name, governed, updated_at) values ('second', 0, 0)",
    );
    assert.deepEqual(migrated[1], migrated[0]);
    assert.deepEqual(migrated[2], migrated[0]);
    assert.equal(migrated[0]?.from, 0);
    assert.deepEqual(schema(second.database), schema(first.database));
    assert.deepEqual(third.database.prepare("select name from holdfast_queue").all(), []);
    await third.store.checkSchema();
    for (const { store } of opened) await store.close();
  });

  test("keep the tables they had", async () => {
    const { store, database } = await open();
    database.exec("create table theirs (a int); insert into theirs values (1)");
    await store.migrate();
    assert.equal(database.prepare("select a from theirs").all().length, 1);
    await store.checkSchema();
    await store.close();
  });
});

const MYSQL = { collation: "utf8mb4_0900_bin" };

const scripts = {
  sqlite: sqliteMigrations()
    .map(({ script }) => script)
    .join("\n"),
  postgres: postgresMigrations()
    .map(({ script }) => script)
    .join("\n"),
  mysql: mysqlMigrations(MYSQL)
    .map(({ script }) => script)
    .join("\n"),
};

const plain = (text: string): string =>
  text
    .replaceAll(/--.*$/gm, "")
    .replaceAll(/\s+/g, " ")
    .replaceAll("( ", "(")
    .replaceAll(" )", ")")
    .trim();

/** The statement that creates a table, a trigger or a function, on one line. */
function made(engine: keyof typeof scripts, what: string, name: string): string {
  const pattern = new RegExp(
    `^create (?:or replace )?${what} (?:if not exists )?(?:holdfast[._])?${name}\\b[^]*?(?:;\n\n|;\n(?=create)|;\n(?![^])|\\$\\$;)`,
    "gm",
  );
  const [text] = [...scripts[engine].matchAll(pattern)].at(-1) ?? [];
  assert.ok(text !== undefined, `${engine} has no ${what} ${name}`);
  return plain(text);
}

const listed = (words: readonly string[]): string => words.map((word) => `'${word}'`).join(", ");

/** The check of a column that has one of these words; the hot tables of SQLite compare with "or". */
function isChecked(text: string, column: string, words: readonly string[]): boolean {
  const compared = words.map((word) => `${column} = '${word}'`).join(" or ");
  return [`${column} in (${listed(words)})`, compared].some((check) =>
    text.includes(`check (${check})`),
  );
}

const WORDS: readonly [table: string, column: string, words: readonly string[]][] = [
  ["waiting", "status", statuses.filter((status) => home[status] === "waiting")],
  ["finished", "status", finalStatuses],
  ["worker", "status", workerStates],
  ["worker", "desired_state", desiredStates],
  ["step", "kind", stepKinds],
  ["step", "status", stepStates],
  ["report", "kind", reportKinds],
  ["item", "action", itemActions],
  ["item_audit", "action", itemActions],
  ["alert", "severity", severities],
  ["alert", "status", alertStatuses],
  ["token", "role", roles],
];

const NAMES = [
  ["job", "queue"],
  ["job", "task"],
  ["worker_type", "name"],
  ["step", "name"],
  ["report", "name"],
  ["workflow", "name"],
  ["workflow_type", "name"],
  ["workflow_state", "name"],
  ["workflow_move", "name"],
  ["item", "tenant"],
  ["alert", "rule"],
  ["token", "name"],
] as const;

for (const engine of ENGINES) {
  suite(`the literals of the migrations on ${engine} and the constants of the code`, () => {
    const differ = "add a migration that changes the schema, too";

    for (const [table, column, words] of WORDS) {
      test(`the words of ${table}.${column}`, () => {
        const text = made(engine, "table", table);
        // Or a later migration replaced the check; in a text of MySQL its quotes are doubled.
        const changed = plain(scripts[engine]).replaceAll("''", "'");
        const replaced = changed.split(`constraint ${table}_${column}`).at(-1) ?? "";
        const isReplaced = isChecked(replaced, column, words);
        assert.ok(isChecked(text, column, words) || isReplaced, `${differ}: ${text}`);
      });
    }

    test("the lengths of names and keys", () => {
      const limit = (table: string, column: string, most: number): void => {
        const text = made(engine, "table", table);
        const wanted =
          engine === "mysql"
            ? new RegExp(`\\b${column} varchar\\(${most}\\)`)
            : new RegExp(
                `\\b${column} text [^,]*check \\(length\\(${column}\\) between 1 and ${most}\\)`,
              );
        assert.match(text, wanted, differ);
      };
      for (const [table, column] of NAMES) limit(table, column, NAME_LENGTH_MAX);
      limit("item", "identifier", KEY_LENGTH_MAX);
      limit("lock", "name", LOCK_KEY_LENGTH_MAX);
      if (engine === "mysql") limit("job", "job_key", KEY_LENGTH_MAX);
      limit("job_tag", "tag", TAG_LENGTH_MAX);
    });

    test("the limits of slots and of levels", () => {
      assert.ok(made(engine, "table", "worker_type").includes(`slots between 1 and ${SLOTS_MAX}`));
      assert.ok(
        made(engine, "table", "item").includes(`depth between 0 and ${ITEM_LEVELS_MAX - 1}`),
      );
    });

    test("the life of a worker", () => {
      const text = made(engine, "trigger", engine === "mysql" ? "worker_stays" : "worker_moves");
      for (const from of workerStates) {
        const next = [from, ...workerMoves[from]];
        const refused = next.length === 1 ? `<> '${from}'` : `not in (${listed(next)})`;
        assert.ok(
          text.includes(`old.status = '${from}' and new.status ${refused}`),
          `${differ}: ${text}`,
        );
      }
      const slot =
        engine === "mysql"
          ? made(engine, "table", "worker")
          : made(engine, "unique index", "worker_slot");
      assert.ok(slot.includes(`status in (${listed(activeStates)})`), `${differ}: ${slot}`);
    });

    test("how the audit begins, and how its pruning is described", () => {
      const text = plain(scripts[engine]);
      assert.ok(text.includes(`values (1, 0, '${NO_HASH}', 0, '${NO_HASH}')`));
      assert.ok(text.includes(`action = '${PRUNE}'`));
      assert.ok(text.includes(`'holdfast: ${PRUNED_BY_LINE}'`));
    });
  });
}

suite("the SQL functions of PostgreSQL", () => {
  test("have the limits of the code", () => {
    const enqueue = made("postgres", "function", "enqueue");
    for (const limit of [
      `check_name('task', task, ${NAME_LENGTH_MAX})`,
      `task !~ '${TASK_NAME.source}'`,
      `check_name('queue', queue, ${NAME_LENGTH_MAX})`,
      `check_name('key', key, ${KEY_LENGTH_MAX})`,
      `octet_length(payload::text), 1, ${DEFAULT_PAYLOAD_BYTES_MAX})`,
    ]) {
      assert.ok(enqueue.includes(limit), limit);
    }
    const tag = made("postgres", "function", "tag");
    assert.ok(tag.includes(`check_name('tag', one, ${TAG_LENGTH_MAX})`));
    assert.ok(tag.includes(`0, ${TAGS_MAX})`));
    const acquire = made("postgres", "function", "acquire_lease");
    assert.ok(acquire.includes(`check_name('worker', worker, ${NAME_LENGTH_MAX})`));
  });

  const remedy = "add a migration that creates the function again, with the statement as it is now";

  test("claim with the statement of the workers", () => {
    const shared = (text: string): string => text.slice(0, text.indexOf("from taken, clock c)"));
    const [, body = ""] = made("postgres", "function", "turn").split("$$");
    assert.equal(shared(body.trim()), shared(plain(statements.claimFromSeveral)), remedy);
  });

  test("extend with the statement of the workers", () => {
    const [, body = ""] = made("postgres", "function", "extend").split("$$");
    assert.equal(body.trim(), plain(statements.extendOne), remedy);
  });
});
