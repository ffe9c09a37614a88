import assert from "node:assert/strict";
import { afterEach, suite, test } from "node:test";
import { redactedText, forgetSecrets, keepSecret, redacted } from "../../src/config/secrets.ts";
import { databaseUrl, redisUrl } from "../../src/config/kind.ts";

const PEM = [
  "-----BEGIN RSA PRIVATE KEY-----",
  "MIIEowIBAAKCAQEAx0",
  "-----END RSA PRIVATE KEY-----",
].join("\n");
const JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N";

suite("secrets in a text", () => {
  for (const [text, shown] of [
    ["postgres://app:p%40ss@db:5432/x failed", "postgres://app:***@db:5432/x failed"],
    ["redis://:pw@r", "redis://:***@r"],
    ["mysql://u:p@ss/w:rd@db/x", "mysql://u:***@db/x"],
    ["http://localhost:8080/health", "http://localhost:8080/health"],
    // The drivers take these as they are.
    [`postgres://u:S3c"r3t@h/db`, "postgres://u:***@h/db"],
    ["postgres://u:S3c'r3t@h/db", "postgres://u:***@h/db"],
    ["postgres://u:S3c\\r3t@h/db", "postgres://u:***@h/db"],
    ["postgres://u:S3c r3t@h/db", "postgres://u:***@h/db"],
    ["http://a.test:80 is away, ask ops@b.test", "http://a.test:80 is away, ask ops@b.test"],
    ["http://a.test: 500, ask ops@b.test", "http://a.test: 500, ask ops@b.test"],
    ["GET https://a.test/x?token=abc&page=2", "GET https://a.test/x?token=***&page=2"],
    ["Authorization: Bearer abcdefgh.ijk", "Authorization: Bearer ***"],
    [`{ password: 'a b', user: "x" }`, `{ password: ***, user: "x" }`],
    ["api_key=abc, page=2", "api_key=***, page=2"],
    ["AWS_SECRET_ACCESS_KEY=wJalr/K7+x page 2", "AWS_SECRET_ACCESS_KEY=*** page 2"],
    ["aws_access_key_id=AKIA, region=eu", "aws_access_key_id=AKIA, region=eu"],
    [
      "POST https://hooks.slack.com/services/T0/B0/x1Y failed",
      "POST https://hooks.slack.com/*** failed",
    ],
    ["at discord.com/api/webhooks/12/ab-C_d: 404", "at discord.com/api/webhooks/***: 404"],
    ["password: hunter2", "password: ***"],
    ["Unexpected token: <", "Unexpected token: <"],
    ["MYSQL_DB_PASSWORD: is not set.", "MYSQL_DB_PASSWORD: is not set."],
    ["MYSQL_DB_PASSWORD: not set.", "MYSQL_DB_PASSWORD: not set."],
    ["password: must not be empty", "password: must not be empty"],
    ["a hft_V3cuYmFzZTY0dXJsLXRva2Vu-x_1 b", "a *** b"],
    [`cookie ${JWT}; path=/`, "cookie ***; path=/"],
    [`key ${PEM} end`, "key *** end"],
    [`cut ${PEM.slice(0, 50)}`, "cut ***"],
    ["-----BEGIN CERTIFICATE-----\nMII", "-----BEGIN CERTIFICATE-----\nMII"],
  ] as const) {
    test(JSON.stringify(text.slice(0, 60)), () => assert.equal(redacted(text), shown));
  }

  test("a text is redacted before it is truncated, wherever the cut falls", () => {
    const secret = "postgres://app:SuperSecretPassword123@db";
    for (let at = 8_100; at < 8_200; at += 1) {
      const text = redactedText(`${"x".repeat(at)} ${secret}`);
      assert.doesNotMatch(text, /Super/, `at ${at}`);
      assert.ok(text.length <= 8_300);
    }
  });

  test("a redacted part makes no room for half a secret further on", () => {
    for (let filler = 0; filler < 200; filler += 1) {
      const pem = PEM.replace("MIIE", "M".repeat(16_300 - filler));
      assert.doesNotMatch(redactedText(`${pem} postgres://app:SuperSecretPassword@db`), /Super/);
    }
  });
});

