/** The guide's table of metrics is the list of metrics. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { metrics, type MetricFacts } from "../../src/monitoring/metric-list.ts";

const page = readFileSync(new URL("../../docs/guide/metrics.md", import.meta.url), "utf8");

test("the guide lists every metric, in the words of the code, and no other", () => {
  const rows = page
    .split("\n")
    .filter((line) => /^\| `[a-z]+_[a-z0-9_]+` \| (?:counter|gauge|histogram) \|/.test(line));
  const wanted = Object.entries<MetricFacts>(metrics).map(([name, { type, help, labels }]) => {
    const named = labels.map((label) => `\`${label}\``).join(", ");
    return `| \`${name}\` | ${type} | ${named} | ${help} |`;
  });
  assert.deepEqual(rows, wanted);
});
