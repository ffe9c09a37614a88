/** Addresses of IPv6 as numbers, and which addresses are counted as one. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ipv6Groups, neighbourhood } from "../../src/core/ip.ts";

test("an address of IPv6 has eight groups, however it is written", () => {
  const cases: Readonly<Record<string, readonly number[] | null>> = {
    "::": [0, 0, 0, 0, 0, 0, 0, 0],
    "::1": [0, 0, 0, 0, 0, 0, 0, 1],
    "2001:db8::": [0x2001, 0xdb8, 0, 0, 0, 0, 0, 0],
    "2001:DB8:0:1:2:3:4:5": [0x2001, 0xdb8, 0, 1, 2, 3, 4, 5],
    "fe80::1%eth0": [0xfe80, 0, 0, 0, 0, 0, 0, 1],
    "::ffff:127.0.0.1": [0, 0, 0, 0, 0, 0xffff, 0x7f00, 1],
    "1:2:3:4:5:6:7::": [1, 2, 3, 4, 5, 6, 7, 0],
    "127.0.0.1": null,
    "": null,
    "x::1": null,
  };
  for (const [address, groups] of Object.entries(cases)) {
    assert.deepEqual(ipv6Groups(address), groups, address);
  }
});

test("one customer's network of IPv6 counts as one address, and one of IPv4 by itself", () => {
  assert.equal(neighbourhood("10.0.0.1"), "10.0.0.1");
  assert.equal(neighbourhood("::ffff:10.0.0.1"), "10.0.0.1");
  assert.equal(neighbourhood("2001:db8:1:2::1"), neighbourhood("2001:db8:1:2:ffff:ffff::9"));
  assert.notEqual(neighbourhood("2001:db8:1:2::1"), neighbourhood("2001:db8:1:3::1"));
  assert.equal(neighbourhood("unknown"), "unknown");
});
