import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import {
  envExample,
  ENV_EXAMPLE,
  GUIDE,
  guideWith,
  settingsTables,
} from "../../scripts/settings.ts";
import { loadConfig, resolveConfig, settingsOf } from "../../src/config/resolve.ts";
import {
  type Config,
  defineConfig,
  keys,
  settingOf,
  settingsTable,
} from "../../src/app/settings.ts";
import { ConfigInvalidError } from "../../src/config/kind.ts";
import { suggest } from "../../src/core/text.ts";
import type { Sources } from "../../src/config/sources.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import { defineTask } from "../../src/core/task.ts";
import { Webhooks } from "../../src/alerts/webhook.ts";
import { checkWorkerOptions } from "../../src/worker/options.ts";

function resolved(given: Partial<Sources>): Config {
  return resolveConfig(settingsTable, { flags: {}, env: {}, envFile: {}, file: null, ...given });
}

function inFile(values: unknown): Partial<Sources> {
  return { file: { name: "holdfast.config.ts", folder: "/srv/app", values } };
}

function namesOf({ problems }: Config): string[] {
  return problems.map(({ name }) => name);
}

suite("where settings come from", () => {
  test("flags count more than the environment, that more than .env, that more than the file", () => {
    const sources = {
      flags: { concurrency: "1" },
      env: { MAX_CONCURRENT_JOBS: "2", POLL_INTERVAL_MS: "2s" },
      envFile: { MAX_CONCURRENT_JOBS: "3", POLL_INTERVAL_MS: "3s", HOLDFAST_LEASE: "3s" },
      ...inFile({ concurrency: 4, poll: "4s", lease: "4s", grace: 4_000 }),
    };
    const { settings, origins } = resolved(sources);
    const { concurrency, poll, lease, grace, maxCrashes } = settings;
    assert.deepEqual([concurrency, poll, lease, grace, maxCrashes], [1, 2_000, 3_000, 4_000, 3]);
    assert.deepEqual(
      [origins.concurrency, origins.poll, origins.lease, origins.grace, origins.maxCrashes].map(
        ({ source, name }) => [source, name],
      ),
      [
        ["command line", "--concurrency"],
        ["environment", "POLL_INTERVAL_MS"],
        [".env", "HOLDFAST_LEASE"],
        ["holdfast.config.ts", "grace"],
        [null, null],
      ],
    );
    assert.equal(origins.concurrency.unused.length, 3);
  });

  test("of several names the first counts, and the others are not checked", () => {
    const config = resolved({ env: { PORT: "none", HOLDFAST_PORT: "9000" } });
    assert.deepEqual([config.settings.port, config.problems], [9_000, []]);
    assert.deepEqual(config.origins.port.unused, [{ name: "PORT", source: "environment" }]);
  });

  test("an empty variable counts as not set", () => {
    const { settings, problems } = resolved({
      env: { HOLDFAST_URL: "", MAX_CONCURRENT_JOBS: " " },
    });
    assert.deepEqual(
      [settings.url, settings.concurrency, problems],
      ["sqlite:holdfast.db", null, []],
    );
  });

  test("a path in the file is relative to the file", () => {
    assert.equal(resolved(inFile({ tasks: "./tasks.ts" })).settings.tasks, "/srv/app/tasks.ts");
    assert.equal(resolved({ env: { HOLDFAST_TASKS: "tasks.ts" } }).settings.tasks, "tasks.ts");
  });
});

