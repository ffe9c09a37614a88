/** Bugs that are planted in the product: changes of its source texts as they are loaded. Nothing of them is ever in it. */
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

export interface Patch {
  /** In src/. */
  readonly file: string;
  readonly find: string;
  readonly put: string;
}

const SRC = join(import.meta.dirname, "../../src");

/**
 * To be called before anything of the product is loaded. Returns which files were never loaded: a bug that is nowhere
 * proves nothing. A text that is not there exactly once is an error: the product has changed, and its bug has to follow.
 */
export function plant(wanted: readonly Patch[]): () => string[] {
  const patches = new Map<string, Patch[]>();
  for (const patch of wanted) {
    const { href } = pathToFileURL(join(SRC, patch.file));
    patches.set(href, [...(patches.get(href) ?? []), patch]);
  }
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      const found = patches.get(url);
      const { source } = loaded;
      if (found === undefined || source === undefined || source === null) return loaded;
      const text =
        typeof source === "string" ? source : Buffer.from(source as Uint8Array).toString("utf8");
      patches.delete(url);
      return { ...loaded, source: found.reduce(apply, text) };
    },
  });
  return () => [...patches.keys()];
}

/** The text of the file with the bugs in it, which all have to be in that file. */
export function plantedText(file: string, patches: readonly Patch[]): string {
  return patches.reduce(apply, readFileSync(join(SRC, file), "utf8"));
}

function apply(text: string, { file, find, put }: Patch): string {
  const pieces = text.split(find);
  if (pieces.length === 2) return pieces.join(put);
  throw new Error(`${file} has this ${pieces.length - 1} times, not once:\n${find}`);
}
