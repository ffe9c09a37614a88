/** MariaDB: durable as shipped, and with the character set and isolation level it is shipped with. */
import { join } from "node:path";
import { HOST, pathOf, step, writePrivate, type Recipe } from "./recipe.ts";

const DATABASE = "holdfast";

const SETTINGS = {
  "bind-address": HOST,
  "max-connections": "300",
  "innodb-buffer-pool-size": "512M",
  "innodb-flush-log-at-trx-commit": "1",
  "performance-schema": "OFF",
};

/** The accounts it is set up with have no password, and some may come from anywhere. */
function accounts(secret: string): string {
  return `
    delete from mysql.global_priv where user = 'root' and host <> 'localhost';
    flush privileges;
    set password for 'root'@'localhost' = password('${secret}');
    create user 'root'@'%' identified by '${secret}';
    grant all on *.* to 'root'@'%' with grant option;
    create database ${DATABASE};
  `;
}

export const mariadb: Recipe = {
  async makeData(place) {
    await step(place, pathOf(place.programs, "mariadb-install-db"), [
      "--no-defaults",
      `--datadir=${join(place.folder, "data")}`,
      "--auth-root-authentication-method=normal",
      "--skip-test-db",
      "--skip-name-resolve",
      // Not every machine can look up its own name, and no account here depends on one.
      "--force",
      // Only here: what is lost with the machine's power is set up again anyway.
      "--loose-debug-no-sync",
      `--extra-file=${writePrivate(place, "accounts.sql", accounts(place.secret))}`,
    ]);
  },
  command({ folder, port, programs, settings }) {
    const all = { ...SETTINGS, port: String(port), ...settings };
    return [
      pathOf(programs, "mariadbd"),
      "--no-defaults",
      `--datadir=${join(folder, "data")}`,
      `--socket=${join(folder, "mariadb.sock")}`,
      `--pid-file=${join(folder, "mariadb.pid")}`,
      `--tmpdir=${folder}`,
      "--skip-log-bin",
      "--skip-name-resolve",
      ...Object.entries(all).map(([name, value]) => `--${name}=${value}`),
    ];
  },
  ready: /ready for connections[^]*Version: '(?<version>[\d.]+)/,
  url: ({ port, secret }) => `mysql://root:${secret}@${HOST}:${port}/${DATABASE}`,
  stopSignal: "SIGTERM",
  dropSignal: "SIGKILL",
  killSignal: "SIGKILL",
};
