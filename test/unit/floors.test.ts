import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { suite, test } from "node:test";
import { checkFloors, type Problem } from "../../scripts/floors.ts";

/** What the checker says about a src/ folder with these files. */
function problemsIn(files: Record<string, string>): Problem[] {
  const root = mkdtempSync(join(tmpdir(), "holdfast-floors-"));
  try {
    for (const [file, source] of Object.entries(files)) {
      mkdirSync(dirname(join(root, file)), { recursive: true });
      writeFileSync(join(root, file), source);
    }
    return checkFloors(root);
  } finally {
    rmSync(root, { recursive: true });
  }
}

function refuses(file: string, source: string, line: number, sentence: RegExp): void {
  const problems = problemsIn({ [file]: source });
  assert.equal(problems.length, 1, JSON.stringify(problems));
  assert.equal(problems[0]?.file, file);
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
    accepts("store/sqlite/engine.ts", `import { sql } from "../sql.ts";`);
    accepts("store/open.ts", `const { engine } = await import("./sqlite/engine.ts");`);
    accepts("index.ts", `export { engine } from "./store/sqlite/engine.ts";`);
  });

  test("a higher floor is refused, however it is imported", () => {
    const sentence = /core\/ \(floor 0\) does not import store\/ \(floor 1\)/;
    refuses("core/job.ts", `\nimport { a } from "../store/store.ts";`, 2, sentence);
    refuses("core/job.ts", `import type { A } from "../store/store.ts";`, 1, sentence);
    refuses("core/job.ts", `import { type A } from '../store/store.ts'`, 1, sentence);
    refuses("core/job.ts", `import * as a from "../store/store.ts";`, 1, sentence);
    refuses("core/job.ts", `import "../store/store.ts";`, 1, sentence);
    refuses("core/job.ts", `import {\n  a,\n  b as c,\n} from "../store/store.ts";`, 4, sentence);
    refuses("core/job.ts", `export { a } from "../store/store.ts";`, 1, sentence);
    refuses("core/job.ts", `export * from "../store/store.ts";`, 1, sentence);
    refuses("core/job.ts", `export type { A } from "../store/store.ts";`, 1, sentence);
    refuses("core/job.ts", `const a = await import("../store/store.ts");`, 1, sentence);
    refuses("core/job.ts", `type A = import("../store/store.ts").A;`, 1, sentence);
    refuses("core/job.ts", "await import(`../store/store.ts`);", 1, sentence);
  });

  test("a neighbour on the same floor is refused", () => {
    refuses("locks/lock.ts", `import { a } from "../store/store.ts";`, 1, /locks\/ .* store\//);
    refuses("ops/monitor.ts", `import { a } from "../worker/loop.ts";`, 1, /ops\/ .* worker\//);
  });

  test("a sub-folder stands on its parent's floor and is private to it", () => {
    refuses("store/sqlite/engine.ts", `import { a } from "../../queue/task.ts";`, 1, /floor 2/);
    refuses(
      "queue/open.ts",
      `import { a } from "../store/sqlite/engine.ts";`,
      1,
      /private to store/,
    );
  });

  test("nothing imports the public entry, the package by name, or what is outside src/", () => {
    refuses("cli/demo.ts", `import { a } from "../index.ts";`, 1, /on no floor/);
    refuses("cli/demo.ts", `import { a } from "holdfast";`, 1, /by name/);
    refuses("cli/demo.ts", `import { a } from "holdfast/testing";`, 1, /by name/);
    refuses("cli/demo.ts", `import { a } from "../../test/a.ts";`, 1, /outside/);
  });

  test("a driver is imported only in its home", () => {
    accepts("store/sqlite/engine.ts", `import { DatabaseSync } from "node:sqlite";`);
    accepts("store/postgres/listen.ts", `const pg = await import("pg");`);
    accepts("locks/redis-lock.ts", `import { Redis } from "ioredis";`);
    refuses(
      "store/jobs.ts",
      `import { DatabaseSync } from "node:sqlite";`,
      1,
      /driver node:sqlite/,
    );
    refuses("store/sqlite/engine.ts", `import { Pool } from "pg";`, 1, /Only store\/postgres\//);
    refuses("queue/open.ts", `import type { Pool } from "pg";`, 1, /driver pg/);
    refuses("queue/open.ts", `const m = await import("mysql2/promise");`, 1, /driver mysql2/);
    refuses("locks/sql-lock.ts", `import { Redis } from "ioredis";`, 1, /redis-lock\.ts/);
    refuses("ops/a.ts", `process.getBuiltinModule("node:sqlite");`, 1, /driver node:sqlite/);
  });

  test("the checker of the torture kit imports nothing of what it judges", () => {
    accepts("verify/check/verdict.ts", `import { judge } from "./jobs.ts";`);
    const sentence = /shares no code.*core\/job\.ts/;
    refuses("verify/check/verdict.ts", `import { job } from "../../core/job.ts";`, 1, sentence);
    refuses("verify/check/verdict.ts", `import { plan } from "../plan.ts";`, 1, /shares no code/);
  });

  test("worker/ and queue/ write no SQL", () => {
    const source = `import { sql } from "../store/sql.ts";`;
    refuses("worker/claimer.ts", source, 1, /writes no SQL/);
    refuses("queue/workflow.ts", source, 1, /writes no SQL/);
    accepts("ops/invariants.ts", source);
  });

  test("names that say nothing are refused, for files and folders", () => {
    refuses("core/utils.ts", "", 1, /'utils'/);
    refuses("core/test-helpers.ts", "", 1, /'helpers'/);
    refuses("worker/lease-manager.ts", "", 1, /'manager'/);
    refuses("server/common/http.ts", "", 1, /'common'/);
    accepts("core/commonmark.ts", "");
  });

  test("a file stands on a floor, and barrels stand only at the entries", () => {
    refuses("things/thing.ts", "", 1, /Only index\.ts/);
    refuses("thing.ts", "", 1, /Only index\.ts/);
    refuses("store/index.ts", "", 1, /barrels/);
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

  test("a silenced lint rule gives its reason", () => {
    refuses("core/job.ts", "\n// oxlint-disable-next-line no-eval", 2, /reason/);
    accepts("core/job.ts", "// oxlint-disable-next-line no-eval -- the console is for experiments");
  });

  test("text that only looks like code is left alone", () => {
    const lookalike = `import { a } from "../store/store.ts"; new Date()`;
    accepts("core/job.ts", `// ${lookalike}`);
    accepts("core/job.ts", `/* \n ${lookalike} */`);
    accepts("core/job.ts", `const text = '${lookalike}';`);
    accepts("core/job.ts", `const text = \`${lookalike}\`;`);
    accepts("core/job.ts", `const text = \`\${{ a: \`\${b}\` }} ${lookalike}\`;`);
    accepts("core/job.ts", `const pattern = /["'\`/*]/g; // ${lookalike}`);
    accepts("core/job.ts", `const text = "\\"; ${lookalike.replaceAll('"', "'")}";`);
    accepts("core/job.ts", `export { a };\nconst from = "../store/store.ts";`);
  });

  test("code inside a template's braces is code", () => {
    refuses("core/job.ts", `const text = \`at \${new Date()} o'clock\`;`, 1, /Time is a parameter/);
  });
});
