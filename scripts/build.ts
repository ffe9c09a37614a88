/**
 * Makes the package: `node scripts/build.ts [--out folder]`.
 *
 * A process reads a handful of files when it starts, and not every module: the library is one file, each engine another, and
 * the rest is loaded when it is needed. Names and lines stay readable, because stacks name them.
 */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { isBuiltin } from "node:module";
import { join, posix, sep } from "node:path";
import { parseArgs } from "node:util";
import { build, type CodeSplittingNameFunction } from "rolldown";
import { bundledName } from "../src/core/version.ts";
import { bundleDashboard } from "./dashboard.ts";

const ROOT = join(import.meta.dirname, "..");
const SOURCES = join(ROOT, "src");

/** What an application imports, what the launcher starts, and what is started as a process of its own. */
const ENTRIES = [
  "index",
  "workflows/index",
  "flows/index",
  "schedules/index",
  "locks/index",
  "app/ops",
  "app/dashboard",
  "testing/index",
  "cli/main",
  "cli/example-tasks",
  "isolation/child",
  "../verify/producer-process",
  "../verify/worker-process",
];

/** It shares nothing with the thread that starts it, so it is one small file. */
const THREAD = "src/worker/lease-renewer-thread.ts";

/**
 * Files that hold all that these modules import, and what they import in turn. A module is in the first that needs it, so
 * that a worker reads the library, `main`, `service` and the file of its engine, and no other command.
 */
const FILES: Readonly<Record<string, readonly string[]>> = {
  library: ["index.ts", "database/user-tx/recognise.ts"],
  sqlite: ["database/sqlite/*.ts", "jobs/sqlite.ts"],
  postgres: ["database/postgres/*.ts", "jobs/postgres.ts"],
  mysql: ["database/mysql/*.ts", "jobs/mysql.ts"],
  // Operations show their results and refuse inputs with them: without a file of their own, a server would read all of `main`.
  tables: ["terminal/{table,usage}.ts"],
  main: ["cli/{main,database,tasks}.ts"],
  watch: ["alerts/alerts.ts", "doctor/doctor.ts", "monitoring/monitor.ts"],
  // Commands and the server share them: without a file of their own, a command would read the server, and zod.
  operations: ["*/*operations.ts"],
  service: ["cli/start.ts"],
  server: ["app/server.ts", "monitoring/{metrics,health}.ts"],
  commands: ["*/*command.ts", "../verify/*command.ts", "cli/{enqueue,job,top,settings}.ts"],
};

/** Those that bundlers of applications read stay, such as `webpackIgnore`. */
const COMMENTS = { annotation: true, jsdoc: false, legal: false } as const;

const LICENSES = "LICENSES.md";

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
}

const { dependencies, peerDependencies } = readManifest(ROOT);
const INSTALLED = Object.keys({ ...dependencies, ...peerDependencies });

/** Files that the library reads, at the same path beside the modules. */
const DATA = ["database/migrations"];

/** Bundles the package's modules, as they stand, into a folder. */
export async function bundleInto(folder: string): Promise<void> {
  const paths = ENTRIES.map((path) => posix.join("src", `${path}.ts`));
  await bundle(paths, folder);
}

/** The dashboard's page, as its server reads it. */
async function pageInto(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  for (const [name, content] of await bundleDashboard()) writeFileSync(join(folder, name), content);
}

/** Bundles programs that use the library, with the library's thread, data and page beside them. */
export async function bundle(paths: readonly string[], folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  const common = { cwd: ROOT, platform: "node", external: isExternal } as const;
  const main = await build({
    ...common,
    input: inputs(paths),
    output: {
      dir: folder,
      comments: COMMENTS,
      chunkFileNames: "[name]-[hash].js",
      codeSplitting: {
        includeDependenciesRecursively: false,
        groups: [{ name: fileOf(), debugName: "files" }],
      },
    },
    preserveEntrySignatures: "allow-extension", // Demanded by these groups; the entries export what they did.
    // A dynamic import of a module that is loaded anyway costs nothing; it matters in a checkout.
    checks: { ineffectiveDynamicImport: false },
  });
  await build({
    ...common,
    input: inputs([THREAD]),
    output: { dir: folder, comments: COMMENTS, chunkFileNames: "thread-[name].js" },
  });
  const modules = main.output.flatMap((file) => (file.type === "chunk" ? file.moduleIds : []));
  writeFileSync(join(folder, LICENSES), licensesOf(modules));
  for (const path of DATA) copyData(path, folder);
  await pageInto(join(folder, "dashboard"));
  for (const name of globSync("*.js", { cwd: folder })) escapeIn(join(folder, name));
}

