/** PostgreSQL: durable as shipped, a password for everybody, words in the order of a language. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { HOST, pathOf, step, writePrivate, type Place, type Recipe } from "./recipe.ts";

/** Not the name of our schema: PostgreSQL looks for tables in a schema with the name of the user first. */
const USER = "app";

const SETTINGS = {
  listen_addresses: HOST,
  max_connections: "300",
  shared_buffers: "256MB",
  max_wal_size: "2GB",
  // In the data folder instead of /dev/shm, where a killed server would leave it behind.
  dynamic_shared_memory_type: "mmap",
};

/** Line of postmaster.pid that has the key and the id of the shared memory. */
const SHARED_MEMORY_LINE = 6;

export const postgres: Recipe = {
  template: `postgres-${USER}`,
  async makeData(place) {
    const password = writePrivate(place, "password", `${place.secret}\n`);
    const usual = [
      `--pgdata=${join(place.folder, "data")}`,
      `--username=${USER}`,
      `--pwfile=${password}`,
      "--auth=scram-sha-256",
      "--no-sync",
      "--encoding=UTF8",
      "--locale=C",
    ];
    const initdb = pathOf(place.programs, "initdb");
    // Most databases out there compare text as a language does: code that relies on the order of the
    // bytes shall fail here. Before version 15, and without ICU, initdb refuses.
    const asInLanguage = ["--locale-provider=icu", "--icu-locale=en-US"];
    await step(place, initdb, [...usual, ...asInLanguage]).catch(() => step(place, initdb, usual));
  },
  copyData: (place, primary) =>
    step(place, pathOf(place.programs, "pg_basebackup"), [
      `--pgdata=${join(place.folder, "data")}`,
      `--dbname=${primary}`,
      "--write-recovery-conf",
      "--checkpoint=fast",
      "--no-sync",
    ]),
  command({ folder, port, programs, settings }) {
    const all = { ...SETTINGS, port: String(port), unix_socket_directories: folder, ...settings };
    const flags = Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    return [pathOf(programs, "postgres"), "-D", join(folder, "data"), ...flags];
  },
  ready: /starting PostgreSQL (?<version>\S+)[^]*ready to accept (?:read-only )?connections/,
  url: ({ port, secret }) => `postgres://${USER}:${secret}@${HOST}:${port}/postgres`,
  stopSignal: "SIGINT",
  dropSignal: "SIGQUIT",
  // Elsewhere its children cannot be found, and they keep the next one from starting for a while.
  killSignal: process.platform === "linux" ? "SIGKILL" : "SIGQUIT",
  async sweep(place) {
    const id = sharedMemoryOf(place);
    if (id === null) return;
    await step(place, "ipcrm", ["-m", id]).catch(() => {}); // Its last process may have taken it along.
  },
};

function sharedMemoryOf({ folder }: Place): string | null {
  try {
    const lines = readFileSync(join(folder, "data", "postmaster.pid"), "utf8").split("\n");
    return lines[SHARED_MEMORY_LINE]?.trim().split(/\s+/)[1] ?? null;
  } catch {
    return null; // It was ended in order, and left nothing.
  }
}
