/**
 * Nothing that we ship connects as a role named like the schema: PostgreSQL's default search_path then finds our schema
 * before public, and the application's own tables land in it.
 */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { ROOT } from "./settings.ts";

const SHIPPED = [
  "{bench,bin,deploy,docs,examples,page,scripts,src,verify}/**/*.*",
  "deploy/Dockerfile",
  "*.{md,json}",
];

/** A name ends here: holdfast_service is another role. */
const NAMED = String.raw`["'\`]?holdfast["'\`]?(?![\w-])`;

/** How a role is named: in a URL, to a server in a container, to psql, and in SQL. */
const USES = [
  String.raw`\b(?:postgres|postgresql|mysql|mariadb):\/\/holdfast[:@]`,
  String.raw`\b(?:POSTGRES_USER|MYSQL_USER|MARIADB_USER|PGUSER)\b["']?\s*[:=]\s*${NAMED}`,
  String.raw`--username[= ]${NAMED}`,
  String.raw`\b(?:psql|pg_isready|pg_dump|createdb)\b[^\n]* -U ?${NAMED}`,
  String.raw`\bcreate (?:role|user) (?:if not exists )?${NAMED}`,
  String.raw`\buser(?:name)?["']?: ${NAMED}`,
].map((use) => new RegExp(use, "i"));

function linesThatUseIt(text: string): string[] {
  return text.split("\n").filter((line) => USES.some((use) => use.test(line)));
}

describe("database roles", () => {
  test("no file that we ship names one like the schema", () => {
    const files = globSync(SHIPPED, { cwd: ROOT }).filter(
      (path) => !/\.(?:png|svg|lock)$|package-lock/.test(path),
    );
    assert.ok(files.length > 400, `${files.length} files`);
    const found = files.flatMap((path) =>
      linesThatUseIt(readFileSync(join(ROOT, path), "utf8")).map(
        (line) => `${path}: ${line.trim()}`,
      ),
    );
    assert.deepEqual(found, []);
  });

  test("the servers of the tests have another one", () => {
    for (const name of ["POSTGRES", "PGBOUNCER", "MYSQL"]) {
      const { [`HOLDFAST_TEST_${name}_URL`]: url } = process.env;
      if (url !== undefined) assert.notEqual(new URL(url).username, "holdfast", name);
    }
  });

  test("each way to name one is noticed, and the database and other roles may have the name", () => {
    const bad = [
      "postgres://holdfast:secret@db/holdfast",
      "url: mysql://holdfast@db/shop",
      "      POSTGRES_USER: holdfast",
      'POSTGRES_USER="holdfast"',
      "test: [CMD, pg_isready, --username=holdfast, --dbname=holdfast]",
      "psql -h db -U holdfast",
      "create role holdfast login",
      "CREATE USER 'holdfast'@'%'",
      'user: "holdfast",',
    ];
    assert.deepEqual(
      bad.filter((line) => linesThatUseIt(line).length === 0),
      [],
    );
    const good = [
      "postgres://app:secret@holdfast/holdfast",
      "POSTGRES_DB: holdfast",
      "create role holdfast_service nologin;",
      "User=holdfast",
      "journalctl -u holdfast",
      "docker compose --project-name holdfast",
    ];
    assert.deepEqual(
      good.filter((line) => linesThatUseIt(line).length > 0),
      [],
    );
  });
});