/**
 * Packages that the application installs: the drivers. All others are part of our files, as far as we use them: a
 * process then reads a few files instead of a hundred, and an application installs nothing else but types.
 */
function isExternal(id: string): boolean {
  if (isBuiltin(id)) return true;
  return INSTALLED.some((name) => id === name || id.startsWith(`${name}/`));
}

/** The licenses of the packages that our files contain, and the dashboard's page. */
function licensesOf(modules: readonly string[]): string {
  const found = modules.filter((path) => path.includes(MODULES)).map(packageFolderOf);
  const folders = new Set([...found, join(ROOT, "node_modules/preact")]);
  const texts = [...folders].toSorted().map(licenseOf);
  return `These packages are part of the files in this folder.\n\n${texts.join("\n")}`;
}

const MODULES = `${sep}node_modules${sep}`;

/** `…/node_modules/@pinojs/redact/index.js`: `…/node_modules/@pinojs/redact` */
function packageFolderOf(path: string): string {
  const start = path.lastIndexOf(MODULES) + MODULES.length;
  const [first = "", second = ""] = path.slice(start).split(sep);
  const name = first.startsWith("@") ? join(first, second) : first;
  return path.slice(0, start) + name;
}

function licenseOf(folder: string): string {
  const { name, version } = readManifest(folder);
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  if (file === undefined)
    throw new Error(`${name} is bundled, but its license is not in ${folder}`);
  return `# ${name} ${version}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
}

/** V8 keeps the text of a module, with two bytes for every character if one of them needs two. */
function escapeIn(file: string): void {
  writeFileSync(file, readFileSync(file, "utf8").replaceAll(/[^\0-\u007F]/g, escaped));
}

function escaped(unit: string): string {
  return `\\u${unit.codePointAt(0)?.toString(16).padStart(4, "0")}`;
}

function inputs(paths: readonly string[]): Record<string, string> {
  const named = paths.map((path) => [bundledName(path.replaceAll(/^src\/|\.ts$/g, "")), path]);
  return Object.fromEntries(named) as Record<string, string>;
}

/** Finds the file of FILES that a module belongs to; null: it is loaded when it is needed. */
function fileOf(): CodeSplittingNameFunction {
  const files = new Map<string, string>();
  return (module, graph) => {
    const add = (file: string, path: string): void => {
      if (files.has(path)) return;
      files.set(path, file);
      for (const next of graph.getModuleInfo(path)?.importedIds ?? []) add(file, next);
    };
    if (files.size === 0) {
      for (const [file, seeds] of Object.entries(FILES))
        for (const path of globSync([...seeds], { cwd: SOURCES })) add(file, join(SOURCES, path));
    }
    return files.get(module) ?? null;
  };
}

/** Puts what bundled modules read beside them. */
function copyData(path: string, folder: string): void {
  cpSync(join(SOURCES, path), join(folder, path), {
    recursive: true,
    filter: (file) => !file.endsWith(".ts"),
  });
}

/** The package in a folder of its own, without its types. Returns the launcher. */
export async function assemble(folder: string): Promise<string> {
  await bundleInto(join(folder, "dist"));
  for (const name of ["bin", "package.json"]) {
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  return join(folder, "bin/holdfast.js");
}

function declareInto(folder: string): void {
  const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
  const args = ["--project", "tsconfig.build.json", "--outDir", join(folder, "types")];
  execFileSync(process.execPath, [compiler, ...args], { cwd: ROOT, stdio: "inherit" });
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { out: { type: "string", default: join(ROOT, "dist") } },
  });
  await bundleInto(values.out);
  declareInto(values.out);
}
