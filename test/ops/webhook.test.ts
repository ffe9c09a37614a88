/** Webhooks: what is sent, to whom, and what is made of the answer. Real requests to a real server on this machine. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { after, suite, test } from "node:test";
import { assert as assertAlways, nat, property } from "fast-check";
import type { Alert } from "../../src/alerts/alert.ts";
import { InvalidArgumentError } from "../../src/core/errors.ts";
import { systemRuntime, type Runtime } from "../../src/core/runtime.ts";
import {
  BODY_BYTES_MAX,
  bodyOf,
  isPublic,
  signature,
  type WebhookAnswer,
  Webhooks,
} from "../../src/alerts/webhook.ts";
import { retryMs } from "../../src/alerts/delivery.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { testRuntime } from "../support/runtime.ts";
import { Hook } from "./alert-hook.ts";

const SECRET = "a secret of sixteen characters";
const HURRY = 50;
/** What a server may have written without a reader. */
const IN_BUFFERS_MAX = 16_000_000;

const patient = testRuntime();
/** For those who do not answer: waits are fifty times as short. */
const hurried: Runtime = {
  ...testRuntime(),
  timer: (ms, call, kind) => systemRuntime.timer(ms / HURRY, call, kind),
};

const alert: Alert = {
  id: "018f2c5e-9b3a-700c-91f2-4c7d9be03a58",
  rule: "no-worker",
  subject: "mail",
  severity: "critical",
  status: "raised",
  message: "Queue mail has 3 jobs pending but no live worker.",
  facts: { pending: 3 },
  sinceAt: 1_800_000_000_000,
  seenAt: 1_800_000_060_000,
  raisedAt: 1_800_000_060_000,
  resolvedAt: null,
  notifiedAt: 1_800_000_060_000,
  acknowledgedAt: null,
  acknowledgedBy: null,
  silencedUntil: null,
  silencedBy: null,
  note: null,
};

function send(
  options: ConstructorParameters<typeof Webhooks>[0],
  runtime: Runtime = patient,
): Promise<WebhookAnswer> {
  const webhooks = new Webhooks(options, runtime);
  const [target] = webhooks.targets;
  return webhooks.send(target!, { event: "raised", alert });
}

suite("a request", () => {
  test("contains the alert as JSON, with a text for people, signed, under the id of the delivery", async () => {
    await using hook = await Hook.open();
    const runtime = testRuntime();
    const answer = await send({ urls: [hook.url], secret: SECRET, allowPrivate: true }, runtime);
    assert.deepEqual(answer, {
      ok: true,
      status: 200,
      text: "this is 200",
      error: null,
      mayRetry: false,
    });
    const [{ path, headers, body }] = hook.got as [(typeof hook.got)[0]];
    assert.equal(path, "/T0/s3cret");
    assert.deepEqual(JSON.parse(body), {
      text: `[critical] no-worker (mail): ${alert.message}`,
      event: "raised",
      alert,
    });
    assert.equal(headers["content-type"], "application/json; charset=utf-8");
    assert.equal(headers["holdfast-delivery"], `${alert.id}.raised`);
    const time = Math.floor(runtime.now() / 1_000);
    const hash = createHmac("sha256", SECRET).update(`${time}.${body}`).digest("hex");
    assert.equal(headers["holdfast-signature"], `t=${time},v1=${hash}`);
  });

  test("without a secret there is no signature", async () => {
    await using hook = await Hook.open();
    await send({ urls: [hook.url], allowPrivate: true });
    assert.equal(hook.got[0]?.headers["holdfast-signature"], undefined);
  });

  test("user and password of a URL are sent in the Authorization header", async () => {
    await using hook = await Hook.open();
    await send({ urls: [hook.url.replace("//", "//ada:p%40ss@")], allowPrivate: true });
    const basic = Buffer.from("ada:p@ss").toString("base64");
    assert.equal(hook.got[0]?.headers.authorization, `Basic ${basic}`);
  });

  test("characters that chat services interpret are escaped in the text", () => {
    const { text } = JSON.parse(
      bodyOf({ event: "raised", alert: { ...alert, subject: "<!channel> & co" } }),
    );
    assert.match(text, /\(&lt;!channel&gt; &amp; co\)/);
    assert.doesNotMatch(text, /[<>]/);
  });

  test("a resolved alert says how long it lasted", () => {
    const resolved: Alert = { ...alert, status: "resolved", resolvedAt: alert.sinceAt + 90_000 };
    const { text } = JSON.parse(bodyOf({ event: "resolved", alert: resolved }));
    assert.match(text, /^\[resolved\] no-worker \(mail\) after 1m 30s: /);
  });

  test("a body is never larger than its limit", () => {
    const facts = Object.fromEntries(
      Array.from({ length: 100 }, (_, index) => [`fact ${index}`, "…".repeat(500)]),
    );
    const body = bodyOf({ event: "raised", alert: { ...alert, facts } });
    assert.ok(Buffer.byteLength(body) <= BODY_BYTES_MAX);
    assert.equal(JSON.parse(body).alert.message, alert.message);
  });

  test("the guide's example distinguishes a valid signature from invalid ones", async () => {
    const guide = readFileSync(new URL("../../docs/guide/alerts.md", import.meta.url), "utf8");
    const [, code = ""] = /```js\n(import [\s\S]*?)```/.exec(guide) ?? [];
    const module = await import(`data:text/javascript,${encodeURIComponent(code)}`);
    const body = bodyOf({ event: "raised", alert });
    const header = signature(SECRET, body, Date.now());
    const check = (...args: unknown[]): boolean => module.isFromHoldfast(...args);
    assert.equal(check(header, body, SECRET), true);
    assert.equal(check(header, `${body} `, SECRET), false);
    assert.equal(check(header, body, `${SECRET}!`), false);
    assert.equal(check(signature(SECRET, body, Date.now() - 600_000), body, SECRET), false);
    for (const wrong of [undefined, "", "t=1", "v1=00", header.slice(0, -1), `${header}é`]) {
      assert.equal(check(wrong, body, SECRET), false, wrong);
    }
  });
});

