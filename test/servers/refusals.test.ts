/** Places that cannot be used: each is refused with a class to catch, a sentence that says what to do, and no password. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { inspect, promisify } from "node:util";
import { Pool } from "pg";
import { stdSerializers } from "pino";
import { SchemaTooOldError } from "../../src/core/errors.ts";
import {
  HoldfastError,
  type HoldfastOptions,
  InvalidArgumentError,
  openHoldfast,
  StoreUnavailableError,
} from "../../src/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { Proxy } from "../support/proxy.ts";
import type { GuardedServer } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { Crew } from "./crew.ts";
import { adminOf, engines, newDatabase, type Admin, type OwnDatabase } from "./engines.ts";
import { fakeMysql, fakePostgres, fakePostgresAtItsEnd, fakeStranger, type Fake } from "./fakes.ts";

/** Part of every password here, and of nothing else; nothing in it has to be encoded. */
const SECRET = "hush0hush";
const PASSWORD = encodeURIComponent(`${SECRET}/:@ä`);

type Class = new (...args: never[]) => HoldfastError;

/** Opening it fails as it should: the right class, all of these words, and not the password. */
async function refuses(
  place: Parameters<typeof openHoldfast>[0],
  { as, words, ...options }: { as: Class; words: readonly RegExp[] } & HoldfastOptions,
): Promise<HoldfastError> {
  const opened = openHoldfast(place, options);
  const error = await opened.then(
    async (holdfast) => {
      await holdfast.close();
      assert.fail("it was opened");
    },
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof as, `not ${as.name}: ${inspect(error)}`);
  for (const each of words) assert.match(error.message, each);
  checkNoSecret(error);
  return error;
}

/** Neither a person nor a log that is shown the error learns the password from it. */
function checkNoSecret(error: HoldfastError): void {
  const texts: string[] = [inspect(error, { depth: 20, showHidden: true })];
  for (let each: unknown = error; each instanceof Error; each = each.cause) {
    const facts = Object.entries(each);
    const shown = [facts, each, stdSerializers.err(each)].map((what) => JSON.stringify(what));
    texts.push(each.message, String(each.stack), ...shown);
  }
  for (const text of texts) assert.doesNotMatch(text, new RegExp(SECRET), text);
}

/** Opens it in a process of its own, in which a package may be missing. It ends in order, whatever it finds. */
async function openElsewhere(
  url: string,
  missing: string | null = null,
): Promise<{ ours: boolean; code: string; message: string }> {
  const args = [OPENER, url, ...(missing === null ? [] : [missing])];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args);
  assert.doesNotMatch(stdout + stderr, new RegExp(SECRET));
  return JSON.parse(stdout) as { ours: boolean; code: string; message: string };
}

const OPENER = `${import.meta.dirname}/opener.ts`;

function withPassword(url: string, change: (url: URL) => void = () => {}): string {
  const changed = new URL(url);
  changed.password = PASSWORD;
  change(changed);
  return changed.href;
}

const schemes = { postgres: "postgres", mysql: "mysql" } as const;
const drivers = { postgres: "pg", mysql: "mysql2" } as const;
const old = {
  postgres: { make: fakePostgres, version: "13.4", said: /runs PostgreSQL 13\.4\..*PostgreSQL 14/ },
  mysql: {
    make: fakeMysql,
    version: "5.5.5-10.3.39-MariaDB",
    said: /runs MariaDB 10\.3\.39.*MariaDB 10\.11/,
  },
} as const;