suite("the selected database", () => {
  const parts = {
    MYSQL_DB_HOST: "db",
    MYSQL_DB_USER: "a@b",
    MYSQL_DB_PASSWORD: "p/w:#",
    MYSQL_DB_NAME: "shop",
  };

  test("a MySQL in parts makes a URL", () => {
    const { settings, problems } = resolved({ env: parts });
    assert.deepEqual(problems, []);
    assert.equal(settings.url, "mysql://a%40b:p%2Fw%3A%23@db:3306/shop");
    const other = resolved({ env: { ...parts, MYSQL_DB_PORT: "3307", MYSQL_DB_PASSWORD: "" } });
    assert.equal(other.settings.url, "mysql://a%40b:@db:3307/shop");
  });

  test("all parts or none; and beside a URL in the same place they are refused", () => {
    assert.deepEqual(namesOf(resolved({ env: { MYSQL_DB_USER: "a", MYSQL_DB_NAME: "b" } })), [
      "MYSQL_DB_HOST",
      "MYSQL_DB_PASSWORD",
    ]);
    for (const name of ["HOLDFAST_URL", "DATABASE_URL"]) {
      const both = resolved({ env: { ...parts, [name]: "sqlite:a.db" } });
      assert.match(
        new ConfigInvalidError(both.problems).message,
        new RegExp(`MYSQL_DB_HOST.*${name}`),
      );
    }
  });

  test("the place that counts more decides between a URL and parts", () => {
    const flags = resolved({ flags: { url: "sqlite:a.db" }, env: parts });
    assert.deepEqual([flags.settings.url, flags.problems], ["sqlite:a.db", []]);
    const env = resolved({ env: parts, envFile: { HOLDFAST_URL: "sqlite:a.db" } });
    assert.match(env.settings.url, /^mysql:/);
  });

  test("in production it has to be named", () => {
    const config = resolved({ env: { NODE_ENV: "production" } });
    assert.deepEqual(namesOf(config), ["HOLDFAST_URL"]);
    assert.throws(() => settingsOf(config), /required when NODE_ENV=production/);
    assert.deepEqual(resolved({ env: { NODE_ENV: "production", ...parts } }).problems, []);
  });
});

suite("an error", () => {
  test("settings that do not fit together are refused, unless one of them is wrong anyway", () => {
    const late = resolved({
      env: { HOLDFAST_HEARTBEAT: "20s", HOLDFAST_HEARTBEAT_TIMEOUT: "30s" },
    });
    assert.match(
      new ConfigInvalidError(late.problems).message,
      /^HOLDFAST_HEARTBEAT_TIMEOUT .*at least 40s/,
    );
    assert.deepEqual(
      namesOf(resolved({ env: { HOLDFAST_HEARTBEAT: "x", HOLDFAST_HEARTBEAT_TIMEOUT: "5s" } })),
      ["HOLDFAST_HEARTBEAT"],
    );
    assert.deepEqual(namesOf(resolved({ env: { HOLDFAST_LOCKS: "redis" } })), ["HOLDFAST_LOCKS"]);
    assert.deepEqual(
      namesOf(resolved({ env: { HOLDFAST_CANARY_INTERVAL_MS: "60s", MONITOR_INTERVAL_MS: "0" } })),
      ["HOLDFAST_CANARY_INTERVAL_MS"],
    );
  });

  test("more webhooks than alerts are sent to are refused here, before anything starts", () => {
    const urls = (count: number): string =>
      Array.from({ length: count }, (_, at) => `https://example.org/${at}`).join(",");
    const most = resolved({ env: { HOLDFAST_WEBHOOK_URLS: urls(10) } });
    assert.deepEqual(most.problems, []);
    const webhooks = new Webhooks({ urls: most.settings.webhookUrls ?? [] }, systemRuntime);
    assert.equal(webhooks.targets.length, 10);
    assert.deepEqual(namesOf(resolved({ env: { HOLDFAST_WEBHOOK_URLS: urls(11) } })), [
      "HOLDFAST_WEBHOOK_URLS",
    ]);
  });

  test("an example token, or one of few different characters, is refused without being shown", () => {
    const wrong = ["change-me-to-48-random-characters", "a".repeat(48), "abcabcabcabcabcabc"];
    for (const token of [...wrong, `${"0123456789abcdef".repeat(32)}x`]) {
      const config = resolved({ env: { HOLDFAST_TOKEN: token } });
      assert.deepEqual(namesOf(config), ["HOLDFAST_TOKEN"], token);
      assert.ok(!new ConfigInvalidError(config.problems).message.includes(token));
    }
    for (const length of [16, 257, 512]) {
      const token = "8b1f0c2d9e".repeat(52).slice(1, length) + "Z";
      assert.deepEqual(resolved({ env: { HOLDFAST_TOKEN: token } }).problems, [], `${length}`);
    }
  });

  test("an unknown name is an error, with a suggestion", () => {
    const { problems } = resolved({ env: { HOLDFAST_CONCURENCY: "3", HOLDFAST_LEASES: "1s" } });
    const { message } = new ConfigInvalidError(problems);
    assert.match(message, /HOLDFAST_LEASES \(environment\).*Did you mean HOLDFAST_LEASE\?/);
    assert.match(message, /HOLDFAST_CONCURENCY/);
    assert.equal(suggest("zzzzzzzzzz", ["url", "port"]), null);
    assert.equal(suggest("x".repeat(100_000), ["url"]), null);
  });

  test("keys in the file that would change other objects are refused, and change nothing", () => {
    const evil = JSON.parse(
      '{"__proto__":{"port":1},"constructor":1,"retention":{"__proto__":{"done":1}}}',
    );
    const config = resolved(inFile(evil));
    assert.deepEqual(namesOf(config), ["__proto__", "constructor", "retention.__proto__"]);
    assert.equal(config.settings.port, 8_080);
    assert.equal(({} as { port?: number }).port, undefined);
    const inherited = Object.create({ port: 1 });
    assert.deepEqual(namesOf(resolved(inFile(inherited))), ["default"]);
    assert.equal(resolved(inFile(inherited)).settings.port, 8_080);
  });

  test("an unknown key in the file, even a nested one, and a value in place of an object", () => {
    const config = resolved(inFile({ concurency: 1, retention: { doen: "1d" }, webhooks: "x" }));
    assert.deepEqual(namesOf(config), ["concurency", "retention.doen", "webhooks"]);
  });

  test("errors on the command line alone are bad usage", () => {
    const flags = new ConfigInvalidError(resolved({ flags: { port: "x" } }).problems);
    assert.equal(flags.isUsage, true);
    assert.equal(
      flags.message,
      '--port is "x": must be a port from 0 to 65535 (0 picks a free one).',
    );
    const both = new ConfigInvalidError(
      resolved({ flags: { port: "x" }, env: { HOLDFAST_X: "" } }).problems,
    );
    assert.equal(both.isUsage, false);
  });
});

