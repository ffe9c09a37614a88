/** The grants of deploy/grants, and what a user of each role can do with Holdfast, on a real server as that user. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { dashboardHandler } from "../../src/app/dashboard.ts";
import { openHoldfast } from "../../src/app/holdfast.ts";
import { defineTask } from "../../src/core/task.ts";
import { adminOf } from "../servers/engines.ts";
import { missing, type ScratchDatabase, scratchDatabase } from "../support/servers.ts";

const FOLDER = join(import.meta.dirname, "../../deploy/grants");
const ROLES = ["reader", "enqueuer", "service"] as const;
const PASSWORD = "known-to-tests-only";

type Role = (typeof ROLES)[number];
type Kind = "postgres" | "mysql";

/** Whatever the server says when a user may not do something. */
const DENIED = /permission denied|must be owner|denied to user|command denied|not allowed/i;

interface Granted extends AsyncDisposable {
  /** As a user of this role. */
  urlOf(role: Role): string;
  readonly ownerUrl: string;
}

/** Names are the server's, not the database's: each test has its own. */
async function grant(kind: Kind, database: ScratchDatabase): Promise<Granted> {
  const suffix = randomBytes(4).toString("hex");
  const own = (role: Role): string => `holdfast_${role}_${suffix}`;
  const user = (role: Role): string => `u_${own(role)}`;
  const name = new URL(database.url).pathname.slice(1);
  let script = readFileSync(join(FOLDER, `${kind}.sql`), "utf8");
  for (const role of ROLES) script = script.replaceAll(`holdfast_${role}`, own(role));
  await using admin = await adminOf(database.url);
  if (kind === "postgres") {
    await admin.rows(script);
    for (const role of ROLES) {
      await admin.rows(`create role ${user(role)} login password '${PASSWORD}'`);
      await admin.rows(`grant ${own(role)} to ${user(role)}`);
    }
  } else {
    for (const role of ROLES) {
      await admin.rows(`create user '${own(role)}'@'%' identified by '${PASSWORD}'`);
    }
    const statements = script.replaceAll("`holdfast`.", `\`${name}\`.`).split(";");
    for (const statement of statements.map((one) => one.replaceAll(/^--.*$/gm, "").trim())) {
      if (statement !== "") await admin.rows(statement);
    }
  }
  return {
    ownerUrl: database.url,
    urlOf(role) {
      const url = new URL(database.url);
      url.username = kind === "postgres" ? user(role) : own(role);
      url.password = PASSWORD;
      return url.href;
    },
    async [Symbol.asyncDispose]() {
      await using again = await adminOf(database.url);
      for (const role of ROLES) {
        if (kind === "mysql") await again.rows(`drop user '${own(role)}'@'%'`);
        else {
          await again.rows(`drop role ${user(role)}`);
          await again.rows(`drop owned by ${own(role)}`);
          await again.rows(`drop role ${own(role)}`);
        }
      }
    },
  };
}

const echo = defineTask({ name: "echo", run: async (input: { n: number }) => input.n });

const TABLE = { postgres: "holdfast.", mysql: "holdfast_" };

async function assertDenied(url: string, statements: readonly string[]): Promise<void> {
  await using own = await adminOf(url);
  for (const statement of statements) {
    await assert.rejects(own.rows(statement), DENIED, statement);
  }
}

for (const kind of ["postgres", "mysql"] as const) {
  describe(`grants on ${kind}`, { timeout: 120_000, skip: missing(kind) }, () => {
    const table = (name: string): string => `${TABLE[kind]}${name}`;
    const ddl = [`create table ${table("mine")} (id int)`, `drop table ${table("job")}`];

    let database: ScratchDatabase;
    let granted: Granted;

    before(async () => {
      database = await scratchDatabase(kind);
      await (await openHoldfast(database.url)).close();
      granted = await grant(kind, database);
    });

    after(async () => {
      await granted?.[Symbol.asyncDispose]();
      await database?.drop();
    });

    test("the service runs jobs and changes no table", async () => {
      await using holdfast = await openHoldfast(granted.urlOf("service"));
      await using worker = await holdfast.startWorker({ tasks: [echo], signals: false });
      const done = new Promise((resolve) => void worker.on("job:done", resolve));
      await holdfast.enqueue(echo, { n: 1 }, { key: "k", tags: ["t"] });
      await done;
      await holdfast.queues.pause("mail", { actor: "test" });
      await assertDenied(granted.urlOf("service"), ddl);
    });

    test("the enqueuer enqueues, and neither claims nor changes", async () => {
      await using holdfast = await openHoldfast(granted.urlOf("enqueuer"), { migrate: false });
      const { id } = await holdfast.enqueue(echo, { n: 1 }, { key: "k-2", tags: ["t"] });
      const again = await holdfast.enqueue(echo, { n: 1 }, { key: "k-2", tags: ["t"] });
      assert.equal(again.id, id);
      await holdfast.enqueue(echo, { n: 2 }, { delay: "1h" });
      await holdfast.enqueueMany(echo, [{ n: 3 }, { n: 4 }]);
      assert.equal(
        (await holdfast.jobs.list({ task: "echo" })).length,
        5,
        "with that of the service",
      );
      await assert.rejects(holdfast.jobs.cancel(id, { actor: "test" }));
      await assertDenied(granted.urlOf("enqueuer"), [
        ...ddl,
        `delete from ${table("ready")}`,
        `update ${table("waiting")} set queue = 'x'`,
        `insert into ${table("token")} (id) values (null)`,
      ]);
    });

    test("the reader sees the dashboard, and writes nothing", async () => {
      await using owner = await openHoldfast(granted.ownerUrl);
      const { id } = await owner.enqueue(echo, { n: 1 });
      await using holdfast = await openHoldfast(granted.urlOf("reader"), { migrate: false });
      const principal = () => ({ name: "eve", role: "operator" }) as const;
      const dashboard = dashboardHandler({ holdfast, principal });
      const paths = ["overview", "jobs", "jobs?input=1", `jobs/${id}`, `jobs/${id}/story`];
      const more = ["queues", "workers", "errors", "schedules", "flows", "locks", "audit", "names"];
      for (const path of [...paths, ...more, "alerts"]) {
        const response = await dashboard(new Request(`http://app.example/api/v1/${path}`));
        assert.equal(response.status, 200, `${path}: ${await response.clone().text()}`);
      }
      const headers = { "content-type": "application/json" };
      const body = { method: "POST", headers, body: "{}" };
      const cancel = new Request(`http://app.example/api/v1/jobs/${id}/cancel`, body);
      assert.ok((await dashboard(cancel)).status >= 500);
      assert.equal((await owner.jobs.get(id))?.status, "pending");
      await dashboard.close();
      await assertDenied(granted.urlOf("reader"), [
        ...ddl,
        `delete from ${table("ready")}`,
        `insert into ${table("job")} (id) values (null)`,
      ]);
    });
  });
}
