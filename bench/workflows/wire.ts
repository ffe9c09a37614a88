/** Sends what was recorded, as one transaction, by the driver alone. */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { systemRuntime } from "../../src/core/runtime.ts";
import {
  filled,
  insertRows,
  loadDriver as loadMysql,
  Session,
} from "../../src/database/mysql/session.ts";
import { mysqlAddress } from "../../src/database/mysql/address.ts";
import {
  loadDriver as loadPostgres,
  postgresAddress,
} from "../../src/database/postgres/address.ts";
import { openPool } from "../../src/database/postgres/session.ts";
import type { SqlValue } from "../../src/database/sql.ts";
import type { SqlEngine } from "../fill.ts";
import { fileOf, type Place } from "../places.ts";
import type { Meaning, Recorded } from "./recorded.ts";

export interface Wire extends AsyncDisposable {
  send(recorded: readonly Recorded[], meaning: Meaning): Promise<void>;
}

export function openWire(name: SqlEngine, place: Place): Promise<Wire> {
  return OPEN[name](place);
}

const OPEN: Readonly<Record<SqlEngine, (place: Place) => Promise<Wire>>> = {
  sqlite: openSqlite,
  postgres: openPostgres,
  mariadb: openMariadb,
};

async function openSqlite(place: Place): Promise<Wire> {
  const db = new DatabaseSync(fileOf(place), { timeout: 0 });
  db.exec("pragma journal_mode = wal; pragma synchronous = full;");
  const prepared = new Map<string, StatementSync>();
  const prepare = (text: string): StatementSync => {
    const statement = prepared.get(text) ?? db.prepare(text);
    prepared.set(text, statement);
    return statement;
  };
  return {
    async send(recorded, meaning) {
      db.exec("begin immediate");
      for (const one of recorded) {
        if (one.kind === "insert") {
          const row = meaning.row(one.row);
          prepare(insertion(one.table, Object.keys(row))).run(...Object.values(row));
        } else prepare(one.text).all(...(meaning.values(one.values) as SqlValue[]));
      }
      db.exec("commit");
    },
    [Symbol.asyncDispose]: async () => db.close(),
  };
}

function insertion(table: string, columns: readonly string[]): string {
  const marks = columns.map(() => "?").join(", ");
  return `insert into holdfast_${table} (${columns.join(", ")}) values (${marks})`;
}

async function openPostgres(place: Place): Promise<Wire> {
  const driver = await loadPostgres();
  const address = postgresAddress(place.url);
  const opened = await openPool(driver, address, { max: 1, store: "raw", use: "cold" });
  const client = await opened.pool.connect();
  const names = new Map<string, string>();
  const nameOf = (text: string): string => {
    const name = names.get(text) ?? `raw_${names.size + 1}`;
    names.set(text, name);
    return name;
  };
  return {
    async send(recorded, meaning) {
      await client.query({ text: "begin isolation level read committed", values: [] });
      for (const one of recorded) {
        if (one.kind === "insert") await client.query(jsonInsert(one.table, meaning.row(one.row)));
        else {
          const { text, values } = one;
          await client.query({ text, values: meaning.values(values), name: nameOf(text) });
        }
      }
      await client.query({ text: "commit", values: [] });
    },
    async [Symbol.asyncDispose]() {
      client.release();
      await opened.end();
    },
  };
}

/** As the engine inserts. */
function jsonInsert(table: string, row: object): { text: string; values: string[] } {
  const columns = Object.keys(row).join(", ");
  const text = `
      insert into "holdfast".${table} (${columns})
      select ${columns}
        from json_populate_recordset(null::"holdfast".${table}, $1::text::json)`;
  return { text, values: [JSON.stringify([row])] };
}

async function openMariadb(place: Place): Promise<Wire> {
  const address = mysqlAddress(place.url);
  const driver = await loadMysql();
  const session = await Session.open({ driver, address, probe: null, runtime: systemRuntime });
  return {
    async send(recorded, meaning) {
      let packet = ["start transaction"];
      for (const one of recorded) {
        if (one.kind === "insert") packet.push(...insertRows(one.table, [meaning.row(one.row)]));
        else packet.push(filled({ text: one.text, values: meaning.values(one.values) }));
        await session.send(packet, { rows: "objects" });
        packet = [];
      }
      await session.send(["commit"], { rows: "objects" });
    },
    [Symbol.asyncDispose]: () => session.end(),
  };
}
