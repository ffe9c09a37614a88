/** The URLs of MySQL and MariaDB, and values in the text of a statement. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { InvalidArgumentError } from "../../src/core/errors.ts";
import { mysqlAddress, placeOf } from "../../src/database/mysql/address.ts";
import { fill, jsonList, list, literal } from "../../src/database/mysql/session.ts";

const SECRET = "s3cr:et/p@ss";
const user = `ada:${encodeURIComponent(SECRET)}`;

describe("a MySQL URL", () => {
  test("names user, password, host, port and database", () => {
    assert.deepEqual(mysqlAddress(`mysql://${user}@db.example:3307/sh%20op`), {
      host: "db.example",
      port: 3307,
      user: "ada",
      password: SECRET,
      database: "sh op",
      socket: null,
      tls: null,
    });
  });

  test("needs no port, and may begin with mariadb:", () => {
    const { host, port } = mysqlAddress(`mariadb://${user}@[::1]/shop`);
    assert.deepEqual([host, port], ["::1", 3306]);
  });

  test("may name a socket file", () => {
    assert.equal(
      mysqlAddress("mysql://ada@localhost/shop?socket=/run/m.sock").socket,
      "/run/m.sock",
    );
  });

  const modes = {
    "ssl-mode=disabled": null,
    "ssl-mode=required": "nothing",
    "ssl-mode=REQUIRED": "nothing",
    "ssl-mode=verify_ca": "authority",
    "ssl-mode=verify_identity": "identity",
    "ssl=true": "identity",
    "ssl=false": null,
    'ssl={"rejectUnauthorized":true}': "identity",
    'ssl={ "rejectUnauthorized": false }': "nothing",
    [`ssl-ca=${import.meta.filename}`]: "authority",
    [`ssl-mode=verify_identity&ssl-ca=${import.meta.filename}`]: "identity",
  };
  for (const [option, verify] of Object.entries(modes)) {
    test(`with ${option.replaceAll(import.meta.filename, "<file>")} checks ${verify}`, () => {
      const { tls } = mysqlAddress(`mysql://ada@db/shop?${option}`);
      assert.equal(tls?.verify ?? null, verify);
    });
  }

  test("is shown in log lines without user and password", () => {
    const places = [
      `mysql://${user}@db:3307/shop`,
      `mariadb://${user}@[::1]/shop`,
      `mysql://${user}@localhost/shop?socket=/run/m.sock`,
    ].map((url) => placeOf(mysqlAddress(url)));
    assert.deepEqual(places, [
      "mysql://db:3307/shop",
      "mysql://[::1]:3306/shop",
      "mysql://localhost/shop?socket=/run/m.sock",
    ]);
  });

  const mistakes = {
    "without a database": ["mysql://ada:s3cret@db", /has the form/],
    "without a database's name": ["mysql://ada:s3cret@db/", /has the form/],
    "without a host": ["mysql:ada:s3cret", /has the form/],
    "with a slash in its password": ["mysql://ada:1/s3cret@db/shop", /percent-encode special/],
    "with a stray percent sign": ["mysql://ada:s3cret%@db/shop", /percent-encode special/],
    "with an unknown option": [
      "mysql://ada:s3cret@db/shop?charset=utf8",
      /no option 'charset'.*ssl-mode/,
    ],
    "with an unknown mode": [
      "mysql://ada:s3cret@db/shop?ssl-mode=maybe",
      /ssl-mode=maybe is not known/,
    ],
    "with an unknown ssl": ["mysql://ada:s3cret@db/shop?ssl=perhaps", /ssl=perhaps is not known/],
    "with a file that is not there": [
      "mysql://ada:s3cret@db/shop?ssl-ca=/no/such",
      /\/no\/such, cannot be/,
    ],
  } as const;
  for (const [what, [url, problem]] of Object.entries(mistakes)) {
    test(`${what} is refused, and the password is not shown`, () => {
      assert.throws(
        () => mysqlAddress(url),
        (error) => {
          assert.ok(error instanceof InvalidArgumentError);
          assert.match(error.message, problem);
          assert.doesNotMatch(error.message, /s3cret/);
          return true;
        },
      );
    });
  }
});

describe("a value in a statement", () => {
  test("stays a value, whatever it says", () => {
    assert.equal(literal("it's"), String.raw`'it\'s'`);
    assert.equal(
      literal(String.raw`\'; drop table job; --`),
      String.raw`'\\\'; drop table job; --'`,
    );
    assert.equal(literal(`? "a" 𝄞\n\0`), `'? "a" 𝄞\n\0'`);
    assert.equal(literal(-3), "-3");
    assert.equal(literal(null), "null");
  });

  test("takes the next place, and no other", () => {
    assert.equal(
      fill("a = ? and b in (?) or c = ?", "?", list(["x", "?"]), 7),
      "a = '?' and b in ('x','?') or c = 7",
    );
    assert.equal(
      fill("json_table(?)", jsonList(["a", "b\"'"])),
      String.raw`json_table('["a","b\\"\'"]')`,
    );
  });
});
