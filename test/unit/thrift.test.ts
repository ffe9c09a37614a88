/** Whether functions are optimised can only be seen from inside a process that was started to tell. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";

const THRIFT = join(import.meta.dirname, "../../src/cli/thrift.ts");

/** As V8 says that a function is optimised, by either compiler. */
const OPTIMISED = 1 << 4;

const PROGRAM = `
import { beThrifty, compileAsUsual, holdBack } from ${JSON.stringify(THRIFT)};
const isOptimised = () => {
  const add = new Function("a", "b", "return a + b");
  %PrepareFunctionForOptimization(add);
  add(1, 2);
  %OptimizeFunctionOnNextCall(add);
  add(1, 2);
  return (%GetOptimizationStatus(add) & ${OPTIMISED}) !== 0;
};
const said = [];
for (const step of [beThrifty, compileAsUsual, holdBack, compileAsUsual]) {
  step();
  said.push(isOptimised());
}
console.log(JSON.stringify(said));
`;

function tell(flags: readonly string[]): unknown {
  const args = ["--allow-natives-syntax", ...flags, "--input-type=module", "--eval", PROGRAM];
  return JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8" }));
}

test("functions are optimised again when it is said", () => {
  assert.deepEqual(tell([]), [false, true, false, true]);
});

test("whoever says something about the compilers is left alone", () => {
  assert.deepEqual(tell(["--no-opt", "--no-maglev"]), [false, false, false, false]);
});
