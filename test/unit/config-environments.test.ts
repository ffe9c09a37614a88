/** Two thousand environments, right and wrong: the message names every wrong value, none that is right, and no secret. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import * as fc from "fast-check";
import { resolveConfig } from "../../src/config/resolve.ts";
import { ConfigInvalidError } from "../../src/config/kind.ts";
import { keys, schema, settingOf, settingsTable, type Key } from "../../src/app/settings.ts";
import { runSeed, sized } from "../support/scale.ts";

const RUNS = sized(400, 2_000);
/** Stands in every secret that is given, right or wrong. */
const SECRET = "hunter2";

interface Samples {
  readonly right: readonly string[];
  readonly wrong: readonly string[];
}

const numbers = (right: string[], ...beyond: string[]): Samples => ({
  right,
  wrong: ["ten", "1.5", "-1", "1e3", "0x10", ...beyond],
});
const spans = (right: string[], ...beyond: string[]): Samples => ({
  right,
  wrong: ["soon", "-5s", "1.5", "10 parsecs", "1s 1h", ...beyond],
});
const words: Samples = { right: ["mail", "a.b", "Ünder"], wrong: ["a\u0007b", "x".repeat(200)] };
const paths: Samples = { right: ["./tasks.ts", "/srv/tasks.js"], wrong: ["a\u0000b"] };
const answers: Samples = { right: ["1", "no", "TRUE", " off "], wrong: ["maybe", "2", "jein"] };
const secrets: Samples = {
  right: [`${SECRET}-0123456789abcdef`],
  wrong: [SECRET, `${SECRET} with blanks in it`, `${SECRET}äöü0123456789`],
};

const samples: Readonly<Record<Key, Samples>> = {
  url: {
    right: [
      "sqlite:a.db",
      "sqlite::memory:",
      `postgres://u:${SECRET}@db/x`,
      `mysql://u:${SECRET}@db/x`,
    ],
    wrong: [
      `mongodb://u:${SECRET}@db/x`,
      `u:${SECRET}@db`,
      `postgres:u:${SECRET}@db`,
      `postgres://u:${SECRET}/@[/x`,
    ],
  },
  basePath: { right: ["/admin/jobs", "/jobs/"], wrong: ["admin", "//a", "/a b", "/a/../b"] },
  mysqlHost: { right: ["db", "10.0.0.7", "::1"], wrong: ["a b", "db/x", "u@db"] },
  mysqlPort: numbers(["3306", "1"], "0", "65536"),
  mysqlUser: { right: ["app", "a@b"], wrong: ["a\u001Bb"] },
  mysqlPassword: { right: [`${SECRET}/@:#?`, ""], wrong: [`${SECRET}${"x".repeat(600)}`] },
  mysqlName: { right: ["shop"], wrong: ["x".repeat(65)] },
  schema: { right: ["jobs", "holdfast_2"], wrong: ["Jobs", "2jobs", "pg_jobs", "a-b"] },
  redis: {
    right: [`redis://:${SECRET}@r:6379`, "rediss://r"],
    wrong: [`http://u:${SECRET}@r`, `r:${SECRET}`],
  },
  locks: { right: ["sql", "OFF"], wrong: ["on", "mysql"] },
  lockTtl: spans(["15s", "100"], "99", "25h"),
  lockWait: spans(["0", "10s"]),
  tasks: paths,
  queues: { right: ["a", "a, b,c"], wrong: ["a,,b", "a,\u0007", ",", "q,".repeat(70)] },
  concurrency: numbers(["1", "1000", " 7 "], "0", "1001"),
  name: words,
  poll: spans(["10", "1m", "1h30m"], "9"),
  shutdown: spans(["0", "30s"], "2d"),
  lease: spans(["100ms", "30s"], "99"),
  maintenanceInterval: spans(["1s"], "1"),
  grace: spans(["0", "2s"]),
  maxCrashes: numbers(["1", "3"], "0", "1001"),
  runSuspectsAlone: answers,
  slots: numbers(["1", "1000"], "0", "1001"),
  standby: answers,
  heartbeat: spans(["10", "10s"], "9"),
  heartbeatTimeout: spans(["20s", "1m"], "9"),
  stoppingTimeout: spans(["20s", "1m"], "9"),
  retentionDone: spans(["7d", "0"]),
  retentionFailed: spans(["30d"], "40000d"),
  retentionCancelled: spans(["1h"]),
  retentionExpired: spans(["1h"]),
  host: { right: ["0.0.0.0", "::", "localhost"], wrong: ["http://localhost", "a b"] },
  port: numbers(["0", "8080", "65535"], "65536"),
  token: secrets,
  monitor: spans(["0", "30s"], "999", "2d"),
  canary: spans(["0"], "999", "2d"),
  webhookUrls: {
    right: [`https://hooks.test/${SECRET}`, `http://a/${SECRET}, https://b/${SECRET}`],
    wrong: [`ftp://a/${SECRET}`, `https://a/${SECRET},b/${SECRET}`, `//a/${SECRET}`],
  },
  redact: { right: ["password", "card.number, customers.*.email"], wrong: ["a..b", "*", ".a"] },
  webhookSecret: secrets,
  webhookPrivate: answers,
  logLevel: { right: ["debug", "WARN", "silent"], wrong: ["loud", "3"] },
  processes: numbers(["1", "64"], "0", "65"),
  nodeEnv: { right: ["production", "development", "test"], wrong: ["a\u0000"] },
  debug: answers,
  config: paths,
};

const PARTS: readonly Key[] = ["mysqlHost", "mysqlPort", "mysqlUser", "mysqlPassword", "mysqlName"];

