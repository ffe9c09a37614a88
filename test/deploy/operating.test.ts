/** docs/guide/operating.md names what there is (its commands: command-lines.test.ts), and the rules for Prometheus fire. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, test } from "node:test";
import { parse } from "yaml";
import { openHoldfast } from "../../src/index.ts";
import { tempFolder } from "../support/folder.ts";
import { metricNames, ROOT, SETTINGS } from "./settings.ts";

const FILE = join(ROOT, "docs/guide/operating.md");
const guide = readFileSync(FILE, "utf8");
const rules: { groups: { rules: Rule[] }[] } = parse(
  readFileSync(join(ROOT, "deploy/prometheus/rules.yml"), "utf8"),
);
const folder = tempFolder();

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { severity: string };
  readonly annotations: { summary: string; runbook: string };
}

/** Names in the guide that are Compose's, not the program's. */
const OF_COMPOSE = new Set(["HOLDFAST_IMAGE"]);

describe("docs/guide/operating.md", () => {
  test("names existing settings and metrics", () => {
    for (const [name] of guide.matchAll(/\bHOLDFAST_[A-Z_]+\b/g)) {
      assert.ok(SETTINGS.has(name) || OF_COMPOSE.has(name), name);
    }
    for (const [name] of guide.matchAll(/\bholdfast_[a-z_]+_[a-z]+\b/g)) {
      assert.ok(metricNames().has(name), name);
    }
  });

  test("its links work", () => {
    for (const [, path = "", anchor = ""] of guide.matchAll(/\]\(([^)#]*)(?:#([^)]+))?\)/g)) {
      const file = path === "" ? FILE : resolve(dirname(FILE), path);
      assert.ok(existsSync(file), path);
      const there = anchor === "" || anchorsOf(readFileSync(file, "utf8")).has(anchor);
      assert.ok(there, `${path}#${anchor}`);
    }
  });

  test("names existing files of deploy/", () => {
    for (const [, file = ""] of guide.matchAll(/`(deploy\/[\w./@-]+\.\w+)`/g)) {
      assert.ok(existsSync(join(ROOT, file)), file);
    }
  });

  test("its copy of a SQLite file that is in use has everything that was committed", async () => {
    const script = /# backup\.sh[^\n]*\n([\s\S]*?)```/.exec(guide)?.[1] ?? "";
    const place = folder.file("");
    mkdirSync(place, { recursive: true });
    await using holdfast = await openHoldfast(`sqlite:${join(place, "holdfast.db")}`);
    for (let jobs = 0; jobs < 20; jobs += 1) await holdfast.enqueue("mail.send", { jobs });
    writeFileSync(join(place, "backup.sh"), script);
    const path = `${dirname(process.execPath)}:${process.env["PATH"]}`;
    const env = { ...process.env, PATH: path };
    execFileSync("sh", ["-eu", "backup.sh"], { cwd: place, env });
    await using copy = await openHoldfast(`sqlite:${join(place, "holdfast-backup.db")}`);
    const [queue] = await copy.stats();
    assert.equal(queue?.counts.pending, 20);
  });
});

describe("deploy/prometheus/rules.yml", () => {
  const all = rules.groups.flatMap((group) => group.rules);

  test("queries existing metrics, and links to existing runbooks", () => {
    assert.ok(all.length > 10);
    const anchors = anchorsOf(guide);
    for (const { alert, expr, labels, annotations } of all) {
      for (const [name] of expr.matchAll(/\b(?:holdfast|process|nodejs)_[a-z0-9_]+\b/g)) {
        assert.ok(metricNames().has(name.replace(/_bucket$/, "")), `${alert}: ${name}`);
      }
      assert.match(labels.severity, /^(?:warning|critical)$/, alert);
      const [path = "", anchor = ""] = annotations.runbook.split("#");
      assert.equal(join(ROOT, path), FILE, alert);
      assert.ok(anchors.has(anchor), `${alert}: ${annotations.runbook}`);
    }
  });

  const hasTool = spawnSync("promtool", ["--version"]).status === 0;
  test("fires when it should (promtool)", { skip: hasTool ? false : "no promtool" }, () => {
    const file = join(import.meta.dirname, "rules.promtool.yml");
    const { status, stdout, stderr } = spawnSync("promtool", ["test", "rules", file], {
      encoding: "utf8",
    });
    assert.equal(status, 0, stdout + stderr);
  });
});

/** As they are made of headings. */
function anchorsOf(text: string): Set<string> {
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) => title);
  return new Set(
    headings.map((title) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}