suite("how a response is interpreted", () => {
  for (const status of [200, 201, 204]) {
    test(`${status} counts as delivered`, async () => {
      await using hook = await Hook.open(status);
      const { ok, error } = await send({ urls: [hook.url], allowPrivate: true });
      assert.deepEqual([ok, error], [true, null]);
    });
  }

  for (const status of [408, 425, 429, 500, 502, 503, 599]) {
    test(`${status} is tried again later`, async () => {
      await using hook = await Hook.open(status);
      const answer = await send({ urls: [hook.url], allowPrivate: true });
      assert.deepEqual([answer.ok, answer.status, answer.mayRetry], [false, status, true]);
    });
  }

  for (const status of [400, 401, 404, 410, 422]) {
    test(`${status} is final`, async () => {
      await using hook = await Hook.open(status);
      const answer = await send({ urls: [hook.url], allowPrivate: true });
      assert.deepEqual([answer.ok, answer.status, answer.mayRetry], [false, status, false]);
    });
  }

  for (const status of [301, 302, 303, 307, 308]) {
    test(`a redirect (${status}) is not followed`, async () => {
      await using elsewhere = await Hook.open();
      await using hook = await Hook.open((response) =>
        response.writeHead(status, { location: elsewhere.url }).end(),
      );
      const answer = await send({ urls: [hook.url], allowPrivate: true });
      assert.deepEqual([answer.ok, answer.mayRetry], [false, false]);
      assert.match(answer.error ?? "", /redirects are not followed/);
      assert.deepEqual([hook.got.length, elsewhere.connections], [1, 0]);
    });
  }

  test("a server that does not respond is not waited for, and is tried again later", async () => {
    await using hook = await Hook.open(() => {});
    const answer = await send({ urls: [hook.url], allowPrivate: true }, hurried);
    assert.deepEqual([answer.ok, answer.status, answer.mayRetry], [false, null, true]);
    assert.equal(answer.error, "no answer within 10s");
    assert.equal(hook.got.length, 1);
  });

  test("neither is a host name that cannot be resolved", async () => {
    const resolve = () => new Promise<string[]>(() => {});
    const answer = await send({ urls: ["https://example.com"], resolve }, hurried);
    assert.deepEqual([answer.error, answer.mayRetry], ["no answer within 10s", true]);
  });

  test("an endless response is read only up to a limit", async () => {
    let isOpen = true;
    let written = 0;
    await using hook = await Hook.open((response) => {
      const more = (): void => {
        if (!isOpen) return;
        written += 1_000;
        response.write("x".repeat(1_000), () => setImmediate(more));
      };
      response.on("close", () => (isOpen = false));
      more();
    });
    const { ok, text } = await send({ urls: [hook.url], allowPrivate: true });
    assert.deepEqual([ok, text.length], [true, 4_096]);
    assert.ok(written < IN_BUFFERS_MAX, `it went on reading: ${written} bytes`);
  });

  test("a response that stops in the middle counts by its status", async () => {
    await using hook = await Hook.open((response) => response.writeHead(200).write("half"));
    const { ok, text } = await send({ urls: [hook.url], allowPrivate: true }, hurried);
    assert.deepEqual([ok, text], [true, "half"]);
  });

  test("where no server listens, the request is tried again later", async () => {
    await using hook = await Hook.open();
    const urls = [`http://127.0.0.2:${hook.port}/`]; // its port is open at another address
    const answer = await send({ urls, allowPrivate: true });
    assert.deepEqual([answer.status, answer.mayRetry], [null, true]);
    assert.match(answer.error ?? "", /ECONNREFUSED/);
  });

  test("a server that hangs up, or does not speak HTTP, is tried again later", async () => {
    await using hook = await Hook.open(
      (response) => response.socket?.destroy(),
      (response) => response.socket?.end("SSH-2.0-OpenSSH\r\n"),
      (response) =>
        response.socket?.end("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
    );
    for (let sent = 0; sent < 3; sent += 1) {
      const answer = await send({ urls: [hook.url], allowPrivate: true });
      assert.deepEqual([answer.ok, answer.mayRetry], [false, true], String(sent));
      assert.notEqual(answer.error, "");
    }
  });

  test("waits grow, up to a limit, and differ by chance", () => {
    assert.deepEqual([retryMs(1, 0), retryMs(2, 0), retryMs(3, 0)], [5_000, 10_000, 20_000]);
    assert.deepEqual([retryMs(1, 1), retryMs(50, 0), retryMs(50, 1)], [2_500, 600_000, 300_000]);
  });
});

/** Spellings of hosts that must not be reached. */
const inside: readonly string[] = [
  // this machine
  "127.0.0.1",
  "127.0.0.1.",
  "127.1",
  "127.0.1",
  "127.255.255.254",
  "2130706433",
  "0x7f000001",
  "0x7f.1",
  "0X7F.0.0.1",
  "0177.0.0.1",
  "0177.0.0.01",
  "017700000001",
  "%31%32%37.0.0.1",
  "１２７.0.0.1",
  "127。0。0。1",
  "①②⑦.0.0.1",
  "[::1]",
  "[0:0:0:0:0:0:0:1]",
  "[0000:0000::0001]",
  "[::ffff:127.0.0.1]",
  "[::ffff:7f00:1]",
  "[0:0:0:0:0:FFFF:7F00:0001]",
  "[::127.0.0.1]",
  "[::ffff:0:127.0.0.1]",
  "[64:ff9b::127.0.0.1]",
  "[64:ff9b::7f00:1]",
  "[64:ff9b:1::1]",
  "[2002:7f00:1::]",
  "[2001:0:7f00:1::]",
  // no address at all
  "0.0.0.0",
  "0",
  "0.1.2.3",
  "[::]",
  "[::ffff:0.0.0.0]",
  // the surroundings
  "10.0.0.1",
  "10.1",
  "167772161",
  "172.16.0.1",
  "172.31.255.255",
  "192.168.0.1",
  "0xc0a80001",
  "100.64.0.1",
  "[::ffff:10.0.0.1]",
  "[::ffff:192.168.1.1]",
  "[64:ff9b::10.0.0.1]",
  "[fc00::1]",
  "[fd12:3456:789a::1]",
  "[fec0::1]",
  // those that hand out credentials
  "169.254.169.254",
  "2852039166",
  "0xa9fea9fe",
  "0251.0376.0251.0376",
  "[::ffff:169.254.169.254]",
  "[::ffff:a9fe:a9fe]",
  "[64:ff9b::a9fe:a9fe]",
  "[fd00:ec2::254]",
  "169.254.170.2",
  "100.100.100.200",
  "168.63.129.16",
  "192.0.0.192",
  "[fe80::1]",
  "[fe80::a9fe:a9fe]",
  // multicast, unspecified, and documentation
  "224.0.0.1",
  "239.255.255.250",
  "255.255.255.255",
  "240.0.0.1",
  "[ff02::1]",
  "[100::1]",
  "192.0.2.1",
  "198.18.0.1",
  "198.51.100.1",
  "203.0.113.1",
  "192.88.99.1",
  "[2001:db8::1]",
  // what the network itself uses: AS112, AMT
  "192.31.196.1",
  "192.52.193.1",
  "192.175.48.6",
  "[2620:4f:8000::6]",
  "[::ffff:192.175.48.6]",
  // ISATAP: an address of IPv4 in the lower half
  "[2a00:1450:4001::5efe:7f00:1]",
  "[2a00:1450:4001:0:200:5efe:a9fe:a9fe]",
];

const outside: readonly string[] = [
  "1.1.1.1",
  "8.8.8.8",
  "11.0.0.1",
  "100.63.255.255",
  "100.128.0.1",
  "126.255.255.255",
  "128.0.0.1",
  "168.63.129.17",
  "169.253.255.255",
  "169.255.0.1",
  "172.15.255.255",
  "172.32.0.1",
  "192.0.1.1",
  "192.167.255.255",
  "192.169.0.1",
  "198.17.255.255",
  "198.20.0.1",
  "223.255.255.255",
  "2606:4700:4700::1111",
  "2a00:1450:4001::200e",
  "2a00:1450:4001:5efe::1",
  "2620:4f:8001::6",
  "::ffff:8.8.8.8",
  "64:ff9b::808:808",
];

suite("allowed addresses", () => {
  test(`none of ${inside.length} spellings of an address that is not public`, () => {
    assert.ok(inside.length >= 40);
    for (const host of inside) {
      const urls = [`https://${host}:8443/hook`];
      assert.throws(
        () => new Webhooks({ urls }, patient),
        {
          name: "InvalidArgumentError",
          message: /is not a public address/,
        },
        host,
      );
      const webhooks = new Webhooks({ urls, allowPrivate: true }, patient);
      assert.equal(webhooks.targets.length, 1, host);
    }
  });

  test("public addresses may be reached", () => {
    for (const address of outside) assert.ok(isPublic(address), address);
    for (const none of ["", "example.com", "fe80::1%eth0", "1.2.3", "::ffff:8.8.8.8%1"]) {
      assert.equal(isPublic(none), false, none);
    }
  });

  test("an address of IPv4 is judged the same in whatever of IPv6 it stands", () => {
    const byte = nat(255);
    assertAlways(
      property(byte, byte, byte, byte, (...bytes) => {
        const plain = bytes.join(".");
        const [a, b, c, d] = bytes;
        const hex = `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
        const carried = [
          `::ffff:${plain}`,
          `::ffff:${hex}`,
          `64:ff9b::${plain}`,
          `64:ff9b::${hex}`,
        ];
        for (const one of carried) assert.equal(isPublic(one), isPublic(plain), one);
      }),
      { numRuns: 2_000 },
    );
  });

  test("a host name counts as its addresses: localhost", async () => {
    await using hook = await Hook.open();
    for (const host of ["localhost", "LOCALHOST"]) {
      const answer = await send({ urls: [`https://${host}:${hook.port}/`] });
      assert.match(answer.error ?? "", /is not a public address/, host);
      assert.equal(answer.mayRetry, false);
    }
    assert.equal(hook.connections, 0);
  });

  test("one address inside is enough to refuse a name", async () => {
    await using hook = await Hook.open();
    for (const inner of [
      "127.0.0.1",
      "::1",
      "::ffff:127.0.0.1",
      "169.254.169.254",
      "fe80::1%eth0",
    ]) {
      const resolve = async () => ["8.8.8.8", inner, "2606:4700::1111"];
      const answer = await send({ urls: [`https://example.com:${hook.port}/`], resolve });
      assert.match(answer.error ?? "", /is not a public address/, inner);
    }
    assert.equal(hook.connections, 0);
  });

  test("the connection uses the checked address: the name is resolved once", async () => {
    await using hook = await Hook.open();
    const answers = [["127.0.0.1"], ["192.0.2.1"]];
    let asked = 0;
    const resolve = async () => answers[asked++] ?? [];
    const urls = [`http://name.invalid:${hook.port}/`];
    const { ok } = await send({ urls, allowPrivate: true, resolve });
    assert.deepEqual([ok, asked, hook.connections], [true, 1, 1]);
    assert.equal(hook.got[0]?.headers.host, `name.invalid:${hook.port}`);
  });

  test("by https it goes to that address too, under the name that the certificate has to have", async () => {
    const hello = Promise.withResolvers<Buffer>();
    const server = createServer((socket) => {
      socket.once("data", (data) => {
        hello.resolve(data);
        socket.destroy();
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const urls = [`https://name.invalid:${port}/`];
    const answer = await send({ urls, allowPrivate: true, resolve: async () => ["127.0.0.1"] });
    hello.resolve(Buffer.alloc(0)); // no request came
    const said = await hello.promise;
    assert.equal(said[0], 22, "a handshake");
    assert.ok(said.includes("name.invalid"));
    assert.deepEqual([answer.ok, answer.mayRetry], [false, true]);
    server.close();
    await once(server, "close");
  });

  test("by http it goes to private addresses alone, and only if they are allowed", async () => {
    assert.throws(
      () => new Webhooks({ urls: ["http://example.com/"] }, patient),
      InvalidArgumentError,
    );
    assert.throws(
      () => new Webhooks({ urls: ["http://8.8.8.8/"], allowPrivate: true }, patient),
      /is public; use https/,
    );
    const resolve = async () => ["8.8.8.8"];
    const answer = await send({ urls: ["http://example.com/"], allowPrivate: true, resolve });
    assert.match(answer.error ?? "", /is public; use https/);
    assert.equal(answer.mayRetry, false);
  });

  test("nothing but http and https", () => {
    for (const url of ["ftp://8.8.8.8/", "file:///etc/passwd", "gopher://8.8.8.8/", "data:,x"]) {
      const make = () => new Webhooks({ urls: [url], allowPrivate: true }, patient);
      assert.throws(make, /must begin with https/, url);
    }
  });

  test("the error about a URL does not contain the URL", () => {
    const wrong: [urls: string[], words: RegExp][] = [
      [["https://[s3cret/"], /urls\[0\]: is not a URL/],
      [["https://8.8.8.8/", "s3cret"], /urls\[1\]: is not a URL/],
      [["http://example.com/s3cret"], /urls\[0\]: must begin with https/],
      [["https://ada:s3cret@10.0.0.1/s3cret"], /urls\[0\]: 10.0.0.1 is/],
      [[`https://example.com/s3cret${"x".repeat(2_048)}`], /at most 2048 characters/],
      [
        Array.from({ length: 11 }, (_, index) => `https://example.com/s3cret/${index}`),
        /at most 10/,
      ],
    ];
    for (const [urls, words] of wrong) {
      assert.throws(
        () => new Webhooks({ urls }, patient),
        (error: Error) => {
          assert.match(error.message, words);
          assert.doesNotMatch(error.message, /s3cret/);
          return error instanceof InvalidArgumentError;
        },
      );
    }
    assert.throws(
      () => new Webhooks({ urls: [], secret: "s3cret" }, patient),
      /^InvalidArgumentError: webhooks.secret: must have at least 16 characters.$/,
    );
  });

  test("a target is named by its host and a hash, and reveals nothing else", () => {
    const urls = ["a", "b"].map((path) => `https://ada:pass@hooks.example.com/${path}`);
    const webhooks = new Webhooks({ urls: [...urls, ...urls] }, patient);
    const [first, second, ...others] = webhooks.targets as [string, string];
    assert.match(first, /^hooks\.example\.com [0-9a-f]{8}$/);
    assert.ok(first !== second && others.length === 0);
    assert.equal(webhooks.originOf(first), "https://hooks.example.com");
    const long = new Webhooks({ urls: [`https://${"long.".repeat(40)}com/`] }, patient);
    assert.ok((long.targets[0] ?? "").length <= 64);
  });
});

after(() => assertNothingRuns());
