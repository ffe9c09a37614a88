/** The package as it is published: JavaScript, in a folder from which the drivers are found. */
import { join } from "node:path";
import { assemble, bundleInto } from "../scripts/build.ts";

const CACHE = join(import.meta.dirname, "../node_modules/.cache");

/** Bundles the sources as they stand, and returns the folder. */
export async function compilePackage(): Promise<string> {
  const folder = join(CACHE, "holdfast-bench");
  await bundleInto(folder);
  return folder;
}

/** The whole package, command and all. Returns the launcher. */
export function compileCommand(): Promise<string> {
  return assemble(join(CACHE, "holdfast-bench-command"));
}
