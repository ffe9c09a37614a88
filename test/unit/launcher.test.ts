import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
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
function launchIn(
  files: Record<string, string>,
  flags: readonly string[] = [],
  env: NodeJS.ProcessEnv = process.env,
): Said {
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
    return spawnSync(process.execPath, args, { encoding: "utf8", env });
  } finally {
    rmSync(root, { recursive: true });
  }
}

const mainThatSays = (word: string, code: number): string =>
  `export async function main(args) { console.log("${word}", ...args); return ${code}; }`;

suite("launcher", () => {
  test("the built command gets the arguments, and its answer is the exit code", () => {
    const said = launchIn({ "dist/cli-main.js": mainThatSays("dist", 3) });
    assert.equal(said.stdout, "dist demo --fast\n");
    assert.equal(said.status, 3);
  });

  test("in a checkout the sources win over a build", () => {
    const said = launchIn({
      "dist/cli-main.js": mainThatSays("dist", 0),
      "src/cli/main.ts": mainThatSays("src", 0),
    });
    assert.equal(said.stdout, "src demo --fast\n");
    assert.equal(said.status, 0);
  });

  test("an old Node gets one sentence, and nothing is loaded", () => {
    const said = launchIn({ "dist/cli-main.js": mainThatSays("dist", 0) }, [
      "--import",
      AS_NODE_20,
    ]);
    assert.match(said.stderr, /^holdfast requires Node 24 or newer; this is Node 20\.1\.0\. .*\n$/);
    assert.equal(said.stdout, "");
    assert.equal(said.status, 1);
  });

  test("the library says the same, whatever database it is given", () => {
    const index = join(import.meta.dirname, "../../src/index.ts");
    for (const url of ["postgres://127.0.0.1:1/x", "mysql://127.0.0.1:1/x", "sqlite::memory:"]) {
      const program = `import { openHoldfast } from ${JSON.stringify(index)};
        await openHoldfast(${JSON.stringify(url)}).catch((error) => console.log(error.code, error.message));`;
      const args = ["--import", AS_NODE_20, "--input-type=module", "--eval", program];
      const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
      assert.match(
        stdout,
        /^NODE_TOO_OLD holdfast requires Node 24 or newer; this is Node 20\.1\.0\. Install a newer/,
        stderr,
      );
    }
  });

  test("a package without a command says what is missing", () => {
    const said = launchIn({});
    assert.match(said.stderr, /^The holdfast package is incomplete: .*npm run build.*\n$/);
    assert.equal(said.status, 1);
  });

  test("a command that throws ends with its stack and exit code 1", () => {
    const said = launchIn({
      "dist/cli-main.js": `export async function main() { throw new Error("boom"); }`,
    });
    assert.match(said.stderr, /Error: boom\n\s+at main/);
    assert.equal(said.status, 1);
  });
});

suite("the compile cache", () => {
  const main = `import { getCompileCacheDir } from "node:module";
    export async function main() { console.log(getCompileCacheDir() ?? "none"); return 0; }`;

  /** Where the launcher keeps compiled code, in a home that `prepare` has made. */
  function cacheIn(prepare: (home: string) => NodeJS.ProcessEnv | void): {
    readonly home: string;
    readonly cache: string;
    readonly mode: number | null;
    readonly shared: boolean;
  } {
    const home = mkdtempSync(join(tmpdir(), "holdfast-home-"));
    try {
      const shared = join(home, "shared-tmp");
      mkdirSync(shared, { mode: 0o777 });
      const { NODE_COMPILE_CACHE: _, XDG_CACHE_HOME: __, ...others } = process.env;
      const env = { ...others, HOME: home, TMPDIR: shared, ...prepare(home) };
      const said = launchIn({ "dist/cli-main.js": main }, [], env);
      assert.equal(said.stderr, "");
      const folder = join(home, ".cache/holdfast");
      const mode = existsSync(folder) ? statSync(folder).mode & 0o777 : null;
      const isShared = existsSync(join(shared, "node-compile-cache"));
      return { home, cache: said.stdout.trim(), mode, shared: isShared };
    } finally {
      rmSync(home, { recursive: true });
    }
  }

  const makeFolder = (home: string, mode: number): string => {
    const folder = join(home, ".cache/holdfast");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    chmodSync(folder, mode);
    return folder;
  };

  test("is a private folder in the user's home, and nothing is kept in the shared temporary one", () => {
    const { home, cache, mode, shared } = cacheIn(() => {});
    assert.ok(cache.startsWith(join(home, ".cache/holdfast/")), cache);
    assert.deepEqual([mode, shared], [0o700, false]);
  });

  test("is in XDG_CACHE_HOME if that is an absolute path", () => {
    const named = cacheIn((home) => ({ XDG_CACHE_HOME: join(home, "named") }));
    assert.ok(named.cache.startsWith(join(named.home, "named/holdfast/")), named.cache);
    const relative = cacheIn(() => ({ XDG_CACHE_HOME: "named" }));
    assert.ok(relative.cache.startsWith(join(relative.home, ".cache/holdfast/")), relative.cache);
  });

  for (const [what, prepare] of [
    ["the group may write to", (home) => void makeFolder(home, 0o770)],
    ["others may read", (home) => void makeFolder(home, 0o755)],
    [
      "is a link",
      (home) => {
        mkdirSync(join(home, ".cache"));
        mkdirSync(join(home, "elsewhere"), { mode: 0o700 });
        symlinkSync(join(home, "elsewhere"), join(home, ".cache/holdfast"));
      },
    ],
    [
      "stands in a folder in which anybody can replace it",
      (home) => {
        makeFolder(home, 0o700);
        chmodSync(join(home, ".cache"), 0o777);
      },
    ],
    ["cannot be made", (home) => writeFileSync(join(home, ".cache"), "")],
  ] as const satisfies [string, (home: string) => void][]) {
    test(`a folder that ${what} is not used: there is no cache`, () => {
      const { cache, shared } = cacheIn(prepare);
      assert.deepEqual([cache, shared], ["none", false]);
    });
  }

  test("a folder of another user is not used, nor one in their home", (t) => {
    if (process.geteuid?.() !== 0) return t.skip("only root can give a folder away");
    const theirs = cacheIn((home) => chownSync(makeFolder(home, 0o700), 65_534, 65_534));
    assert.equal(theirs.cache, "none");
    const home = cacheIn((folder) => chownSync(folder, 65_534, 65_534));
    assert.deepEqual([home.cache, home.mode], ["none", null]);
  });
});