for (const engine of engines) {
  const { kind } = engine;
  const scheme = schemes[kind];
  const at = (port: number): string => `${scheme}://ada:${PASSWORD}@127.0.0.1:${port}/shop`;

  describe(`${engine.label} is refused`, { skip: engine.missingPrograms, timeout: 60_000 }, () => {
    let server: GuardedServer;
    let database: OwnDatabase;
    let admin: Admin;
    before(async () => {
      server = await engine.start();
      database = await newDatabase(engine, server, `${SECRET}-of-the-user`);
      admin = await adminOf(database.adminUrl);
    });
    after(async () => {
      await admin?.[Symbol.asyncDispose]();
      await server?.[Symbol.asyncDispose]();
    });

    test("with a wrong password", async () => {
      const words = [
        /refused the user or the password/,
        /Check both in the URL/,
        /percent-encoded/,
      ];
      await refuses(withPassword(database.url), { as: StoreUnavailableError, words });
      const stranger = withPassword(database.url, (url) => (url.username = "nobody"));
      await refuses(stranger, { as: StoreUnavailableError, words });
    });

    test("with a database that does not exist, or is not the user's", async () => {
      const url = new URL(database.url);
      url.pathname = "/nowhere";
      const words = [/nowhere (does not exist|for the user)|required privilege at .*nowhere/];
      const error = await refuses(url.href, { as: StoreUnavailableError, words });
      assert.match(error.message, /Create it|Grant/);
      const asAdmin = new URL(database.adminUrl);
      asAdmin.pathname = "/nowhere";
      const missing = [/\/nowhere does not exist/, /Create it .*CREATE DATABASE/];
      await refuses(asAdmin.href, { as: StoreUnavailableError, words: missing });
    });

    test("with a user who may not create tables", async () => {
      const { url } = await newDatabase(engine, server, `${SECRET}-of-the-reader`, "reads");
      await refuses(url, {
        as: StoreUnavailableError,
        words: [/does not have the required privilege/, /Grant/, /CREATE/],
      });
    });

    test("when it has no connection left", async () => {
      const full = await engine.start({ settings: fullAt[kind] });
      const guests: Admin[] = [];
      try {
        await assert.rejects(async () => {
          for (;;) guests.push(await adminOf(full.url));
        });
        const words = [/no free connection left/, /Raise max_connections/];
        await refuses(full.url, { as: StoreUnavailableError, words });
      } finally {
        for (const guest of guests) await guest[Symbol.asyncDispose]();
        await full[Symbol.asyncDispose]();
      }
    });

    test("when it takes no writes", async () => {
      const holdfast = await openHoldfast(database.url);
      await holdfast.close();
      const words = [/read-only: a replica, or/, /Name the primary in the URL/];
      await admin.letWrite(false);
      try {
        await until("the server takes no writes", () => isReadOnly(kind, database.url));
        await refuses(database.url, { as: StoreUnavailableError, words });
      } finally {
        await admin.letWrite(true);
      }
    });

    test("when it is down", async () => {
      await using proxy = await Proxy.before(database.url);
      proxy.refuse();
      const words = [/No server is listening at/, /Start the server, or check host and port/];
      await refuses(withPassword(proxy.url), { as: StoreUnavailableError, words });
    });

    test("when it is down by the time a worker starts", async () => {
      await using proxy = await Proxy.before(database.url);
      await using crew = await Crew.start(proxy.url);
      proxy.refuse();
      proxy.cut();
      const error = await crew.startAnother().then(
        () => "it started",
        (reason: unknown) => reason,
      );
      await proxy.accept();
      assert.ok(error instanceof HoldfastError, inspect(error));
      assert.equal(error.code, "STORE_UNAVAILABLE");
      checkNoSecret(error);
    });

    test("when its tables are missing and must not be created", async () => {
      const { url } = await newDatabase(engine, server, SECRET);
      const words = [/no holdfast tables/, /holdfast migrate/];
      await refuses(url, { as: SchemaTooOldError, words, migrate: false });
    });
  });

  describe(`for ${engine.label} is refused`, () => {
    test("a host that cannot be resolved", async () => {
      const words = [/The host of .* cannot be resolved/, /Check its name and the network/];
      const url = `${scheme}://ada:${PASSWORD}@nowhere.invalid/shop`;
      await refuses(url, { as: StoreUnavailableError, words });
    });

    test("a server that is too old", async () => {
      const { make, version, said } = old[kind];
      await using fake = await make(version);
      await refuses(at(fake.port), { as: StoreUnavailableError, words: [said] });
    });

    test("a port at which something else listens", async () => {
      await using fake = await fakeStranger();
      await refuses(at(fake.port), { as: StoreUnavailableError, words: [/127\.0\.0\.1/] });
    });

    test("a driver that is not installed", async () => {
      const said = await openElsewhere(at(1), drivers[kind]);
      assert.deepEqual([said.ours, said.code], [true, "STORE_UNAVAILABLE"]);
      assert.match(said.message, new RegExp(`npm install ${drivers[kind]}$`));
    });

    for (const [what, url, ...words] of [
      ["without a database", `${scheme}://ada:${PASSWORD}@127.0.0.1`, /host:\d+\/database/],
      ["with an empty database", `${scheme}://ada:${PASSWORD}@127.0.0.1/`, /host:\d+\/database/],
      ["with an unknown option", `${at(1)}?pool=${SECRET}`, /'pool'/, /ssl/],
      [
        "with a port that is none",
        `${scheme}://ada:${PASSWORD}@127.0.0.1:99999/shop`,
        /host:\d+\//,
      ],
      [
        "with a password that was not encoded",
        `${scheme}://ada:1/${SECRET}@127.0.0.1/shop`,
        /percent-encode/,
      ],
      ["without its slashes", `${scheme}:ada:${PASSWORD}@127.0.0.1/shop`, /host:\d+\/database/],
    ] as const) {
      test(`a URL ${what}`, async () => {
        const { field } = (await refuses(url, {
          as: InvalidArgumentError,
          words,
        })) as InvalidArgumentError;
        assert.equal(field, "url");
      });
    }

    test("an unknown encryption mode", async () => {
      const option = kind === "postgres" ? "sslmode" : "ssl-mode";
      const words = [new RegExp(`${option}=safe`), /verify/];
      await refuses(`${at(1)}?${option}=safe`, { as: InvalidArgumentError, words });
    });
  });
}