suite("files", () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-config-"));
  after(() => rmSync(folder, { recursive: true }));
  const load = (env = {}, flags = {}) => loadConfig(settingsTable, { folder, env, flags });

  test(".env and holdfast.config.mjs are read where the command is started", async () => {
    const text = `# a comment\nexport MAX_CONCURRENT_JOBS='3' # three\nHOLDFAST_WORKER_NAME="$HOME x"\nOTHER=1\n`;
    writeFileSync(join(folder, ".env"), text);
    writeFileSync(
      join(folder, "holdfast.config.mjs"),
      'export default { retention: { done: "3d" }, tasks: "./t.js", port: undefined };',
    );
    const config = await load();
    assert.deepEqual(config.problems, []);
    const { concurrency, name, retentionDone, tasks } = config.settings;
    assert.deepEqual([concurrency, name, retentionDone], [3, "$HOME x", 3 * 86_400_000]);
    assert.equal(tasks, join(folder, "t.js"));
  });

  test("a file that throws, exports nothing or is not there is a problem beside the others", async () => {
    writeFileSync(join(folder, "throws.mjs"), 'throw new Error("no postgres://u:hunter2@db");');
    writeFileSync(join(folder, "empty.mjs"), "export const config = {};");
    for (const [file, pattern] of [
      ["throws.mjs", /cannot be loaded\. Error: no postgres:\/\/u:\*\*\*@db/],
      ["empty.mjs", /export default defineConfig/],
      ["missing.mjs", /file not found/],
    ] as const) {
      const { problems } = await load({ HOLDFAST_CONFIG: file, HOLDFAST_LEASE: "x" });
      assert.deepEqual(
        problems.map(({ name }) => name),
        [file, "HOLDFAST_LEASE"],
      );
      assert.match(problems[0]!.problem, pattern);
    }
  });

  test("two files are one too many", async () => {
    writeFileSync(join(folder, "holdfast.config.js"), "export default {};");
    const { problems } = await load();
    assert.match(problems[0]!.problem, /holdfast\.config\.mjs also exists/);
  });
});

