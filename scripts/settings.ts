/**
 * Generates `.env.example` and the tables of docs/guide/configuration.md from the settings.
 *
 * Run `node scripts/settings.ts` after changing a setting. A test compares.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { keys, settingOf, type Key } from "../src/app/settings.ts";
import { groups, type Group } from "../src/config/kind.ts";

const ROOT = join(import.meta.dirname, "..");
export const ENV_EXAMPLE = join(ROOT, ".env.example");
export const GUIDE = join(ROOT, "docs/guide/configuration.md");
const BEGIN = "<!-- settings: written by scripts/settings.ts -->";
const END = "<!-- end of settings -->";

const HEAD = `# Every setting of the environment with its default. Copy this file to .env and uncomment what you want to change.
# Environment variables take precedence over .env; see docs/guide/configuration.md.
`;

/** `.env.example`: every line is commented out, so that a copy changes nothing. */
export function envExample(): string {
  const sections = groups.map((group) => {
    const lines = inGroup(group).map((key) => exampleOf(key));
    return `\n# ── ${group} ${"─".repeat(Math.max(0, 90 - group.length))}\n\n${lines.join("\n")}`;
  });
  return HEAD + sections.join("");
}

function exampleOf(key: Key): string {
  const { env, about, kind } = settingOf(key);
  const [name = "", ...others] = env;
  const also = others.length === 0 ? "" : ` Also ${others.join(", ")}.`;
  return `# ${about}${also}\n# Must be ${kind.allowed}.\n# ${name}=${initialText(key)}\n`;
}

/** One table for each group. */
export function settingsTables(): string {
  return groups
    .map((group) => {
      const rows = inGroup(group).map(rowOf);
      const head =
        "| environment | flag | config file | default | description |\n|---|---|---|---|---|";
      return `### ${group}\n\n${head}\n${rows.join("\n")}\n`;
    })
    .join("\n");
}

function rowOf(key: Key): string {
  const { env, flag, file, kind, about, initial } = settingOf(key);
  const names = env.map((name) => `\`${name}\``).join(", ");
  const byDefault = initial === null ? "–" : `\`${kind.print(initial)}\``;
  const limits = ` Must be ${kind.allowed}.`;
  const cells = [names, code(flag), code(file), byDefault, `${about}${limits}`];
  return `| ${cells.join(" | ")} |`;
}

function code(text: string | null): string {
  return text === null ? "–" : `\`${text}\``;
}

function initialText(key: Key): string {
  const { initial, kind } = settingOf(key);
  return initial === null ? "" : kind.text(initial);
}

function inGroup(group: Group): Key[] {
  return keys.filter((key) => settingOf(key).group === group);
}

/** The guide with up-to-date tables. */
export function guideWith(tables: string, guide: string): string {
  const [before, rest] = guide.split(BEGIN);
  const [, after] = (rest ?? "").split(END);
  return `${before}${BEGIN}\n\n${tables}\n${END}${after}`;
}

if (import.meta.main) {
  writeFileSync(ENV_EXAMPLE, envExample());
  writeFileSync(GUIDE, guideWith(settingsTables(), readFileSync(GUIDE, "utf8")));
}
