/** The types of the published package, as its users' compilers read them: what the entries export, and what that mentions. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import {
  type ClassDeclaration,
  type ConditionalTypeNode,
  type InterfaceDeclaration,
  type MethodDeclaration,
  type Node,
  type ParameterDeclaration,
  type PropertyDeclaration,
  SyntaxKind,
} from "typescript/unstable/ast";
import {
  API,
  type Checker,
  type Project,
  SymbolFlags,
  type Symbol as Named,
} from "typescript/unstable/sync";

const ROOT = join(import.meta.dirname, "..");
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

const TYPES = SymbolFlags.Interface | SymbolFlags.Class | SymbolFlags.TypeAlias;

const FUNCTIONS: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.MethodSignature,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.FunctionDeclaration,
]);

const MEMBERS: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.PropertySignature,
  SyntaxKind.MethodSignature,
  SyntaxKind.PropertyDeclaration,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.GetAccessor,
]);

const HIDING: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.PrivateKeyword,
  SyntaxKind.ProtectedKeyword,
]);

/** A property that a mapped type made, as the compiler marks it. */
const MAPPED = 1 << 18;

/** What a check of the compiler computes with: these names appear in no message. */
const COMPUTING = "core/json-form.d.ts";

/** A name that the package publishes, or a member of one. */
export interface PublicName {
  /** `Holdfast`, `Holdfast.enqueue`; in a type without a name `Holdfast.subscribe.options.poll`. */
  readonly name: string;
  readonly entry: string;
  /** Its comment; empty: it has none. */
  readonly comment: string;
  /** One for each overload, if it is a function with a name. */
  readonly signatures: readonly Signature[];
  /** Its type as it is written; empty: of a function, a class or an interface. */
  readonly type: string;
  readonly isOptional: boolean;
  /** The types that it extends, as they are written. */
  readonly bases: readonly string[];
}

export interface Signature {
  readonly parameters: readonly Parameter[];
  readonly returns: string;
}

export interface Parameter {
  readonly name: string;
  readonly type: string;
  readonly isOptional: boolean;
}

export interface PublicTypes {
  readonly names: readonly PublicName[];
  readonly members: readonly PublicName[];
  /** What public types mention and no entry exports, with one that mentions it: `Place, by openHoldfast`. */
  readonly unexported: readonly string[];
  /** Types whose members come through a mapped type, such as Omit: editors do not show their comments. */
  readonly mapped: readonly string[];
}