suite("one schema", () => {
  test("the limits are those of the worker", () => {
    const noop = defineTask({ name: "noop", async run() {} });
    const accepts = (options: object) => checkWorkerOptions({ tasks: [noop], ...options }, "v1");
    const asOption = {
      retentionDone: "done",
      retentionFailed: "failed",
      retentionCancelled: "cancelled",
    } as const;
    const numeric = [
      "concurrency",
      "poll",
      "lease",
      "maintenanceInterval",
      "grace",
      "maxCrashes",
      "slots",
      "shutdown",
    ];
    for (const key of numeric as (keyof typeof asOption)[]) {
      const { kind } = settingOf(key);
      for (const number of [0, 1, 9, 10, 99, 100, 1_000, 1_001, 86_400_000]) {
        if (kind.read(number) !== null) accepts({ [key]: number });
        else if ((key as string) !== "shutdown")
          assert.throws(() => accepts({ [key]: number }), `${key} ${number}`);
      }
    }
    for (const [key, status] of Object.entries(asOption)) {
      const { initial } = settingOf(key as keyof typeof asOption);
      assert.equal(accepts({}).retention[status], initial);
    }
    const { poll, lease } = resolved({}).settings;
    const { concurrency, pollMs, leaseMs } = accepts({});
    assert.deepEqual([concurrency, poll, lease], [10, pollMs, leaseMs]);
  });

  test("no name belongs to two settings", () => {
    for (const list of [
      keys.flatMap((key) => settingOf(key).env),
      keys.flatMap((key) => settingOf(key).file ?? []),
      keys.flatMap((key) => settingOf(key).flag ?? []),
    ]) {
      assert.equal(new Set(list).size, list.length);
    }
  });

  test("everything that defineConfig takes is known, and the other way round", () => {
    const all = defineConfig({
      url: "sqlite:a.db",
      schema: undefined,
      redis: "redis://r",
      locks: "redis",
      lockTtl: 15_000,
      lockWait: "1s",
      tasks: "./t.ts",
      queues: ["a"],
      concurrency: 1,
      name: "w",
      poll: "1s",
      shutdown: "1s",
      lease: "1s",
      maintenanceInterval: "1s",
      grace: "1s",
      maxCrashes: 1,
      runSuspectsAlone: true,
      slots: 1,
      standby: true,
      heartbeat: "1s",
      heartbeatTimeout: "3s",
      stoppingTimeout: "3s",
      retention: { done: "1d", failed: "1d", cancelled: "1d", expired: "1d" },
      redact: ["password"],
      host: "localhost",
      port: 1,
      basePath: "/jobs",
      token: "0123456789abcdef",
      monitor: "10s",
      canary: "10s",
      webhooks: { urls: ["https://a.test"], secret: "0123456789abcdef", private: true },
      logLevel: "warn",
      processes: 2,
    });
    assert.deepEqual(resolved(inFile(all)).problems, []);
    const named = Object.entries(all).flatMap(([key, value]) =>
      typeof value === "object" && !Array.isArray(value)
        ? Object.keys(value).map((part) => `${key}.${part}`)
        : [key],
    );
    const known = keys.flatMap((key) => settingOf(key).file ?? []);
    assert.deepEqual(named.toSorted(), known.toSorted());
  });

  test(".env.example and the guide say what the schema says (node scripts/settings.ts writes them)", () => {
    assert.equal(readFileSync(ENV_EXAMPLE, "utf8"), envExample());
    const guide = readFileSync(GUIDE, "utf8");
    assert.equal(guide, guideWith(settingsTables(), guide));
    for (const key of keys)
      for (const name of settingOf(key).env) assert.ok(guide.includes(`\`${name}\``), name);
  });

  test("a copy of .env.example changes nothing, and neither do the defaults it names", async () => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-example-"));
    try {
      const example = readFileSync(ENV_EXAMPLE, "utf8");
      const spelt = example.replaceAll(/^# ((?!MYSQL_)[A-Z_]+=.+)$/gm, "$1");
      assert.notEqual(spelt, example);
      for (const text of [example, spelt]) {
        writeFileSync(join(folder, ".env"), text);
        const { settings, problems } = await loadConfig(settingsTable, { folder, env: {} });
        assert.deepEqual([settings, problems], [resolved({}).settings, []]);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
