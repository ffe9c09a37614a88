import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { runInNewContext } from "node:vm";
import * as fc from "fast-check";
import {
  CAUSE_DEPTH_MAX,
  decodeError,
  describeError,
  encodeError,
  type ErrorRecord,
  MESSAGE_LENGTH_MAX,
  STACK_LENGTH_MAX,
} from "../../src/core/error-record.ts";
import {
  decode,
  DEFAULT_PAYLOAD_BYTES_MAX,
  DEPTH_MAX,
  encode,
  encodeOptional,
  NotSerializableError,
  TooLargeError,
} from "../../src/core/json.ts";

class Order {
  readonly id = 1;
}

const [Nameless] = [
  class {
    readonly id = 1;
  },
];

const limit = { what: "payload", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX };

function roundTrip(value: unknown): unknown {
  return decode(encode(value, limit));
}

/** Asserts that the value is refused for what stands at the path. */
function refused(value: unknown, path: string, problem: RegExp): void {
  assert.throws(
    () => encode(value, limit),
    (error) => {
      assert.ok(error instanceof NotSerializableError, String(error));
      assert.equal(error.path, path);
      assert.match(error.message, problem);
      return true;
    },
  );
}

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { in: value };
  return value;
}

suite("a value that is encoded", () => {
  test("decodes to the same value, whatever JSON can hold", () => {
    const text = fc.oneof(
      fc.string({ unit: fc.nat(0xffff).map((code) => String.fromCodePoint(code)) }),
      fc.string({
        unit: fc.constantFrom("\0", "\uD800", "\uDC00", "\u2028", "\\", '"', "é", "🦀"),
      }),
    );
    // Once in many thousand runs, JSON.parse of Node 24 misreads a key that is written with a backslash: not alone, but
    // after objects of other shapes. Keys of that sort are tried one by one below.
    const key = text.filter((one) => JSON.stringify(one) === `"${one}"`);
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 5, depthSize: "small" },
        text,
        fc.constant(null),
        fc.boolean(),
        fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
        fc.array(tie("value")),
        fc.dictionary(fc.oneof(key, fc.constant("__proto__")), tie("value"), {
          noNullPrototype: true,
        }),
      ),
    }));
    fc.assert(
      fc.property(value, (original) => {
        assert.deepStrictEqual(roundTrip(original), original);
      }),
      { numRuns: 500 },
    );
  });

  test("is text without NUL and without half characters, so that every engine can store it", () => {
    const encoded = encode({ "\0": "\0", "\uD800": ["\uDC00"] }, limit);
    assert.equal(encoded, String.raw`{"\u0000":"\u0000","\ud800":["\udc00"]}`);
    assert.deepEqual(decode(encoded), { "\0": "\0", "\uD800": ["\uDC00"] });
  });

  test("keeps a key called __proto__ as a property and changes no prototype", () => {
    const hostile = `{"__proto__":{"admin":true},"constructor":{"prototype":1}}`;
    const decoded = decode(hostile) as Record<string, unknown>;
    assert.equal(Object.getPrototypeOf(decoded), Object.prototype);
    assert.deepEqual(Object.keys(decoded), ["__proto__", "constructor"]);
    assert.equal("admin" in decoded, false);
    assert.equal(encode(decoded, limit), hostile);
  });

  test("may be an object without a prototype, or from another realm", () => {
    const bare = Object.assign(Object.create(null) as object, { a: 1 });
    assert.equal(encode(bare, limit), `{"a":1}`);
    assert.equal(encode(runInNewContext(`({ a: [1, { b: 2 }] })`), limit), `{"a":[1,{"b":2}]}`);
  });

  test("may hold the same object twice", () => {
    const address = { city: "Oslo" };
    assert.deepEqual(roundTrip({ from: address, to: [address, address] }), {
      from: { city: "Oslo" },
      to: [{ city: "Oslo" }, { city: "Oslo" }],
    });
  });

  test("leaves out a property that is undefined: the one exception", () => {
    assert.equal(encode({ a: undefined, b: { c: undefined } }, limit), `{"b":{}}`);
  });
});

