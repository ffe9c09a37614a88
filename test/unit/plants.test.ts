/** A planted bug that has lost its place would be found only when its own group draws it: here all are tried at once. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { mutants } from "../simulation/mutants.ts";
import { type Patch, plantedText } from "../support/plant.ts";
import { plants } from "../workflow-races/plants.ts";

const SRC = join(import.meta.dirname, "../../src");

const ALL: readonly (readonly [name: string, patches: readonly Patch[]])[] = [
  ...Object.entries(plants),
  ...mutants.map(({ name, patches }) => [name, patches] as const),
];

describe("a bug to plant", () => {
  for (const [name, patches] of ALL) {
    test(`has its place in the sources: ${name}`, () => {
      for (const [file, own] of Map.groupBy(patches, (patch) => patch.file)) {
        assert.notEqual(plantedText(file, own), readFileSync(join(SRC, file), "utf8"));
      }
    });
  }

  test("that has lost its place is refused, with the text that it looked for", () => {
    const lost = { file: "core/job.ts", find: "a text that is nowhere", put: "" };
    assert.throws(() => plantedText(lost.file, [lost]), /0 times, not once:\na text that is/);
  });
});