interface Given {
  readonly key: Key;
  readonly name: string;
  readonly text: string;
  readonly wrong: boolean;
  readonly inFile: boolean;
  /** What a name of the same setting says that counts less. */
  readonly hidden: { readonly name: string; readonly text: string } | null;
}

function givenFor(key: Key): fc.Arbitrary<Given> {
  const { right, wrong } = samples[key];
  const { env } = settingOf(key);
  return fc
    .record({
      wrong: fc.boolean(),
      right: fc.constantFrom(...right),
      bad: fc.constantFrom(...wrong),
      which: fc.nat({ max: env.length - 1 }),
      inFile: fc.boolean(),
      hidden: fc.boolean(),
    })
    .map((drawn) => {
      const later = env[drawn.which + 1];
      return {
        key,
        name: env[drawn.which]!,
        text: drawn.wrong ? drawn.bad : drawn.right,
        wrong: drawn.wrong,
        inFile: drawn.inFile,
        hidden: drawn.hidden && later !== undefined ? { name: later, text: drawn.bad } : null,
      };
    });
}

const strangers = ["HOLDFAST_URLL", "HOLDFAST_LEASE_S", "HOLDFAST_X", "HOLDFAST___PROTO__"];

const environments = fc
  .record({
    chosen: fc.subarray(keys.filter((key) => !PARTS.includes(key))),
    mysql: fc.constantFrom<"none" | "all" | "some">("none", "none", "all", "some"),
    strange: fc.subarray(strangers, { maxLength: 2 }),
  })
  .chain(({ chosen, mysql, strange }) => {
    const parts = mysql === "none" ? [] : mysql === "all" ? PARTS : PARTS.slice(0, 3);
    const all = [...chosen.filter((key) => mysql === "none" || key !== "url"), ...parts];
    return fc.record({
      given: fc.tuple(...all.map((key) => givenFor(key))),
      strange: fc.constant(strange),
    });
  });

/** By its own rules, which know nothing of the product's. */
function expected(given: readonly Given[], strange: readonly string[]): Set<string> {
  const of = (key: Key) => given.find((each) => each.key === key);
  const isRight = (key: Key) => of(key)?.wrong === false;
  const isFree = (key: Key) => of(key)?.wrong !== true;
  const names = new Set([
    ...given.filter(({ wrong }) => wrong).map(({ name }) => name),
    ...strange,
  ]);
  const parts = PARTS.filter((key) => of(key) !== undefined);
  if (parts.length === 3) names.add("MYSQL_DB_PASSWORD").add("MYSQL_DB_NAME");
  const production = of("nodeEnv")?.text === "production" && isRight("nodeEnv");
  if (production && of("url") === undefined && parts.length === 0) names.add("HOLDFAST_URL");
  const postgres = of("url")?.text.startsWith("postgres:") === true;
  if (isRight("schema") && isFree("url") && !postgres) names.add("HOLDFAST_SCHEMA");
  return names;
}

suite("the configuration", () => {
  test("of environments by chance, the message names every wrong value, no right one and no secret", () => {
    const met = { right: 0, wrong: 0, most: 0 };
    fc.assert(
      fc.property(environments, ({ given, strange }) => {
        const env: Record<string, string> = {};
        const envFile: Record<string, string> = {};
        for (const { name, text, inFile, hidden } of given) {
          (inFile ? envFile : env)[name] = text;
          if (hidden !== null) envFile[hidden.name] = hidden.text;
        }
        for (const name of strange) env[name] = SECRET;
        const config = resolveConfig(settingsTable, { flags: {}, env, envFile, file: null });
        const wanted = expected(given, strange);
        const named = new Set(config.problems.map(({ name }) => name));
        assert.deepEqual([...named].toSorted(), [...wanted].toSorted());
        const { message } = new ConfigInvalidError(config.problems);
        for (const name of wanted) assert.ok(message.includes(name), `${name} is named`);
        assert.ok(!message.includes(SECRET), message);
        // oxlint-disable-next-line no-control-regex -- that is what is looked for
        assert.doesNotMatch(message, /[\u0000-\u0009\u000B-\u001F\u007F-\u009F]/);
        met[wanted.size === 0 ? "right" : "wrong"] += 1;
        met.most = Math.max(met.most, wanted.size);
      }),
      { numRuns: RUNS, seed: runSeed },
    );
    // About one in sixty has no mistake: a sample may have met none.
    const enough = [met.right >= Math.floor(RUNS / 500), met.wrong > RUNS / 4, met.most > 10];
    assert.ok(!enough.includes(false), JSON.stringify(met));
  });

  test("every sample that is called right is read, and every other refused", () => {
    for (const key of keys) {
      const { kind } = settingOf(key);
      for (const text of samples[key].right)
        assert.notEqual(kind.read(text), null, `${key} ${text}`);
      for (const text of samples[key].wrong) assert.equal(kind.read(text), null, `${key} ${text}`);
    }
  });

  test("what is read is written so that it is read again as the same", () => {
    for (const key of keys) {
      const { kind } = settingOf(key);
      for (const text of samples[key].right) {
        const value = kind.read(text);
        assert.deepEqual(kind.read(kind.text(value)), value, key);
      }
    }
  });

  test("every default is a value that could be given", () => {
    for (const key of keys) {
      const { initial, kind } = settingOf(key);
      if (initial !== null) assert.deepEqual(kind.read(kind.text(initial)), initial, key);
    }
    assert.equal(schema.url.initial, "sqlite:holdfast.db");
  });
});