suite("a value that would come back changed is refused:", () => {
  const cases: Record<string, readonly [value: unknown, problem: RegExp]> = {
    NaN: [Number.NaN, /NaN has no JSON form/],
    Infinity: [Number.POSITIVE_INFINITY, /Infinity has no JSON form/],
    "minus Infinity": [Number.NEGATIVE_INFINITY, /-Infinity has no JSON form/],
    "minus zero": [-0, /-0 would be read back as 0/],
    "a BigInt": [10n, /BigInt .* String\(value\)/],
    "a symbol": [Symbol("s"), /a symbol has no JSON form/],
    "a function": [() => 1, /a function has no JSON form/],
    "a class": [Order, /a function has no JSON form/],
    "a Date": [new Date(0), /toISOString\(\)/],
    "a Map": [new Map([["a", 1]]), /a Map has no JSON form/],
    "a Set": [new Set([1]), /a Set has no JSON form/],
    "a WeakMap": [new WeakMap(), /an instance of WeakMap/],
    "a RegExp": [/x/, /an instance of RegExp/],
    "an Error": [new RangeError("x"), /an instance of RangeError/],
    "a URL": [new URL("http://localhost"), /has a toJSON\(\)/],
    "a Buffer": [Buffer.from("x"), /has a toJSON\(\)/],
    "a typed array": [new Uint8Array(1), /an instance of Uint8Array/],
    "a promise": [Promise.resolve(1), /an instance of Promise/],
    "a class instance": [new Order(), /an instance of Order/],
    "an instance of a class without a name": [new Nameless(), /an instance of another object/],
    "an object that inherits": [Object.create({ a: 1 }), /an instance of another object/],
    "an object that inherits from a bare one": [
      Object.create(Object.create(null) as object),
      /an instance of another object/,
    ],
    "an array of a class": [new (class Rows extends Array {})(), /an instance of Rows/],
    "a match with named properties": [/b/.exec("abc"), /named properties/],
    "an object with toJSON": [{ toJSON: () => 1 }, /has a toJSON\(\)/],
    "an object with a hidden toJSON": [
      Object.defineProperty({}, "toJSON", { value: () => 1 }),
      /has a toJSON\(\)/,
    ],
    "a boxed number": [Reflect.construct(Number, [1]), /an instance of Number/],
    "a boxed string": [Reflect.construct(String, ["a"]), /an instance of String/],
    "a boxed boolean": [Reflect.construct(Boolean, [false]), /an instance of Boolean/],
  };
  for (const [which, [value, problem]] of Object.entries(cases)) {
    test(`${which}, wherever it occurs`, () => {
      refused(value, "$", problem);
      refused({ items: [0, 1, { price: value }] }, "$.items[2].price", problem);
      refused([value], "$[0]", problem);
      refused({ "a b": value }, `$["a b"]`, problem);
    });
  }

  test("undefined at the top and in arrays", () => {
    refused(undefined, "$", /undefined has no JSON form/);
    refused({ rows: [1, undefined] }, "$.rows[1]", /undefined has no JSON form/);
  });

  test("a hole in an array, also in one too long to write out", () => {
    const holed: number[] = [1];
    holed[2] = 3;
    refused(holed, "$[1]", /undefined has no JSON form/);
    const endless: unknown[] = [];
    endless.length = 2 ** 32 - 1;
    refused({ endless }, "$.endless[0]", /undefined has no JSON form/);
  });

  test("a hole that an extra property makes up for in number", () => {
    const array: number[] & { extra?: number } = [1];
    array[2] = 3;
    array.extra = 2;
    refused(array, "$[1]", /undefined has no JSON form/);
  });

  test("a key that is a symbol", () => {
    refused({ a: { [Symbol("s")]: 1 } }, "$.a[Symbol(s)]", /symbol/);
    refused(Object.assign([1], { [Symbol.iterator]: 1 }), "$[Symbol(Symbol.iterator)]", /symbol/);
  });

  test("a circle, at the place where it closes", () => {
    const order: Record<string, unknown> = { id: 1 };
    order["lines"] = [{ order }];
    refused(order, "$.lines[0].order", /refers to an object that contains it/);
    const list: unknown[] = [];
    list.push(list);
    refused(list, "$[0]", /refers to an object that contains it/);
  });

  test("a long key is shortened in the path", () => {
    assert.throws(
      () => encode({ ["k".repeat(100_000)]: Number.NaN }, limit),
      (error) => error instanceof NotSerializableError && error.message.length < 200,
    );
  });

  test("every value either survives the round trip or is refused", () => {
    const anything = fc.anything({
      withBigInt: true,
      withBoxedValues: true,
      withDate: true,
      withMap: true,
      withNullPrototype: false, // decoding gives them one
      withSet: true,
      withSparseArray: true,
      withTypedArray: true,
    });
    // What JSON leaves out on purpose.
    const withoutUndefined = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(withoutUndefined);
      if (typeof value !== "object" || value === null) return value;
      const kept = Object.entries(value).filter(([, inner]) => inner !== undefined);
      return Object.fromEntries(kept.map(([key, inner]) => [key, withoutUndefined(inner)]));
    };
    fc.assert(
      fc.property(anything, (value) => {
        let text: string;
        try {
          text = encode(value, limit);
        } catch (error) {
          assert.ok(error instanceof NotSerializableError, String(error));
          return;
        }
        assert.deepStrictEqual(decode(text), withoutUndefined(value));
      }),
      { numRuns: 1_000 },
    );
  });
});