suite("secrets that are known", () => {
  afterEach(forgetSecrets);

  test("are redacted wherever they occur, whatever surrounds them", () => {
    keepSecret("correct horse battery");
    keepSecret("ab");
    assert.equal(
      redacted("login with correct horse battery failed: ab"),
      "login with *** failed: ab",
    );
  });
});

suite("a URL that is printed", () => {
  for (const character of [`"`, "'", "\\", " ", "%", "@", ":", "|", "ä"]) {
    test(`shows no password with ${JSON.stringify(character)}`, () => {
      for (const kind of [databaseUrl(), redisUrl()]) {
        const scheme = kind.allowed.includes("redis") ? "redis" : "postgres";
        const url = `${scheme}://app:S3c${character}r3tPw@h:5432/db?sslmode=require`;
        const read = kind.read(url);
        assert.equal(read, url);
        assert.equal(kind.print(url), `${scheme}://app:***@h:5432/db?sslmode=require`);
      }
    });
  }

  test("hides a password that ends up in another part", () => {
    const { print } = databaseUrl();
    for (const url of [
      "postgres://u:12/Secret@h/db",
      "postgres://u:12?Secret@h/db",
      "postgres://u:12#Secret@h/db",
    ]) {
      assert.doesNotMatch(print(url), /Secret/, url);
    }
    assert.equal(print("mysql://h/db?password=Secret&x=1"), "mysql://h/db?password=***&x=1");
    assert.equal(print("sqlite:/var/lib/shop.db"), "sqlite:/var/lib/shop.db");
  });
});

/** What the patterns look for, in pieces: repeated, they make each of them begin and fail as often as can be. */
const PIECES = [
  ...Array.from("a.:/@-=_?&;\"'\\ \n{["),
  "://",
  "a://u:",
  "eyJ",
  "eyJaaaaaa.",
  "hft_",
  "-----BEGIN ",
  "-----BEGIN PRIVATE KEY-----",
  "password",
  "password:",
  "bearer ",
  "token=",
  "1234",
];

const SIZE = 8_192;

/** A busy machine may charge a thread one tick of another, and a short measurement then reads 10 ms, or nothing. */
const TICKS_MS = 20;

/** Of this thread's own time, which does not depend on how busy the machine is; its clock is coarse. */
function milliseconds(text: string, times: number): number {
  const before = process.threadCpuUsage();
  for (let turn = 0; turn < times; turn += 1) redacted(text);
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

function filled(piece: string, length: number): string {
  return piece.repeat(Math.ceil(length / piece.length)).slice(0, length);
}

suite("the cost of redaction", () => {
  /** The same amount of text in four pieces or in one: a quadratic cost would be four times as much in one. */
  test("grows with the text, and not with its square, whatever the text is made of", () => {
    const pairs = PIECES.flatMap((one) => PIECES.map((other) => one + other));
    for (const piece of pairs) {
      const [small, large] = [filled(piece, SIZE), filled(piece, 4 * SIZE)];
      const ms = milliseconds(large, 1);
      if (ms < 10) continue; // linear: it would be hundreds of milliseconds
      const [apart, whole] = [milliseconds(small, 40), milliseconds(large, 10)];
      const bound = apart * 2.5 + TICKS_MS;
      assert.ok(whole < bound, `${JSON.stringify(piece)}: ${apart} ms, and ${whole} ms`);
    }
  });

  test("of dots and letters is that of other texts", () => {
    const [words, dots] = [
      milliseconds(filled("b ", SIZE), 50),
      milliseconds(filled("a.", SIZE), 50),
    ];
    assert.ok(dots < words * 8 + 50, `${words} ms, and ${dots} ms`);
  });
});
