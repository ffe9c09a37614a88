import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { suite, test } from "node:test";
import { checkFloors, type Problem } from "../../scripts/floors.ts";

/** A file is in src/, or in a folder beside it. */
function pathOf(file: string): string {
  return /^(?:verify|page)\//.test(file) ? file : `src/${file}`;
}

/** What the checker says about a project with these files. */
function problemsIn(files: Record<string, string>): Problem[] {
  const root = mkdtempSync(join(tmpdir(), "holdfast-floors-"));
  try {
    for (const [file, source] of Object.entries(files)) {
      const path = join(root, pathOf(file));
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, source);
    }
    return checkFloors(root);
  } finally {
    rmSync(root, { recursive: true });
  }
}

function refuses(file: string, source: string, line: number, sentence: RegExp): void {
  const problems = problemsIn({ [file]: source });
  assert.equal(problems.length, 1, JSON.stringify(problems));
  assert.equal(problems[0]?.file, pathOf(file));
  assert.equal(problems[0]?.line, line);
  assert.match(problems[0]?.sentence ?? "", sentence);
}

function accepts(file: string, source: string): void {
  assert.deepEqual(problemsIn({ [file]: source }), []);
}

suite("floors", () => {
  test("a file imports its own folder and lower floors", () => {
    accepts("worker/worker.ts", `import { loop } from "./loop.ts";`);
    accepts("worker/worker.ts", `import { job } from "../core/job.ts";`);
    accepts("database/sqlite/engine.ts", `import { sql } from "../sql.ts";`);
    accepts("database/open.ts", `const { engine } = await import("./sqlite/engine.ts");`);
    accepts("index.ts", `export { engine } from "./database/sqlite/engine.ts";`);
  });

  test("a higher floor is refused, however it is imported", () => {
    const sentence = /core\/ \(floor 0\) does not import jobs\/ \(floor 6\)/;
    refuses("core/job.ts", `\nimport { a } from "../jobs/store.ts";`, 2, sentence);
    refuses("core/job.ts", `import type { A } from "../jobs/store.ts";`, 1, sentence);
    refuses("core/job.ts", `import { type A } from '../jobs/store.ts'`, 1, sentence);
    refuses("core/job.ts", `import * as a from "../jobs/store.ts";`, 1, sentence);
    refuses("core/job.ts", `import "../jobs/store.ts";`, 1, sentence);
    refuses("core/job.ts", `import {\n  a,\n  b as c,\n} from "../jobs/store.ts";`, 4, sentence);
    refuses("core/job.ts", `export { a } from "../jobs/store.ts";`, 1, sentence);
    refuses("core/job.ts", `export * from "../jobs/store.ts";`, 1, sentence);
    refuses("core/job.ts", `export type { A } from "../jobs/store.ts";`, 1, sentence);
    refuses("core/job.ts", `const a = await import("../jobs/store.ts");`, 1, sentence);
    refuses("core/job.ts", `type A = import("../jobs/store.ts").A;`, 1, sentence);
    refuses("core/job.ts", "await import(`../jobs/store.ts`);", 1, sentence);
  });

  test("a neighbour on the same floor is refused", () => {
    refuses("locks/lock.ts", `import { a } from "../jobs/store.ts";`, 1, /locks\/ .* jobs\//);
    refuses("doctor/doctor.ts", `import { a } from "../monitoring/canary.ts";`, 1, /floor 10/);
  });

  test("a sub-folder is on its parent's floor and is private to it", () => {
    refuses("database/sqlite/engine.ts", `import { a } from "../../jobs/rows.ts";`, 1, /floor 6/);
    refuses(
      "app/store.ts",
      `import { a } from "../database/sqlite/engine.ts";`,
      1,
      /private to database/,
    );
    accepts("jobs/sqlite.ts", `import { a } from "../database/sqlite/engine.ts";`);
    accepts("jobs/mysql-insert.ts", `import { a } from "../database/mysql/engine.ts";`);
    refuses("jobs/sqlite.ts", `import { a } from "../database/mysql/engine.ts";`, 1, /private/);
  });

  test("nothing imports the public entry, the package by name, or what is outside src/", () => {
    refuses("verify/demo-command.ts", `import { a } from "../src/index.ts";`, 1, /on no floor/);
    refuses("verify/demo-command.ts", `import { a } from "holdfast";`, 1, /by name/);
    refuses("verify/demo-command.ts", `import { a } from "holdfast/testing";`, 1, /by name/);
    refuses("verify/demo-command.ts", `import { a } from "../test/a.ts";`, 1, /outside/);
  });

  test("a driver is imported only in its home", () => {
    accepts("database/sqlite/engine.ts", `import { DatabaseSync } from "node:sqlite";`);
    accepts("database/postgres/listen.ts", `const pg = await import("pg");`);
    accepts("locks/redis.ts", `import { Redis } from "ioredis";`);
    refuses(
      "jobs/store.ts",
      `import { DatabaseSync } from "node:sqlite";`,
      1,
      /driver node:sqlite/,
    );
    refuses(
      "database/sqlite/engine.ts",
      `import { Pool } from "pg";`,
      1,
      /Only database\/postgres\//,
    );
    refuses("database/open.ts", `import type { Pool } from "pg";`, 1, /driver pg/);
    refuses("database/open.ts", `const m = await import("mysql2/promise");`, 1, /driver mysql2/);
    refuses("locks/store.ts", `import { Redis } from "ioredis";`, 1, /redis\.ts/);
    refuses("doctor/a.ts", `process.getBuiltinModule("node:sqlite");`, 1, /driver node:sqlite/);
  });

  test("the checker of the torture kit imports nothing from the product", () => {
    accepts("verify/check/verdict.ts", `import { judge } from "./jobs.ts";`);
    const sentence = /shares no code.*core\/job\.ts/;
    refuses("verify/check/verdict.ts", `import { job } from "../../src/core/job.ts";`, 1, sentence);
    refuses("verify/check/verdict.ts", `import { plan } from "../plan.ts";`, 1, /shares no code/);
  });

  test("files that decide or display contain no SQL", () => {
    const source = `import { sql } from "../database/sql.ts";`;
    refuses("worker/claimer.ts", source, 1, /writes no SQL/);
    refuses("app/store.ts", source, 1, /writes no SQL/);
    refuses("jobs/routes.ts", source, 1, /writes no SQL/);
    refuses("jobs/lease-command.ts", source, 1, /writes no SQL/);
    accepts("jobs/store.ts", source);
  });

  test("names that say nothing are refused, for files and folders", () => {
    refuses("core/utils.ts", "", 1, /'utils'/);
    refuses("core/test-helpers.ts", "", 1, /'helpers'/);
    refuses("worker/lease-manager.ts", "", 1, /'manager'/);
    refuses("http-kernel/common/body.ts", "", 1, /'common'/);
    accepts("core/commonmark.ts", "");
  });

  test("every file is on a floor, and barrels are only at the entries", () => {
    refuses("things/thing.ts", "", 1, /Only index\.ts/);
    refuses("thing.ts", "", 1, /Only index\.ts/);
    refuses("jobs/index.ts", "", 1, /barrels/);
    accepts("testing/index.ts", "");
  });

  test("only the runtime reads the clock through Date", () => {
    refuses("core/job.ts", "const a = 1;\nconst b = new Date();", 2, /Time is a parameter/);
    refuses("core/job.ts", "const b = new Date;", 1, /Time is a parameter/);
    refuses("core/job.ts", "const b = Date();", 1, /Time is a parameter/);
    accepts("core/job.ts", "const b = new Date(at).toISOString();");
    accepts("core/job.ts", "const b = (at: Date): Date => at; const c = Date.parse(text);");
    accepts("core/runtime.ts", "const b = new Date();");
  });

  test("words that hide the actor are refused", () => {
    refuses("core/job.ts", "\n/** Whoever holds it. */", 2, /'Whoever'/);
  });

  test("a silenced lint rule gives its reason", () => {
    refuses("core/job.ts", "\n// oxlint-disable-next-line no-eval", 2, /reason/);
    accepts("core/job.ts", "// oxlint-disable-next-line no-eval -- the console is for experiments");
  });

  test("text that only looks like code is ignored", () => {
    const lookalike = `import { a } from "../jobs/store.ts"; new Date()`;
    accepts("core/job.ts", `// ${lookalike}`);
    accepts("core/job.ts", `/* \n ${lookalike} */`);
    accepts("core/job.ts", `const text = '${lookalike}';`);
    accepts("core/job.ts", `const text = \`${lookalike}\`;`);
    accepts("core/job.ts", `const text = \`\${{ a: \`\${b}\` }} ${lookalike}\`;`);
    accepts("core/job.ts", `const pattern = /["'\`/*]/g; // ${lookalike}`);
    accepts("core/job.ts", `const text = "\\"; ${lookalike.replaceAll('"', "'")}";`);
    accepts("core/job.ts", `const a = 1;\nexport { a };\nconst from = "../jobs/store.ts";`);
  });

  test("code inside a template's braces is code", () => {
    refuses("core/job.ts", `const text = \`at \${new Date()} o'clock\`;`, 1, /Time is a parameter/);
  });

  test("the page imports its own files and preact, and nothing imports it", () => {
    accepts("page/main.tsx", `import { useState } from "preact/hooks"; import "./pages/job.tsx";`);
    accepts("page/pages/job.tsx", `import { go } from "../router.ts";`);
    const sentence = /share no code/;
    refuses("page/main.tsx", `import { statuses } from "../src/core/job.ts";`, 1, sentence);
    refuses("page/pages/job.tsx", `import { z } from "zod";`, 1, sentence);
    refuses("dashboard/assets.ts", `import { go } from "../../page/router.ts";`, 1, sentence);
  });

  test("the page makes no HTML from text", () => {
    refuses("page/main.tsx", "\nelement.innerHTML = text;", 2, /innerHTML/);
  });
});
