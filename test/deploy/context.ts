/** What a builder is sent: the files of the repository that .dockerignore leaves. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Files that git knows, and new ones that it would take: what a clone has once they are committed. */
export function buildContext(root: string): string[] {
  const listed = execFileSync(
    "git",
    ["ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    { cwd: root, encoding: "utf8" },
  );
  const rules = readRules(readFileSync(join(root, ".dockerignore"), "utf8"));
  return listed
    .split("\0")
    .filter((file) => file !== "" && existsSync(join(root, file)) && !isIgnored(file, rules));
}

interface Rule {
  readonly pattern: RegExp;
  readonly ignores: boolean;
}

export function readRules(text: string): Rule[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => ({ pattern: inDocker(line.replace(/^!/, "")), ignores: !line.startsWith("!") }));
}

/** Docker's stars also fit names that begin with a dot, unlike a shell's. */
function inDocker(pattern: string): RegExp {
  const parts = pattern.split(/(\*\*|\*|\?)/).map((part) => {
    if (part === "**") return ".*";
    if (part === "*") return "[^/]*";
    return part === "?" ? "[^/]" : part.replaceAll(/[.+^$()[\]{}|\\]/g, String.raw`\$&`);
  });
  return new RegExp(`^${parts.join("")}$`);
}

/** The last rule that fits decides; one that fits a folder fits all that is in it. */
export function isIgnored(file: string, rules: readonly Rule[]): boolean {
  const last = rules.findLast(({ pattern }) =>
    withParents(file).some((path) => pattern.test(path)),
  );
  return last?.ignores ?? false;
}

function withParents(file: string): string[] {
  const parent = dirname(file);
  return parent === "." ? [file] : [file, ...withParents(parent)];
}
