/**
 * Writes the reference pages: `node scripts/reference.ts`. That of the library comes from the comments of the published types,
 * which editors show too; those of routes and commands from the operations.
 *
 * `test/unit/public-types.test.ts` compares the pages with what they describe, and `scripts/floors.ts` those of the operations.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { commandReference } from "./command-reference.ts";
import { httpReference } from "./http-reference.ts";
import {
  type Parameter,
  type PublicName,
  publicTypes,
  type PublicTypes,
  type Signature,
} from "./public-types.ts";

const GUIDE = join(import.meta.dirname, "../docs/guide");

const HEAD = `<!-- Written by \`node scripts/reference.ts\` from the comments in the sources. Do not edit it, nor merge it by hand: write it
again. -->

# Reference

This page lists every name that the package exports, and every member of its types, with the comments that editors show.
[API](api.md) says where to begin, and lists the errors.`;

type Pages = Readonly<Record<string, string>>;

function libraryPage(types: PublicTypes): Pages {
  const page = new Page(types);
  return { "reference.md": `${[HEAD, ...page.sections()].join("\n\n")}\n` };
}

async function operationPages(): Promise<Pages> {
  return { "http-reference.md": await httpReference(), "commands.md": await commandReference() };
}

/** What to do if the page of the library does not fit its types. */
export const libraryPageProblems = (types: PublicTypes): string[] => problemsIn(libraryPage(types));

/** What to do about the pages of routes and commands that do not fit. */
export async function operationPageProblems(): Promise<string[]> {
  return problemsIn(await operationPages());
}

function problemsIn(pages: Pages): string[] {
  return Object.entries(pages).flatMap(([name, page]) =>
    readFileSync(join(GUIDE, name), "utf8") === page
      ? []
      : [`docs/guide/${name} is outdated. Write it again: node scripts/reference.ts`],
  );
}

class Page {
  readonly #types: PublicTypes;
  /** Types that a link can name; two names with the same letters have no link. */
  readonly #linked: ReadonlySet<string>;

  constructor(types: PublicTypes) {
    this.#types = types;
    const anchors = Object.groupBy(types.names, ({ name }) => anchorOf(name));
    this.#linked = new Set(
      Object.values(anchors).flatMap((same = []) =>
        same.length === 1 ? same.map(({ name }) => name) : [],
      ),
    );
  }

  sections(): string[] {
    const entries = Object.groupBy(this.#types.names, ({ entry }) => entry);
    return Object.entries(entries).flatMap(([entry, names = []]) => [
      `## Exports of \`${entry}\``,
      ...names.toSorted(byName).map((name) => this.#name(name)),
    ]);
  }

  #name(of: PublicName): string {
    const { name, entry, comment, type, signatures, bases } = of;
    const members = this.#types.members.filter(
      (member) => member.entry === entry && member.name.startsWith(`${name}.`),
    );
    const blocks = [
      `### ${name}`,
      ...signatures.map((one) => code(`${name}${signatureText(one)}`)),
      prose(comment),
      ...(type === "" ? [] : [`Type: ${this.#type(type)}`]),
      ...(bases.length === 0
        ? []
        : [`Extends ${bases.map((base) => this.#type(base)).join(", ")}`]),
      ...(members.length === 0 ? [] : [members.map((each) => this.#member(each, name)).join("\n")]),
    ];
    return blocks.join("\n\n");
  }

  /** Members of an object type without a name are indented, below the member that they belong to. */
  #member({ name, comment, type, signatures, isOptional }: PublicName, owner: string): string {
    const path = name.slice(owner.length + 1);
    const isNested = path.startsWith("[") ? false : path.includes(".");
    const shown =
      signatures.length > 0
        ? signatures.map((one) => code(`${path}${signatureText(one)}`)).join("<br>")
        : `${code(`${path}${isOptional ? "?" : ""}`)} ${this.#type(type)}`;
    return `${isNested ? "  " : ""}- ${shown}: ${prose(comment)}`;
  }

  #type(type: string): string {
    const text = code(shortened(type));
    return this.#linked.has(type) ? `[${text}](#${anchorOf(type)})` : text;
  }
}

const byName = (one: PublicName, other: PublicName): number => (one.name < other.name ? -1 : 1);

/** As GitHub makes it of a heading of one word. */
function anchorOf(name: string): string {
  return name.toLowerCase();
}

function signatureText({ parameters, returns }: Signature): string {
  const result = returns === "" ? "" : `: ${returns}`;
  return shortened(`(${parameters.map(parameterText).join(", ")})${result}`);
}

function parameterText({ name, type, isOptional }: Parameter): string {
  const given = name.startsWith("{") ? "options" : name;
  return `${given}${isOptional ? "?" : ""}: ${type}`;
}

/** All members can only be read. */
function shortened(type: string): string {
  return type.replaceAll(/\breadonly (?=[\w[]+\]?\??:)/g, "").replaceAll("; }", " }");
}

/** A type with backticks of its own takes two around it. */
function code(text: string): string {
  return text.includes("`") ? `\`\` ${text} \`\`` : `\`${text}\``;
}

/** Comments are Markdown already. A list item ends at an empty line. */
function prose(comment: string): string {
  return comment.replaceAll(/\s*\n\s*/g, " ");
}

if (import.meta.main) {
  const pages = { ...libraryPage(publicTypes()), ...(await operationPages()) };
  for (const [name, page] of Object.entries(pages)) writeFileSync(join(GUIDE, name), page);
}
