import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { delimiter, dirname } from "node:path";
import { after, suite, test } from "node:test";
import { accountIn } from "../../scripts/services/account.ts";
import { inCi, named, needPrograms, notTested } from "../../scripts/services/choice.ts";
import { installScript, whyNoInstall } from "../../scripts/services/install.ts";
import { mariadb } from "../../scripts/services/mariadb.ts";
import { KNOWN, SERVERS } from "../../scripts/services/names.ts";
import { pgbouncer } from "../../scripts/services/pgbouncer.ts";
import { postgres } from "../../scripts/services/postgres.ts";
import { findPrograms, programFolders } from "../../scripts/services/programs.ts";
import { whyNoAnswer } from "../../scripts/services/reach.ts";
import { redis } from "../../scripts/services/redis.ts";
import { createDatabase, withDatabase } from "../../scripts/services/scratch.ts";
import { demandOf, refuseGaps } from "../../scripts/test.ts";
import { tempFolder } from "../support/folder.ts";
import { missing, urlOf } from "../support/servers.ts";

const folder = tempFolder();
after(() => folder[Symbol.dispose]());

/** A machine that has these files, and may run them. */
function machineWith(files: readonly string[], mode = 0o755): string {
  const root = folder.file("");
  for (const file of files) {
    mkdirSync(dirname(`${root}/${file}`), { recursive: true });
    writeFileSync(`${root}/${file}`, "", { mode });
  }
  return root;
}

suite("the programs of servers are found", () => {
  const debian = [
    "usr/lib/postgresql/9.6/bin/initdb",
    "usr/lib/postgresql/9.6/bin/postgres",
    "usr/lib/postgresql/15/bin/initdb",
    "usr/lib/postgresql/15/bin/postgres",
    "usr/lib/postgresql/15/lib/pgxs/src/test/isolation/isolationtester",
    "usr/sbin/pgbouncer",
    "usr/lib/postgresql/15/bin/pg_basebackup",
  ];

  test("outside the search path, the newest version first", () => {
    const root = machineWith(debian);
    const folders = programFolders("", root);
    assert.deepEqual(findPrograms("postgres", folders), {
      programs: {
        initdb: `${root}/usr/lib/postgresql/15/bin/initdb`,
        postgres: `${root}/usr/lib/postgresql/15/bin/postgres`,
        pg_basebackup: `${root}/usr/lib/postgresql/15/bin/pg_basebackup`,
      },
    });
    assert.ok("programs" in findPrograms("isolationtester", folders));
    assert.ok("programs" in findPrograms("pgbouncer", folders));
  });

  test("on the search path before anywhere else", () => {
    const root = machineWith([...debian, "chosen/initdb", "chosen/postgres"]);
    const found = findPrograms("postgres", programFolders(`/none${delimiter}${root}/chosen`, root));
    assert.equal("programs" in found && found.programs["postgres"], `${root}/chosen/postgres`);
  });

  test("a program that is missing, or not executable, is named", () => {
    const folders = programFolders("", machineWith(debian.slice(2, 3)));
    assert.deepEqual(findPrograms("postgres", folders), { absent: "postgres" });
    const locked = programFolders("", machineWith(debian, 0o644));
    assert.deepEqual(findPrograms("postgres", locked), { absent: "initdb" });
  });
});

suite("a server named in the environment", () => {
  const env = { HOLDFAST_TEST_POSTGRES_URL: "postgres://db/x", HOLDFAST_TEST_REDIS_URL: "" };

  test("needs no program, unless tests start one of their own", () => {
    const shared = ["postgres", "redis"] as const;
    assert.deepEqual(needPrograms({ shared, own: [] }, env), ["redis"]);
    assert.deepEqual(needPrograms({ shared, own: ["postgres"] }, env), ["redis", "postgres"]);
  });

  test("is not used when the name is empty", () => {
    assert.equal(named(env, "postgres"), "postgres://db/x");
    assert.equal(named(env, "redis"), null);
    assert.equal(named(env, "mysql"), null);
  });

  test("is checked before the tests start", async () => {
    const listener = createServer().listen(0, "127.0.0.1");
    await once(listener, "listening");
    const url = `redis://127.0.0.1:${(listener.address() as AddressInfo).port}`;
    assert.equal(await whyNoAnswer("redis", url), null);
    await new Promise((closed) => listener.close(closed));
    assert.match((await whyNoAnswer("redis", url)) ?? "", /no server answers.*TEST_REDIS_URL/);
    assert.match((await whyNoAnswer("redis", "localhost")) ?? "", /TEST_REDIS_URL is not a URL/);
  });

  test("gets scratch databases, whose names cannot be anything else in a statement", async () => {
    assert.equal(withDatabase("mysql://a:b@h:1/x?y=z", "n"), "mysql://a:b@h:1/n?y=z");
    for (const kind of ["postgres", "mysql"] as const) {
      await assert.rejects(createDatabase(kind, "postgres://none/", "x; drop"), /'x; drop'/);
    }
  });
});

