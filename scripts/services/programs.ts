/** Finding installed programs. Debian keeps the servers outside the search path. */
import { accessSync, constants, globSync } from "node:fs";
import { delimiter, join } from "node:path";
import { KNOWN, type Need } from "./names.ts";

const OUTSIDE_THE_PATH = ["usr/local/sbin", "usr/sbin", "sbin", "usr/libexec"];

export type Programs = Readonly<Record<string, string>>;

/** Where to look, the search path first: with it, a person chooses among several versions. */
export function programFolders(path: string, root = "/"): string[] {
  return [
    ...path.split(delimiter).filter((folder) => folder !== ""),
    ...newestFirst(globSync("usr/lib/postgresql/*/bin", { cwd: root })).map((folder) =>
      join(root, folder),
    ),
    ...newestFirst(globSync("usr/lib/postgresql/*/lib/pgxs/src/test/isolation", { cwd: root })).map(
      (folder) => join(root, folder),
    ),
    ...OUTSIDE_THE_PATH.map((folder) => join(root, folder)),
  ];
}

function newestFirst(folders: readonly string[]): string[] {
  return folders.toSorted((a, b) => b.localeCompare(a, "en", { numeric: true }));
}

/** The paths of all programs that this needs, or the name of the first that is not there. */
export function findPrograms(
  need: Need,
  folders: readonly string[] = programFolders(process.env["PATH"] ?? ""),
): { readonly programs: Programs } | { readonly absent: string } {
  const programs: Record<string, string> = {};
  for (const name of KNOWN[need].programs) {
    const path = folders.map((folder) => join(folder, name)).find(mayBeRun);
    if (path === undefined) return { absent: name };
    programs[name] = path;
  }
  return { programs };
}

function mayBeRun(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
