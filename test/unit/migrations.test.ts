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
import type { DatabaseSync } from "node:sqlite";
import { suite, test } from "node:test";
import { openStore, type Store } from "../../src/app/store.ts";
import { alertStatuses } from "../../src/alerts/alert.ts";
import { severities } from "../../src/database/check.ts";
import { ITEM_LEVELS_MAX, itemActions } from "../../src/core/item.ts";
import { finalStatuses, home, statuses } from "../../src/core/job.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX } from "../../src/core/json.ts";
import { LOCK_KEY_LENGTH_MAX } from "../../src/locks/lock.ts";
import {
  KEY_LENGTH_MAX,
  NAME_LENGTH_MAX,
  TAG_LENGTH_MAX,
  TAGS_MAX,
  TASK_NAME,
} from "../../src/core/name.ts";
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
  sqliteMigrations,
} from "../../src/database/migrate.ts";
import { statements } from "../../src/jobs/postgres-statements.ts";
import type { EngineKind } from "../../src/database/engine.ts";
import { partsOf } from "../../src/database/dialect.ts";
import { NO_HASH } from "../../src/audit/entry.ts";

const ROOT = join(import.meta.dirname, "../..");
const ENGINES = ["sqlite", "postgres", "mysql"] as const;

/** The SHA-256 of every file. A new migration adds a line; no line ever changes. */
const PINS: Readonly<Record<string, string>> = {
  "sqlite/0001-first.sql": "e214c96d7f93e2cd5e019d17df973a14d58741a08e49e0c8009d1f6070d17e59",
  "postgres/0001-first.sql": "40567ef80f9f618296b207e338b8cc08188649a5b51bdca404fb97ad9cf38a60",
  "mysql/0001-first.sql": "074948885ff2983024e562e1de83dfb68f5d56f9719f9e849a821b3230ec2db2",
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
    writeFileSync(join(folder, "0002-drop-old-columns.breaking.sql"), "-- old");
    writeFileSync(
      join(folder, "0001-first.sql"),
      "alter table holdfast_job add column wanted text;",
    );
    writeFileSync(join(folder, "0003-by-label.online.sql"), "-- an index");
    const [first, second, third] = migrationsIn(folder, (script) => script.toUpperCase());
    assert.deepEqual(
      { ...second },
      { version: 2, name: "drop old columns", breaking: true, online: false, script: "-- OLD" },
    );
    assert.deepEqual([third?.name, third?.breaking, third?.online], ["by label", false, true]);
    assert.deepEqual([first?.version, first?.name, first?.breaking], [1, "first", false]);
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
        assert.ok(isChecked(text, column, words), `${differ}: ${text}`);
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
