/**
 * `npm run check`: everything that can be known in seconds, side by side.
 *
 * A part that passes says so in one line; one that fails prints all it had to say.
 */
import { endChildrenWithUs, runNode, type Ended } from "./child.ts";

/** A check that takes longer hangs, also beside the tests on a busy machine. */
const CHECK_LIMIT_MS = 300_000;

const parts: Record<string, readonly string[]> = {
  format: [tool("oxfmt", "bin/oxfmt"), "--check"],
  lint: [tool("oxlint", "bin/oxlint")],
  types: [tool("typescript", "bin/tsc"), "--project", "tsconfig.json"],
  page: [tool("typescript", "bin/tsc"), "--project", "page/tsconfig.json"],
  floors: ["scripts/floors.ts"],
  marks: ["scripts/marks.ts"],
  unused: [tool("knip", "bin/knip.js")],
  unit: ["scripts/test.ts", "unit"],
  golden: ["--import", "./scripts/quick-imports.ts", "--test", "test/golden/golden.test.ts"],
};

/** These print figures, which are read also when nothing is wrong. */
const SHOWN = new Set(["marks"]);

/** The tools are started as files, so that the script works without npm's search path too. */
function tool(name: string, file: string): string {
  return `node_modules/${name}/${file}`;
}

async function runPart(name: string, args: readonly string[]): Promise<boolean> {
  const ended = await runNode(args, { output: "keep" });
  report(name, ended);
  return ended.code === 0;
}

function report(name: string, { code, ms, output }: Ended): void {
  const passed = code === 0;
  console.log(`${passed ? "ok  " : "FAIL"} ${name.padEnd(8)} ${(ms / 1_000).toFixed(1)} s`);
  if (!passed || SHOWN.has(name)) console.log(output.trimEnd());
}

process.chdir(`${import.meta.dirname}/..`);
endChildrenWithUs({ limit: "CHECK_LIMIT_MS", limitMs: CHECK_LIMIT_MS });
const results = await Promise.all(
  Object.entries(parts).map(async ([name, args]) => runPart(name, args)),
);
if (results.includes(false)) process.exitCode = 1;
