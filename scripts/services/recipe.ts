/** How one kind of server is set up and run; one file each tells it for PostgreSQL and the others. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Account } from "./account.ts";
import type { Programs } from "./programs.ts";

/** Nothing is reachable from other machines. */
export const HOST = "127.0.0.1";

/** Setting up a data folder takes two seconds; one that takes this long will not end. */
const STEP_LIMIT_MS = 60_000;

/** Where one server lives. */
export interface Place {
  /** Belongs to this server alone, and is removed with it. */
  readonly folder: string;
  readonly programs: Programs;
  readonly account: Account | null;
  readonly port: number;
  /** The password of its administrator. */
  readonly secret: string;
  /** What differs from the usual settings. */
  readonly settings: Readonly<Record<string, string>>;
  /** For PgBouncer: the server behind it. For a PostgreSQL that is a standby: its primary. */
  readonly behind: string | null;
}

export interface Recipe {
  /** Names what `makeData` made, if that is not the same for every version of the recipe. */
  readonly template?: string;
  /** Makes the data folder `<folder>/data`; it is made once, then copied. */
  readonly makeData?: (place: Omit<Place, "port">) => Promise<void>;
  /** Makes the data folder of a standby, from its running primary. */
  readonly copyData?: (place: Omit<Place, "port">, primary: string) => Promise<void>;
  /** Writes the files it needs besides, and gives the program's name and arguments. */
  readonly command: (place: Place) => readonly [program: string, ...args: string[]];
  /** What it prints when it takes connections; the group `version` tells which one it is. */
  readonly ready: RegExp;
  readonly url: (place: Place) => string;
  /** Ends it in order, without waiting for its clients. */
  readonly stopSignal: NodeJS.Signals;
  /** Ends it when its data will be thrown away. */
  readonly dropSignal: NodeJS.Signals;
  /** As bad as it gets. */
  readonly killSignal: NodeJS.Signals;
  /** Removes what a killed one left outside its folder. */
  readonly sweep?: (place: Place) => Promise<void>;
}

/** The servers see nothing of our environment that could change their ways. */
export function environment(folder: string): NodeJS.ProcessEnv {
  const { PATH, TZ } = process.env;
  return {
    ...(PATH === undefined ? {} : { PATH }),
    ...(TZ === undefined ? {} : { TZ }),
    HOME: folder,
    TMPDIR: folder,
    LC_ALL: "C",
  };
}

/** Runs one step of a setup to its end, as the account of the server. */
export async function step(
  { folder, account }: Pick<Place, "folder" | "account">,
  program: string,
  args: readonly string[],
): Promise<void> {
  const child = spawn(program, args, {
    cwd: folder,
    env: environment(folder),
    stdio: ["ignore", "pipe", "pipe"],
    timeout: STEP_LIMIT_MS,
    killSignal: "SIGKILL",
    ...account,
  });
  const chunks: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => chunks.push(chunk));
  }
  await once(child, "close");
  if (child.exitCode === 0) return;
  const how = child.exitCode ?? child.signalCode;
  throw new Error(`${program} failed with ${how}: ${chunks.join("").trim()}`);
}

/** Writes a file that only the server may read, as it may hold a password. */
export function writePrivate(
  { folder, account }: Pick<Place, "folder" | "account">,
  name: string,
  text: string,
): string {
  const path = join(folder, name);
  writeFileSync(path, text, { mode: 0o600 });
  if (account !== null) chownSync(path, account.uid, account.gid);
  return path;
}

export function pathOf(programs: Programs, name: string): string {
  const path = programs[name];
  if (path === undefined) throw new Error(`${name} was not looked for.`);
  return path;
}