suite("the limits of a value", () => {
  test("it may be nested 64 deep, and not deeper", () => {
    assert.equal(DEPTH_MAX, 64);
    assert.deepEqual(roundTrip(nested(64)), nested(64));
    assert.throws(() => encode(nested(65), limit), {
      code: "NOT_SERIALIZABLE",
      message: /nested more than 64 deep/,
    });
  });

  test("a value nested without end is refused, not a stack overflow", () => {
    assert.throws(() => encode(nested(1_000_000), limit), NotSerializableError);
  });

  test("its size counts in UTF-8 bytes, to the byte", () => {
    const fits = { what: "result", bytesMax: 12 };
    assert.equal(encode("é".repeat(5), fits), `"ééééé"`);
    assert.equal(encode("x".repeat(10), fits), `"xxxxxxxxxx"`);
    assert.throws(() => encode("x".repeat(11), fits), {
      code: "TOO_LARGE",
      what: "result",
      bytes: 13,
      bytesMax: 12,
    });
    assert.throws(() => encode("éééééé", fits), { code: "TOO_LARGE", bytes: 14 });
    assert.throws(() => encode("\0\0", fits), { code: "TOO_LARGE", bytes: 14 });
  });

  test("a value far over the limit is refused without being written out", () => {
    let doubled: unknown = "x";
    for (let level = 0; level < 60; level++) doubled = [doubled, doubled]; // 2^60 texts
    assert.throws(() => encode(doubled, limit), TooLargeError);
    let tree: unknown = { leaf: 1 };
    for (let level = 0; level < 60; level++) tree = { left: tree, right: tree };
    assert.throws(() => encode(tree, limit), TooLargeError);
    assert.throws(() => encode("x".repeat(2 ** 28), limit), TooLargeError);
  });
});

suite("a result", () => {
  test("of nothing is no text, and null is a text", () => {
    assert.equal(encodeOptional(undefined, limit), null);
    assert.equal(encodeOptional(null, limit), "null");
    assert.equal(encodeOptional(0, limit), "0");
  });

  test("is held to the same rules as any value", () => {
    assert.throws(() => encodeOptional(Number.NaN, limit), NotSerializableError);
  });
});

