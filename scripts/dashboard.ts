/**
 * Makes the dashboard's page from page/: four files, by name. A checkout makes them when the page is first asked
 * for, a package has them in dist/dashboard.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { build, type Plugin } from "rolldown";

const PAGE = join(import.meta.dirname, "../page");

/** Of another entry: the gallery of its parts. */
export async function bundleDashboard(from = "main.tsx"): Promise<Map<string, Uint8Array>> {
  const entry = join(PAGE, from);
  const styles = new Styles(entry);
  const { output } = await build({
    input: entry,
    plugins: [styles.plugin],
    write: false,
    platform: "browser",
    tsconfig: join(PAGE, "tsconfig.json"),
    transform: { target: "es2024" },
    output: { format: "es", minify: true, comments: false, codeSplitting: false },
  });
  const [script] = output;
  const text = (name: string): string => readFileSync(join(PAGE, name), "utf8");
  const files = {
    "index.html": text("index.html"),
    "app.js": script.code,
    "style.css": tightened(withSystemTheme(styles.text)),
    "icon.svg": text("icon.svg"),
  };
  return new Map(Object.entries(files).map(([name, content]) => [name, Buffer.from(content)]));
}

/** The style sheets that components import, such as "./lanes.css", together and in the order in which modules run. */
class Styles {
  readonly plugin: Plugin;
  text = "";

  constructor(entry: string) {
    const take = (text: string): void => void (this.text = text);
    this.plugin = {
      name: "styles",
      load: { filter: { id: /\.css$/ }, handler: () => ({ code: "", moduleType: "js" }) },
      buildEnd() {
        const paths = inOrder(entry, (path) => this.getModuleInfo(path)?.importedIds ?? []);
        const sheets = paths.filter((path) => path.endsWith(".css"));
        take(sheets.map((path) => readFileSync(path, "utf8")).join("\n"));
      },
    };
  }
}

/** A module and what it imports, each once and after its own imports. */
function inOrder(
  path: string,
  importsOf: (path: string) => readonly string[],
  seen = new Set<string>(),
): string[] {
  if (seen.has(path)) return [];
  seen.add(path);
  return [...importsOf(path).flatMap((one) => inOrder(one, importsOf, seen)), path];
}

/** The dark values stand once, for the theme that a person chose; the system's choice uses the same. */
export function withSystemTheme(css: string): string {
  const dark = /:root\[data-theme="dark"\] \{(?<values>[^}]*)\}/.exec(css);
  if (dark === null) throw new Error("The page's styles have no dark theme.");
  const { values = "" } = dark.groups ?? {};
  const system = `@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) {${values}} }`;
  return css.replace(dark[0], `${dark[0]}\n${system}`);
}

/** No comments and no blanks that mean nothing. */
function tightened(css: string): string {
  return css
    .replaceAll(/\/\*[^]*?\*\//g, "")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/ ?([{};,]) ?/g, "$1")
    .trim();
}