/** Emits the declarations into a folder of their own, unchecked, which the check does, and reads them. Takes some seconds. */
export function publicTypes(): PublicTypes {
  const folder = mkdtempSync(join(ROOT, "node_modules/.declarations-"));
  try {
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    const build = join(ROOT, "tsconfig.build.json");
    const args = [tsc, "--project", build, "--outDir", folder, "--noCheck"];
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
    const names: PublicName[] = [];
    const members: PublicName[] = [];
    const unexported = new Map<Named, string>();
    for (const [symbol, { name, entry }] of exported) {
      const declarations = this.#declarations(symbol);
      names.push(this.#publicName({ name, entry, symbol, declarations }));
      for (const declaration of declarations) {
        for (const mentioned of this.#mentioned(declaration)) {
          if (!exported.has(mentioned)) unexported.set(mentioned, `${mentioned.name}, by ${name}`);
        }
      }
      members.push(...this.#members({ name, entry, declarations }));
    }
    const mapped = [...exported].filter(([symbol]) => this.#isMapped(symbol));
    return {
      names,
      members,
      unexported: [...unexported.values()],
      mapped: mapped.map(([, { name }]) => name),
    };
  }

  /** What the entries of the package export. */
  #exports(): Map<Named, { readonly name: string; readonly entry: string }> {
    const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
      exports: Record<string, string | { types: string }>;
    };
    const found = new Map<Named, { readonly name: string; readonly entry: string }>();
    for (const [entry, target] of Object.entries(exports)) {
      if (typeof target === "string") continue;
      const path = join(this.#folder, relative("dist/types", target.types));
      const file = this.#project.program.getSourceFile(path);
      const module = file === undefined ? undefined : this.#checker.getSymbolAtLocation(file);
      if (module === undefined) throw new Error(`${entry} has no declarations at ${path}`);
      for (const { name, symbol } of this.#exportsOf(module)) {
        if (!found.has(symbol)) found.set(symbol, { name, entry: `holdfast${entry.slice(1)}` });
      }
    }
    return found;
  }

  #exportsOf(module: Named): { readonly name: string; readonly symbol: Named }[] {
    return this.#checker.getExportsOfModule(module).map((each) => ({
      name: each.name,
      symbol: this.#target(each),
    }));
  }

  #isMapped(symbol: Named): boolean {
    if ((symbol.flags & TYPES) === 0) return false;
    const type = this.#checker.getDeclaredTypeOfSymbol(symbol);
    const properties = this.#checker.getPropertiesOfType(type);
    return properties.some(({ checkFlags }) => (checkFlags & MAPPED) !== 0);
  }

  #target(symbol: Named): Named {
    return (symbol.flags & SymbolFlags.Alias) === 0
      ? symbol
      : this.#checker.getAliasedSymbol(symbol);
  }

  #declarations(symbol: Named): Node[] {
    return symbol.declarations.flatMap((handle) => handle.resolve(this.#project) ?? []);
  }

  /** The members of a type, and of the object types inside of it; overloads as one. Without those that it inherits. */
  #members({ name, entry, declarations }: Declared): PublicName[] {
    const found = new Map<Named, Found>();
    const visit = (node: Node, path: string): void => {
      if (isHidden(node)) return;
      let inside = path;
      if (MEMBERS.has(node.kind) || node.kind === SyntaxKind.Parameter) {
        const { name: named } = node as ParameterDeclaration;
        inside = `${path}.${named.kind === SyntaxKind.ObjectBindingPattern ? "options" : named.getText()}`;
        const symbol = MEMBERS.has(node.kind)
          ? this.#checker.getSymbolAtLocation(named)
          : undefined;
        if (symbol !== undefined) {
          const others = found.get(symbol)?.declarations ?? [];
          found.set(symbol, { name: inside, symbol, declarations: [...others, node] });
        }
      }
      for (const child of childrenOf(node)) visit(child, inside);
    };
    for (const declaration of declarations) {
      for (const child of childrenOf(declaration)) visit(child, name);
    }
    return [...found.values()].map((each) => this.#publicName({ ...each, entry }));
  }

  #publicName({ name, entry, symbol, declarations }: Found & Declared): PublicName {
    const [first] = declarations;
    const functions = declarations.filter(({ kind }) => FUNCTIONS.has(kind));
    const of = { name, entry, comment: this.#checker.getDocumentationCommentOfSymbol(symbol) };
    const signatures = functions.map((node) => signatureOf(node as MethodDeclaration));
    const { type, postfixToken } = (first ?? {}) as Partial<PropertyDeclaration>;
    return {
      ...of,
      signatures,
      type: functions.length > 0 ? "" : textOf(type),
      isOptional: postfixToken?.kind === SyntaxKind.QuestionToken,
      bases: basesOf(first),
    };
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
}

interface Declared {
  readonly name: string;
  readonly entry: string;
  readonly declarations: readonly Node[];
}

interface Found extends Omit<Declared, "entry"> {
  readonly symbol: Named;
}

function childrenOf(node: Node): Node[] {
  const children: Node[] = [];
  node.forEachChild((child) => void children.push(child));
  return children;
}

/** Private, protected, named with a #, of a constructor, or what a conditional type compares with. */
function isHidden(node: Node): boolean {
  if (node.kind === SyntaxKind.Constructor) return true;
  if (node.parent.kind === SyntaxKind.ConditionalType) {
    return (node.parent as ConditionalTypeNode).extendsType === node;
  }
  if (!MEMBERS.has(node.kind)) return false;
  const { modifiers, name } = node as MethodDeclaration;
  const words: readonly Node[] = modifiers ?? [];
  return name.kind === SyntaxKind.PrivateIdentifier || words.some(({ kind }) => HIDING.has(kind));
}

/** The names of what a class or an interface extends. */
function basesOf(node: Node | undefined): string[] {
  const { heritageClauses = [] } = (node ?? {}) as Partial<ClassDeclaration | InterfaceDeclaration>;
  return heritageClauses.flatMap(({ types }) => types.map((type) => textOf(type)));
}

function signatureOf({ parameters, type }: MethodDeclaration): Signature {
  return { parameters: parameters.map(parameterOf), returns: textOf(type) };
}

function parameterOf({
  name,
  type,
  questionToken,
  dotDotDotToken,
}: ParameterDeclaration): Parameter {
  const isRest = dotDotDotToken !== undefined;
  return {
    name: `${isRest ? "..." : ""}${textOf(name)}`,
    type: textOf(type),
    isOptional: questionToken !== undefined,
  };
}

/** On one line, without comments. */
function textOf(node: Node | undefined): string {
  return (node?.getText() ?? "")
    .replaceAll(/\/\*[^]*?\*\//g, "")
    .replaceAll(/\s+/g, " ")
    .trim();
}
