/** PgBouncer before a PostgreSQL: a session of its client is a new one with every transaction. */
import { HOST, pathOf, writePrivate, type Place, type Recipe } from "./recipe.ts";

const SETTINGS = {
  listen_addr: HOST,
  unix_socket_dir: "",
  pool_mode: "transaction",
  auth_type: "scram-sha-256",
  max_client_conn: "500",
  default_pool_size: "20",
};

export const pgbouncer: Recipe = {
  command(place) {
    const { port, programs, settings } = place;
    const { hostname, port: portBehind, username, password } = behind(place);
    // The same password opens PgBouncer to the client and PostgreSQL to PgBouncer.
    const user = decodeURIComponent(username);
    const users = `"${user}" "${decodeURIComponent(password)}"\n`;
    const all = {
      ...SETTINGS,
      listen_port: String(port),
      admin_users: user,
      auth_file: writePrivate(place, "users.txt", users),
      ...settings,
    };
    const text = [
      "[databases]",
      `* = host=${hostname} port=${portBehind === "" ? "5432" : portBehind}`,
      "[pgbouncer]",
      ...Object.entries(all).map(([name, value]) => `${name} = ${value}`),
    ].join("\n");
    return [pathOf(programs, "pgbouncer"), writePrivate(place, "pgbouncer.ini", `${text}\n`)];
  },
  ready: /process up: PgBouncer (?<version>[\d.]+)/,
  url(place) {
    const url = behind(place);
    url.hostname = HOST;
    url.port = String(place.port);
    return url.href;
  },
  // It has nothing to lose, and newer versions wait for their clients when asked politely.
  stopSignal: "SIGKILL",
  dropSignal: "SIGKILL",
  killSignal: "SIGKILL",
};

function behind(place: Place): URL {
  if (place.behind === null) throw new Error("PgBouncer needs the URL of the server behind it.");
  return new URL(place.behind);
}