suite("a thrown value", () => {
  test("is recorded with its name, message, code, stack and causes", () => {
    const cause = new TypeError("no route");
    const error = Object.assign(new Error("could not send", { cause }), { code: "EMAIL" });
    const { stack, cause: described, ...rest } = describeError(error);
    assert.deepEqual(rest, { name: "Error", message: "could not send", code: "EMAIL" });
    assert.match(stack ?? "", /^Error: could not send\n\s+at .*json\.test/);
    assert.equal(described?.name, "TypeError");
    assert.equal(described.message, "no route");
    assert.equal("cause" in described, false);
  });

  const oddities: Record<string, readonly [thrown: unknown, record: ErrorRecord]> = {
    null: [null, { name: "null", message: "null" }],
    undefined: [undefined, { name: "undefined", message: "undefined" }],
    "a text": ["boom", { name: "string", message: "boom" }],
    "an empty text": ["", { name: "string", message: "" }],
    "a number": [404, { name: "number", message: "404" }],
    "a symbol": [Symbol("s"), { name: "symbol", message: "Symbol(s)" }],
    "a BigInt": [1n, { name: "bigint", message: "1n" }],
    "a plain object": [{ status: 500 }, { name: "Object", message: "{ status: 500 }" }],
    "an object like an error": [
      { name: "Fault", message: "m", code: 7 },
      { name: "Fault", message: "m", code: "7" },
    ],
    "an object without a prototype": [
      Object.create(null),
      { name: "object", message: "[Object: null prototype] {}" },
    ],
    "an error with a text as its cause": [
      { name: "E", message: "m", cause: "why" },
      { name: "E", message: "m", cause: { name: "string", message: "why" } },
    ],
  };
  for (const [which, [thrown, record]] of Object.entries(oddities)) {
    test(`may be ${which}`, () => assert.deepEqual(describeError(thrown), record));
  }

  test("may refuse every look at it", () => {
    const refuse = (): never => {
      throw new Error("do not look");
    };
    const guarded = new Proxy({}, { get: refuse, getPrototypeOf: refuse, ownKeys: refuse });
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    const spiteful = {
      get message() {
        return refuse();
      },
      get stack() {
        return refuse();
      },
      name: "Spite",
      toString: refuse,
    };
    assert.equal(typeof describeError(guarded).message, "string");
    assert.equal(typeof describeError(proxy).message, "string");
    assert.equal(describeError(spiteful).name, "Spite");
    assert.equal(describeError(new Error("outer", { cause: proxy })).message, "outer");
  });

  test("says what happened when a connection was refused on every address", () => {
    const refusals = ["connect ECONNREFUSED ::1:5432", "connect ECONNREFUSED 127.0.0.1:5432"];
    const errors = refusals.map((message) => new Error(message));
    const error = Object.assign(new AggregateError(errors, "Node gives none"), { message: "" });
    assert.equal(describeError(error).message, refusals.join("; "));
  });

  test("is cut to its limits, and the frames of the stack stay", () => {
    const record = describeError(new Error("m".repeat(1_000_000)));
    assert.equal(record.message.length, MESSAGE_LENGTH_MAX);
    assert.ok(record.message.endsWith("m…"));
    assert.ok((record.stack ?? "").length <= STACK_LENGTH_MAX);
    assert.match(record.stack ?? "", /m…\n\s+at /);
    const long = Object.assign(new Error("x"), { stack: "s".repeat(1_000_000) });
    assert.equal(describeError(long).stack?.length, STACK_LENGTH_MAX);
  });

  test("has at most four causes below one another", () => {
    assert.equal(CAUSE_DEPTH_MAX, 4);
    let error = new Error("0");
    for (let level = 1; level <= 9; level++) error = new Error(String(level), { cause: error });
    const messages: string[] = [];
    for (let at: ErrorRecord | undefined = describeError(error); at; at = at.cause) {
      messages.push(at.message);
    }
    assert.deepEqual(messages, ["9", "8", "7", "6", "5"]);
  });

  test("may be its own cause, which is recorded once", () => {
    const error = new Error("self");
    error.cause = error;
    assert.equal(describeError(error).cause, undefined);
    const other = new Error("other", { cause: error });
    error.cause = other;
    assert.equal(describeError(error).cause?.message, "other");
    assert.equal(describeError(error).cause?.cause, undefined);
  });

  test("is recorded without NUL and without half characters", () => {
    const record = describeError(Object.assign(new Error("a\0b\uD800c"), { code: "\0" }));
    assert.equal(record.message, "a\uFFFDb\uFFFDc");
    assert.equal(record.code, "\uFFFD");
    assert.equal(record.stack?.includes("\0"), false);
  });

  test("never makes recording fail, and its text comes back as the same record", () => {
    fc.assert(
      fc.property(fc.anything({ withBigInt: true, withNullPrototype: true }), (thrown) => {
        const record = describeError(thrown);
        assert.equal(typeof record.message, "string");
        assert.deepEqual(decodeError(encodeError(thrown)), record);
      }),
      { numRuns: 500 },
    );
    const error = new Error("outer\0", { cause: new TypeError("m".repeat(9_999)) });
    assert.deepEqual(decodeError(encodeError(error)), describeError(error));
  });

  test("is read leniently: a text typed by hand is a message", () => {
    assert.deepEqual(decodeError("stopped by Ada"), { name: "Error", message: "stopped by Ada" });
    assert.deepEqual(decodeError(""), { name: "Error", message: "" });
    assert.deepEqual(decodeError(`{"message":"m"}`), { name: "Object", message: "m" });
    assert.equal(decodeError("null").message, "null");
  });
});
