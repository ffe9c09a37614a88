/** The file that a database is in: which one a URL names, and whether it can be used. */
import { closeSync, existsSync, openSync, statfsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { InvalidArgument, StoreUnavailable } from "../../core/errors.ts";

export function sqlitePath(url: string): string {
  const path = url.slice("sqlite:".length).replace(/^\/\/(?=\/)/, "");
  if (path === ":memory:") return path;
  if (path === "" || path.startsWith("//")) {
    throw new InvalidArgument({
      field: "url",
      problem:
        "an SQLite URL names a file (sqlite:shop.db, sqlite:/var/lib/shop.db) or sqlite::memory:.",
    });
  }
  return resolve(path);
}

const NETWORK_FILE_SYSTEMS = new Map([
  [0x6969, "NFS"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB2"],
]);

export function checkFile(path: string, create: boolean): void {
  const folder = dirname(path);
  if (!existsSync(folder)) {
    throw new StoreUnavailable({
      problem: `The folder ${folder} does not exist.`,
      remedy: "Create it, or name another file.",
    });
  }
  if (!create && !existsSync(path)) {
    throw new StoreUnavailable({
      problem: `There is no database at ${path}.`,
      remedy: "Check the name, or create it with 'holdfast migrate'.",
    });
  }
  if (existsSync(path) && statSync(path).isDirectory()) {
    throw new StoreUnavailable({
      problem: `${path} is a folder.`,
      remedy: `Name a file in it, such as ${path}/holdfast.db.`,
    });
  }
  const network = NETWORK_FILE_SYSTEMS.get(statfsSync(folder).type);
  if (network !== undefined) {
    throw new StoreUnavailable({
      problem: `${path} is on a network file system (${network}), where SQLite's locks cannot be trusted.`,
      remedy: "Put the file on a local disk, or use PostgreSQL or MySQL.",
    });
  }
}

/** Jobs are in it as plain text, so it is its owner's alone. */
const FILE_MODE = 0o600;

/**
 * Makes an empty file for a database that is new, before SQLite would make one that all can read.
 * The files beside it get its mode from SQLite. False: there is one, and it stays as it is. It is not
 * even opened, because closing it would take this process's locks on it away.
 */
export function createFile(path: string): boolean {
  try {
    closeSync(openSync(path, "wx", FILE_MODE));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}