suite("a server that is not installed", () => {
  const packages = ["redis-server", "pgbouncer"];

  test("is installed by root on Debian only; other users learn why not, and what to do", () => {
    assert.equal(whyNoInstall({ debian: true, root: true }, packages), null);
    assert.match(
      whyNoInstall({ debian: true, root: false }, packages) ?? "",
      /sudo apt-get install redis-server pgbouncer/,
    );
    assert.match(whyNoInstall({ debian: false, root: true }, packages) ?? "", /only on Debian/);
  });

  test("comes in one call, and the lists of packages are fetched only if that is needed", () => {
    const install = "install --no-install-recommends redis-server pgbouncer";
    const [first, late] = [installScript(packages, "first"), installScript(packages, "on failure")];
    assert.equal(first.split(install).length, 2);
    assert.ok(first.indexOf(" update") < first.indexOf(install));
    assert.ok(late.indexOf(install) < late.indexOf(" update"));
    for (const script of [first, late]) {
      const { stderr } = spawnSync("/bin/sh", ["-n", "-c", script], { encoding: "utf8" });
      assert.equal(stderr, "");
    }
  });

  test("has a package for every program", () => {
    for (const { packages: each } of Object.values(KNOWN)) assert.ok(each.length > 0);
  });
});

suite("an unavailable server", () => {
  const gaps = [{ need: "mysql", reason: "mariadbd is not installed: no" }] as const;

  test("is reported with its reason", () => {
    assert.match(notTested(gaps), /NOT TESTED.*MariaDB[^]*mariadbd is not installed: no/);
  });

  test("fails on a CI machine, and nowhere else", () => {
    assert.ok(inCi({ CI: "true" }));
    assert.throws(() => refuseGaps(gaps, { CI: "true" }), /CI=true/);
    refuseGaps([], { CI: "true" });
    refuseGaps(gaps, {});
    refuseGaps(gaps, { CI: "false" });
  });

  test("is skipped by a test with the reason, and fails it on a build machine", () => {
    const before = { ...process.env };
    try {
      const { variable, missingVariable } = KNOWN.mysql;
      Object.assign(process.env, { CI: "", [variable]: "", [missingVariable]: "no such thing" });
      assert.equal(missing("mysql"), "MariaDB is missing: no such thing");
      assert.throws(() => urlOf("mysql"), /no such thing/);
      process.env["CI"] = "true";
      assert.throws(() => missing("mysql"), /CI=true[^]*no such thing/);
      process.env[variable] = "mysql://somewhere";
      assert.equal(missing("mysql"), false);
      assert.equal(urlOf("mysql"), "mysql://somewhere");
    } finally {
      process.env = before;
    }
  });
});

suite("servers are started", () => {
  const files = ["a.test.ts"];

  test("for the groups that need them, and only if those have tests", () => {
    assert.deepEqual(demandOf([{ group: "unit", files }]), { shared: [], own: [] });
    assert.deepEqual(demandOf([{ group: "verify", files: [] }]), { shared: [], own: [] });
    assert.deepEqual(demandOf([{ group: "isolation", files }]).shared, [
      "postgres",
      "isolationtester",
    ]);
    assert.ok(demandOf([{ group: "http", files }]).shared.includes("promtool"));
    assert.deepEqual(demandOf([{ group: "races", files }]), { shared: SERVERS, own: [] });
    assert.deepEqual(demandOf([{ group: "verify", files }]), { shared: SERVERS, own: SERVERS });
  });

  test("as an account that is not root", () => {
    const passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/none:/no\n";
    assert.deepEqual(accountIn(passwd, "nobody"), { uid: 65_534, gid: 65_533 });
    assert.equal(accountIn(passwd, "somebody"), null);
  });

  test("and are ready when they say so, not before", () => {
    const said = [
      {
        ready: postgres.ready,
        before: "LOG:  starting PostgreSQL 15.18 (Debian)\n",
        after: "LOG:  database system is ready to accept connections\n",
        version: "15.18",
      },
      {
        ready: mariadb.ready,
        before: "[Note] mariadbd: ready for connections.\n",
        after: "Version: '10.11.19-MariaDB-0'  socket",
        version: "10.11.19",
      },
      {
        ready: redis.ready,
        before: "# Redis version=7.0.15, bits=64\n",
        after: "* Ready to accept connections\n",
        version: "7.0.15",
      },
      {
        ready: pgbouncer.ready,
        before: "LOG listening on 127.0.0.1:6432\n",
        after: "LOG process up: PgBouncer 1.18.0, libevent",
        version: "1.18.0",
      },
    ];
    for (const { ready, before, after: last, version } of said) {
      assert.equal(ready.exec(before), null);
      assert.equal(ready.exec(before + last)?.groups?.["version"], version);
    }
  });
});
