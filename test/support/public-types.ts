/** The types of the published package, as its users' compilers read them: what the entries export, and what that mentions. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { type Node, SyntaxKind } from "typescript/unstable/ast";
import {
  API,
  type Checker,
  type Project,
  SymbolFlags,
  type Symbol as Named,
} from "typescript/unstable/sync";

const ROOT = join(import.meta.dirname, "../..");
const OPTIONS = {
  module: "nodenext",
  target: "es2024",
  lib: ["es2024", "esnext.disposable"],
  types: ["node"],
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  allowImportingTsExtensions: true,
};
/** Kinds of declarations that are types or functions. A list that a type is made from need not have a name. */
const DECLARING: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.InterfaceDeclaration,
  SyntaxKind.TypeAliasDeclaration,
  SyntaxKind.ClassDeclaration,
  SyntaxKind.FunctionDeclaration,
]);

const METHODS: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.MethodSignature,
  SyntaxKind.MethodDeclaration,
]);

/** What a check of the compiler computes with: these names appear in no message. */
const COMPUTING = "core/json-form.d.ts";

/** A name or a member that the package publishes. */
export interface PublicName {
  /** `Holdfast`, `Holdfast.enqueue`. */
  readonly name: string;
  readonly entry: string;
  /** Its comment; empty: it has none. */
  readonly comment: string;
  /** Whether it is a function with a name. */
  readonly isMethod: boolean;
}

export interface PublicTypes {
  readonly names: readonly PublicName[];
  readonly members: readonly PublicName[];
  /** What public types mention and no entry exports, with one that mentions it: `Place, by openHoldfast`. */
  readonly unexported: readonly string[];
}

/** Emits the declarations into a folder of their own, and reads them. Takes some seconds. */
export function publicTypes(): PublicTypes {
  const folder = mkdtempSync(join(ROOT, "node_modules/.declarations-"));
  try {
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    const args = [tsc, "--project", join(ROOT, "tsconfig.build.json"), "--outDir", folder];
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
    if (status !== 0) throw new Error(`tsc: ${stdout}`);
    const config = join(folder, "tsconfig.json");
    writeFileSync(config, JSON.stringify({ compilerOptions: OPTIONS, include: ["**/*.d.ts"] }));
    const api = new API({ cwd: folder });
    try {
      const project = api.updateSnapshot({ openProjects: [config] }).getProject(config);
      if (project === undefined) throw new Error("the compiler did not open the declarations");
      return new Reader(folder, project).read();
    } finally {
      api.close();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

class Reader {
  readonly #folder: string;
  readonly #project: Project;
  readonly #checker: Checker;

  constructor(folder: string, project: Project) {
    this.#folder = folder;
    this.#project = project;
    this.#checker = project.checker;
  }

  read(): PublicTypes {
    const exported = this.#exports();
    const unexported = new Map<Named, string>();
    const members: PublicName[] = [];
    for (const [symbol, { name, entry }] of exported) {
      for (const declaration of this.#declarations(symbol)) {
        for (const mentioned of this.#mentioned(declaration)) {
          if (!exported.has(mentioned)) unexported.set(mentioned, `${mentioned.name}, by ${name}`);
        }
      }
      for (const member of this.#members(symbol)) {
        const isMethod = this.#declarations(member).some(({ kind }) => METHODS.has(kind));
        const comment = this.#comment(member);
        members.push({ name: `${name}.${member.name}`, entry, comment, isMethod });
      }
    }
    return { names: [...exported.values()], members, unexported: [...unexported.values()] };
  }

  /** What the entries of the package export. */
  #exports(): Map<Named, PublicName> {
    const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
      exports: Record<string, string | { types: string }>;
    };
    const found = new Map<Named, PublicName>();
    for (const [entry, target] of Object.entries(exports)) {
      if (typeof target === "string") continue;
      const path = join(this.#folder, relative("dist/types", target.types));
      const file = this.#project.program.getSourceFile(path);
      const module = file === undefined ? undefined : this.#checker.getSymbolAtLocation(file);
      if (module === undefined) throw new Error(`${entry} has no declarations at ${path}`);
      for (const each of this.#checker.getExportsOfModule(module)) {
        const symbol = this.#target(each);
        if (found.has(symbol)) continue;
        const comment = this.#comment(symbol);
        found.set(symbol, { name: each.name, entry, comment, isMethod: false });
      }
    }
    return found;
  }

  #comment(symbol: Named): string {
    return this.#checker.getDocumentationCommentOfSymbol(symbol);
  }

  #target(symbol: Named): Named {
    return (symbol.flags & SymbolFlags.Alias) === 0
      ? symbol
      : this.#checker.getAliasedSymbol(symbol);
  }

  #declarations(symbol: Named): Node[] {
    return symbol.declarations.flatMap((handle) => handle.resolve(this.#project) ?? []);
  }

  /** The package's own named types and functions that a declaration mentions. */
  #mentioned(declaration: Node): Named[] {
    const identifiers: Node[] = [];
    const visit = (node: Node): void => {
      if (node.kind === SyntaxKind.Identifier) identifiers.push(node);
      node.forEachChild(visit);
    };
    visit(declaration);
    return this.#checker
      .getSymbolAtLocation(identifiers)
      .flatMap((symbol) => (symbol === undefined ? [] : this.#target(symbol)))
      .filter((symbol) => {
        const [first] = symbol.declarations;
        return (
          first !== undefined &&
          DECLARING.has(first.kind) &&
          first.path.startsWith(this.#folder) &&
          !first.path.endsWith(COMPUTING)
        );
      });
  }

  /** Of interfaces and classes, without those that are inherited. */
  #members(symbol: Named): Named[] {
    return [...symbol.getMembers().values()].filter(
      (member) =>
        !member.name.includes("#") && // a private one
        this.#declarations(member).some((node) => this.#isPublic(node)),
    );
  }

  #isPublic({ kind }: Node): boolean {
    return [
      SyntaxKind.PropertySignature,
      SyntaxKind.MethodSignature,
      SyntaxKind.PropertyDeclaration,
      SyntaxKind.MethodDeclaration,
      SyntaxKind.GetAccessor,
    ].includes(kind);
  }
}
