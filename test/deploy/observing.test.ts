/** The dashboard and the scaler ask for metrics that there are, by labels that they have. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { parseAllDocuments } from "yaml";
import { metrics, type MetricFacts } from "../../src/monitoring/metric-list.ts";

const root = new URL("../../", import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), "utf8");

const known: Readonly<Record<string, MetricFacts>> = metrics;
/** Those that Prometheus itself adds. */
const ADDED = ["job", "instance", "le"];

const NAME = /\b(?:holdfast|process|nodejs)_[a-z0-9_]+/g;
/** A metric with what stands in its braces. */
const SELECTOR = /\b((?:holdfast|process|nodejs)_[a-z0-9_]+)(?:\{([^}]*)\})?/g;

function familyOf(name: string): MetricFacts | undefined {
  if (name in known) return known[name];
  const family = known[name.replace(/_(?:bucket|sum|count)$/, "")];
  return family?.type === "histogram" ? family : undefined;
}

/** What is wrong with a query. */
function problemsOf(query: string): string[] {
  const problems: string[] = [];
  const labels = new Set(ADDED);
  for (const [, name = "", inBraces = ""] of query.matchAll(SELECTOR)) {
    const facts = familyOf(name);
    if (facts === undefined) problems.push(`${name} does not exist`);
    const own = [...ADDED, ...(facts?.labels ?? [])];
    for (const label of own) labels.add(label);
    for (const [, label = ""] of inBraces.matchAll(/([a-z_]+)\s*(?:=~|!~|!=|=)/g)) {
      if (!own.includes(label)) problems.push(`${name} has no label '${label}'`);
    }
    if (facts?.type === "counter" && !query.includes("rate("))
      problems.push(`${name} needs a rate`);
    if (facts?.type === "histogram" && !name.endsWith("_bucket"))
      problems.push(`${name} has buckets`);
  }
  for (const [, list = ""] of query.matchAll(/\bby \(([^)]*)\)/g)) {
    for (const label of list.split(",").map((each) => each.trim())) {
      if (!labels.has(label)) problems.push(`nothing in it has a label '${label}'`);
    }
  }
  return problems;
}

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: {
    readonly h: number;
    readonly w: number;
    readonly x: number;
    readonly y: number;
  };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly query: unknown }[];
  };
}

suite("the dashboard", () => {
  const dashboard = JSON.parse(read("deploy/grafana/holdfast.json")) as Dashboard;
  const { panels } = dashboard;
  const queries = panels.flatMap(({ targets = [] }) => targets);

  test("queries existing metrics, by existing labels", () => {
    assert.ok(queries.length > 30);
    for (const { expr } of queries) assert.deepEqual(problemsOf(expr), [], expr);
    for (const { query } of dashboard.templating.list) {
      for (const [name] of JSON.stringify(query).matchAll(NAME)) assert.ok(name in known, name);
    }
  });

  test("names series by labels that its queries keep", () => {
    for (const { expr, legendFormat } of queries) {
      for (const [, label = ""] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
        const isKept =
          label === "instance" || new RegExp(String.raw`by \([^)]*\b${label}\b`).test(expr);
        assert.ok(isKept, `${expr}: ${legendFormat}`);
      }
    }
  });

  test("shows most metrics, and describes each panel", () => {
    const asked = queries.map(({ expr }) => expr).join(" ");
    const shown = Object.keys(known).filter((name) => asked.includes(name));
    assert.ok(shown.length >= 35, `${shown.length} of ${Object.keys(known).length}`);
    for (const { type, title, description = "" } of panels) {
      assert.ok(title !== "" && (type === "row" || description !== ""), title);
    }
  });

  test("has panels that do not lie upon each other", () => {
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
    const cells = new Set<string>();
    for (const { title, gridPos } of panels) {
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
        assert.ok(x < 24, title);
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
          assert.ok(!cells.has(`${x} ${y}`), title);
          cells.add(`${x} ${y}`);
        }
      }
    }
  });

  test("would be refused for a metric, a label or a rate that is missing", () => {
    assert.deepEqual(problemsOf("sum(holdfast_queue_depth)"), [
      "holdfast_queue_depth does not exist",
    ]);
    assert.deepEqual(problemsOf('holdfast_up{queue="a"}'), ["holdfast_up has no label 'queue'"]);
    assert.equal(problemsOf("sum(holdfast_leases_lost_total)").length, 1);
    assert.equal(problemsOf("sum by (task) (holdfast_up)").length, 1);
  });
});

interface Scaled {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly scaleTargetRef: { readonly name: string };
    readonly minReplicaCount: number;
    readonly triggers: readonly {
      readonly type: string;
      readonly authenticationRef?: { readonly name: string };
      readonly metadata: Readonly<Record<string, string>>;
    }[];
  };
}

suite("the scaler", () => {
  const files = ["deploy/kubernetes/keda.yaml", "deploy/kubernetes/keda-postgresql.yaml"];
  const documents = files.flatMap((file) => parseAllDocuments(read(file)));
  const objects = documents.map((document) => document.toJS() as Scaled);
  const scaled = objects.filter(({ kind }) => kind === "ScaledObject");

  test("is YAML, and queries existing metrics", () => {
    for (const { errors, warnings } of documents) assert.deepEqual([...errors, ...warnings], []);
    const triggers = scaled.flatMap(({ spec }) => spec.triggers);
    assert.deepEqual(
      triggers.map(({ type }) => type),
      ["prometheus", "prometheus", "postgresql"],
    );
    for (const { type, metadata } of triggers) {
      if (type === "prometheus") assert.deepEqual(problemsOf(metadata["query"] ?? ""), []);
      // KEDA takes texts, and a number is none.
      for (const value of Object.values(metadata)) assert.equal(typeof value, "string");
    }
  });

  test("keeps one replica, because one process has to count", () => {
    for (const { spec } of scaled) {
      assert.ok(spec.minReplicaCount >= 1);
      assert.equal(spec.scaleTargetRef.name, "holdfast-worker");
    }
  });

  test("has one name in both files: two scalers would fight over one Deployment", () => {
    assert.deepEqual(
      scaled.map(({ metadata }) => metadata.name),
      ["holdfast-worker", "holdfast-worker"],
    );
  });

  test("refers to existing objects", () => {
    const names = new Set(objects.map(({ metadata }) => metadata.name));
    for (const { authenticationRef } of scaled.flatMap(({ spec }) => spec.triggers)) {
      assert.ok(authenticationRef === undefined || names.has(authenticationRef.name));
    }
  });
});