describe("for PostgreSQL is refused", { skip: engines[0]?.missingPrograms ?? false }, () => {
  const at = ({ port }: Fake): string => `postgres://ada:${PASSWORD}@127.0.0.1:${port}/shop`;

  test("a schema that is no name", async () => {
    const words = [/lower-case letters, digits/];
    const url = `postgres://ada:${PASSWORD}@127.0.0.1:1/shop`;
    for (const schema of ["Shop", "shop; drop table x", "pg_shop", "", "a".repeat(60)]) {
      await refuses(url, { as: InvalidArgumentError, words, schema });
      const inUrl = `${url}?schema=${encodeURIComponent(schema)}`;
      if (schema !== "") await refuses(inUrl, { as: InvalidArgumentError, words });
    }
  });

  test("a server from before the settings that we ask for", async () => {
    await using fake = await fakePostgres("9.6.24");
    await refuses(at(fake), { as: StoreUnavailableError, words: [/9\.6.*PostgreSQL 14/] });
  });

  test("a server that ends the session at once, which ends no process", async () => {
    await using fake = await fakePostgresAtItsEnd();
    const said = await openElsewhere(at(fake));
    assert.deepEqual([said.ours, said.code], [true, "STORE_UNAVAILABLE"]);
    assert.match(said.message, /was lost/);
  });

  test("a schema for a database that has none", async () => {
    const words = [/only PostgreSQL has schemas/];
    await refuses(`mysql://ada:${PASSWORD}@127.0.0.1/shop`, {
      as: InvalidArgumentError,
      words,
      schema: "x",
    });
  });

  test("a pool whose password is wrong, without revealing it", async () => {
    await using server = await (engines[0] as (typeof engines)[number]).start();
    const pool = new Pool({ connectionString: withPassword(server.url) });
    try {
      const words = [/refused the user or the password/];
      await refuses(pool, { as: StoreUnavailableError, words });
    } finally {
      await pool.end();
    }
  });
});

const fullAt = {
  postgres: { max_connections: "5", superuser_reserved_connections: "1", max_wal_senders: "0" },
  mysql: { "max-connections": "10", "extra-max-connections": "1" },
};

async function isReadOnly(kind: "postgres" | "mysql", url: string): Promise<boolean> {
  await using user = await adminOf(url);
  const text =
    kind === "postgres"
      ? "select current_setting('transaction_read_only') = 'on' as yes"
      : "select @@global.read_only = 1 as yes";
  const [row] = await user.rows<{ yes: unknown }>(text);
  return Boolean(row?.yes);
}

after(assertNothingRuns);
