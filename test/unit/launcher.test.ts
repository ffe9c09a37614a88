import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { suite, test } from "node:test";

const launcher = join(import.meta.dirname, "../../bin/holdfast.js");

/** Makes the process believe that it is an old Node, before the launcher looks. */
const AS_NODE_20 = `data:text/javascript,Object.defineProperty(process,"versions",{value:{node:"20.1.0"}})`;

interface Said {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the launcher of a package that consists of these files. */
function launchIn(files: Record<string, string>, flags: readonly string[] = []): Said {
  const root = mkdtempSync(join(tmpdir(), "holdfast-launcher-"));
  try {
    for (const [file, source] of Object.entries({
      "package.json": `{"type":"module"}`,
      ...files,
    })) {
      mkdirSync(dirname(join(root, file)), { recursive: true });
      writeFileSync(join(root, file), source);
    }
    cpSync(launcher, join(root, "bin/holdfast.js"));
    const args = [...flags, join(root, "bin/holdfast.js"), "demo", "--fast"];
    return spawnSync(process.execPath, args, { encoding: "utf8" });
  } finally {
    rmSync(root, { recursive: true });
  }
}

const mainThatSays = (word: string, code: number): string =>
  `export async function main(args) { console.log("${word}", ...args); return ${code}; }`;

suite("launcher", () => {
  test("the built command gets the arguments, and its answer is the exit code", () => {
    const said = launchIn({ "dist/cli/main.js": mainThatSays("dist", 3) });
    assert.equal(said.stdout, "dist demo --fast\n");
    assert.equal(said.status, 3);
  });

  test("in a checkout the sources win over a build", () => {
    const said = launchIn({
      "dist/cli/main.js": mainThatSays("dist", 0),
      "src/cli/main.ts": mainThatSays("src", 0),
    });
    assert.equal(said.stdout, "src demo --fast\n");
    assert.equal(said.status, 0);
  });

  test("an old Node gets one sentence, and nothing is loaded", () => {
    const said = launchIn({ "dist/cli/main.js": mainThatSays("dist", 0) }, [
      "--import",
      AS_NODE_20,
    ]);
    assert.match(said.stderr, /^holdfast needs Node 24 or newer, and this is Node 20\.1\.0: .*\n$/);
    assert.equal(said.stdout, "");
    assert.equal(said.status, 1);
  });

  test("a package without a command says what is missing", () => {
    const said = launchIn({});
    assert.match(said.stderr, /^holdfast is incomplete, .*npm run build.*\n$/);
    assert.equal(said.status, 1);
  });

  test("a command that throws ends with its stack and exit code 1", () => {
    const said = launchIn({
      "dist/cli/main.js": `export async function main() { throw new Error("boom"); }`,
    });
    assert.match(said.stderr, /Error: boom\n\s+at main/);
    assert.equal(said.status, 1);
  });
});
