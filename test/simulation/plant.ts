/** Loaded before everything else, with --import: plants the mutant that the environment names. */
import { registerHooks } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { mutants, type Patch } from "./mutants.ts";

const { HOLDFAST_MUTANT } = process.env;
const SRC = join(import.meta.dirname, "../../src");

const planted = mutants.find(({ name }) => name === HOLDFAST_MUTANT);
if (planted === undefined) throw new Error(`No mutant is called '${HOLDFAST_MUTANT}'.`);

const patches = new Map<string, Patch[]>();
for (const patch of planted.patches) {
  const { href } = pathToFileURL(join(SRC, patch.file));
  patches.set(href, [...(patches.get(href) ?? []), patch]);
}

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const found = patches.get(url);
    if (found === undefined || loaded.source === undefined || loaded.source === null) return loaded;
    const { source } = loaded;
    const text =
      typeof source === "string" ? source : Buffer.from(source as Uint8Array).toString("utf8");
    patches.delete(url);
    return { ...loaded, source: found.reduce(apply, text) };
  },
});

/** The files that the process has never loaded: a bug that is nowhere proves nothing. */
export function unplanted(): string[] {
  return [...patches.keys()];
}

function apply(text: string, { file, find, put }: Patch): string {
  const pieces = text.split(find);
  if (pieces.length === 2) return pieces.join(put);
  throw new Error(`${file} has this ${pieces.length - 1} times, not once:\n${find}`);
}
