import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import { diagramOf, defineWorkflow, type AnyWorkflow } from "../../src/workflows/workflow.ts";

const page = readFileSync(new URL("../../docs/guide/workflows.md", import.meta.url), "utf8");

function block(kind: string): string {
  return new RegExp(`\`\`\`${kind}\n(.*?)\n\`\`\``, "s").exec(page)?.[1] ?? "";
}

suite("the diagram of a workflow", () => {
  test("is in the guide as drawn from the declaration there", async () => {
    const folder = mkdtempSync(join(import.meta.dirname, ".diagram-"));
    try {
      const file = join(folder, "order.ts");
      const code = block("ts").replace('"holdfast/workflows"', '"../../../src/workflows/index.ts"');
      writeFileSync(file, `${code}\nexport { order };\n`);
      const { order } = (await import(file)) as { order: AnyWorkflow };
      assert.equal(block("mermaid"), diagramOf(order));
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("calls a state by a name of its own where Mermaid could not read it", () => {
    const workflow = defineWorkflow({
      name: "odd",
      initial: "end",
      states: { end: {}, 'the "last"': { final: true } },
      moves: { go: { from: "end", to: 'the "last"' } },
    });
    assert.equal(
      diagramOf(workflow),
      [
        "stateDiagram-v2",
        '    state "end" as state_1',
        `    state "the 'last'" as state_2`,
        "    [*] --> state_1",
        "    state_1 --> state_2: go",
        "    state_2 --> [*]",
      ].join("\n"),
    );
  });
});
