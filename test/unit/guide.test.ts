/** The guide: its links lead somewhere, every page is in its index, and it has the words that people search for. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";

const GUIDE = join(import.meta.dirname, "../../docs/guide");
const pages = readdirSync(GUIDE).filter((name) => name.endsWith(".md"));
const textOf = (page: string): string => readFileSync(join(GUIDE, page), "utf8");

/** As GitHub makes it of a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}

suite("the guide", () => {
  test("links to what is there", () => {
    for (const page of pages) {
      for (const [, link = ""] of textOf(page).matchAll(/\]\(([^)]+)\)/g)) {
        if (/^\w+:/.test(link)) continue;
        const [path = "", anchor] = link.split("#");
        const file = path === "" ? join(GUIDE, page) : join(GUIDE, path);
        assert.ok(existsSync(file), `${page} links to ${link}`);
        if (anchor === undefined || !file.endsWith(".md")) continue;
        const headings = [...readFileSync(file, "utf8").matchAll(/^#+ (.+)$/gm)];
        assert.ok(
          headings.some(([, heading = ""]) => anchorOf(heading) === anchor),
          `${page} links to ${link}, and there is no such heading`,
        );
      }
    }
  });

  test("has every page in its index", () => {
    const index = textOf("README.md");
    for (const page of pages) {
      if (page !== "README.md")
        assert.ok(index.includes(`(${page}`), `${page} is not in README.md`);
    }
  });

  test("says where a worker in a program logs, and what the promise of a standby does", () => {
    for (const page of ["workers.md", "monitoring.md", "../../README.md"]) {
      assert.match(textOf(page), /logs\s+nothing/, page);
      assert.match(textOf(page), /\{ logger(?:: \w+)? \}/, page);
    }
    assert.match(textOf("workers.md"), /fulfilled when\s+the worker becomes active/);
  });

  test("has the words that people search for", () => {
    const all = pages.map(textOf).join("\n").toLowerCase();
    const words =
      "retry,backoff,dead letter queue,graceful shutdown,idempotent,cron,debounce,dockerfile";
    for (const word of words.split(",")) assert.ok(all.includes(word), `no page says "${word}"`);
  });
});

test("every promise names a test that holds it, and the test is there", () => {
  const promises = readFileSync(join(GUIDE, "../design/promises.md"), "utf8");
  const rows = [...promises.matchAll(/^\| (\d+) \| .* \| ([^|]+) \|$/gm)];
  assert.equal(rows.length, 19);
  for (const [, number, cell = ""] of rows) {
    const named = [...cell.matchAll(/`([^`]+)`((?:[:;] "[^"]+")*)/g)];
    assert.ok(named.length > 0, `promise ${number} names no test`);
    for (const [, file = "", titles = ""] of named) {
      const source = readFileSync(join(GUIDE, "../../test", file), "utf8");
      for (const [, title = ""] of titles.matchAll(/"([^"]+)"/g)) {
        assert.ok(source.includes(title), `promise ${number}: ${file} has no test "${title}"`);
      }
    }
  }
});
