/**
 * Cuts TypeScript into words, strings and marks.
 *
 * Just enough to see imports and calls without mistaking comments, strings, templates or regular
 * expressions for code. It knows no grammar: a `/` is guessed from the token before it.
 */

export interface Token {
  readonly kind: "word" | "string" | "mark";
  /** For a string, what stands between its quotes. */
  readonly text: string;
  readonly line: number;
}

const BLANK = /\s+|\/\/[^\n]*|\/\*[^]*?\*\//y;
const WORD = /[\p{ID_Start}\p{Nd}$_#][\p{ID_Continue}$]*/uy;
const STRING = /"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'|`(?:[^`\\$]|\\[^]|\$(?!\{))*`/y;
const TEMPLATE_TEXT = /(?:[^`\\$]|\\[^]|\$(?!\{))*(?:`|\$\{)/y;
const PATTERN = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/\w*/y;

/** After these words comes a value, so a slash begins a pattern; after any other word it divides. */
const BEFORE_VALUE = new Set(
  "await case delete do else in instanceof new of return throw typeof void yield".split(" "),
);

export function tokenize(source: string): Token[] {
  const tokens: Token[] = [];
  /** What each open brace belongs to: a block or object, or a `${` inside a template. */
  const braces: ("block" | "template")[] = [];
  let at = 0;
  let line = 1;

  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const text = pattern.exec(source)?.[0];
    if (text !== undefined) advance(text);
    return text;
  };
  const advance = (text: string): void => {
    at += text.length;
    line += text.split("\n").length - 1;
  };
  const push = (kind: Token["kind"], text: string, startedOn: number): void => {
    tokens.push({ kind, text, line: startedOn });
  };
  const takeTemplateText = (): void => {
    if (take(TEMPLATE_TEXT)?.endsWith("${")) braces.push("template");
    else push("string", "", line);
  };
  const takeMark = (startedOn: number): void => {
    const mark = source.charAt(at);
    advance(mark);
    if (mark === "`") return takeTemplateText();
    if (mark === "{") braces.push("block");
    if (mark === "}" && braces.pop() === "template") return takeTemplateText();
    push("mark", mark, startedOn);
  };
  const tookPattern = (): boolean => expectsValue(tokens.at(-1)) && take(PATTERN) !== undefined;

  while (at < source.length) {
    if (take(BLANK) !== undefined) continue;
    const startedOn = line;
    const word = take(WORD);
    const text = word === undefined ? take(STRING) : undefined;
    if (word !== undefined) push("word", word, startedOn);
    else if (text !== undefined) push("string", text.slice(1, -1), startedOn);
    else if (tookPattern()) push("string", "", startedOn);
    else takeMark(startedOn);
  }
  return tokens;
}

function expectsValue(before: Token | undefined): boolean {
  if (!before) return true;
  if (before.kind === "word") return BEFORE_VALUE.has(before.text);
  return before.kind === "mark" && !")]}".includes(before.text);
}

export interface Import {
  readonly specifier: string;
  readonly line: number;
}

/** Calls that load the module they are given; a method named `import` is none of them. */
const LOADERS = new Set(["import", "require", "getBuiltinModule"]);

/** Every module a file names: static, re-exported, type-only, dynamic with a literal name. */
export function importsOf(tokens: readonly Token[]): Import[] {
  return tokens.flatMap((token, at) => {
    const source = token.kind === "word" ? sourceNamedAt(tokens, at) : undefined;
    return source ? [{ specifier: source.text, line: source.line }] : [];
  });
}

function sourceNamedAt(tokens: readonly Token[], at: number): Token | undefined {
  const [word, next, afterNext] = tokens.slice(at, at + 3);
  if (!word || !next) return undefined;
  if (LOADERS.has(word.text) && isMark(next, "(")) return asString(afterNext);
  if (word.text === "import") return asString(next) ?? sourceAfterFrom(tokens, at + 1);
  if (word.text === "export") return sourceAfterFrom(tokens, at + 1);
  return undefined;
}

/** Walks the names of an import or export clause up to `from "…"`; anything else ends the clause. */
function sourceAfterFrom(tokens: readonly Token[], start: number): Token | undefined {
  for (let at = start; at < tokens.length; at += 1) {
    const token = tokens[at];
    const source = token?.text === "from" ? asString(tokens[at + 1]) : undefined;
    if (source) return source;
    if (!token || !isClausePart(token)) return undefined;
  }
  return undefined;
}

function isClausePart(token: Token): boolean {
  if (token.kind === "mark") return "{},*".includes(token.text);
  return token.text !== "import" && token.text !== "export";
}

function isMark(token: Token, text: string): boolean {
  return token.kind === "mark" && token.text === text;
}

function asString(token: Token | undefined): Token | undefined {
  return token?.kind === "string" ? token : undefined;
}
