/** Which versions name one build. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { byBuild, isSameBuild } from "../../src/core/version.ts";

const SHA = "3f2a91c0d4e5b6a79881726354f0e1d2c3b4a596";

test("a whole hash and an abbreviated one of the same commit are one build", () => {
  for (const short of [SHA.slice(0, 7), SHA.slice(0, 12), SHA]) {
    assert.ok(isSameBuild(SHA, short), short);
    assert.ok(isSameBuild(short, SHA), short);
  }
  assert.ok(isSameBuild(SHA.slice(0, 8), SHA.slice(0, 7)));
  for (const [one, other] of [
    [SHA, "3f2a91d"], // another commit
    [SHA, "3f2a91"], // too short to name one
    ["12345678", "1234567"], // numbers of builds
    ["v1.2.10", "v1.2.1"],
    ["release-3f2a91c", "release-3f2a9"],
  ] as const) {
    assert.equal(isSameBuild(one, other), false, `${one} ${other}`);
  }
});

test("builds are called by their shortest version, in the order in which they come", () => {
  const rows = [SHA, "v2", "3f2a91c", "v2", SHA.slice(0, 9)].map((version) => ({ version }));
  assert.deepEqual(
    byBuild(rows).map(({ version, some }) => [version, some.length]),
    [
      ["3f2a91c", 3],
      ["v2", 2],
    ],
  );
});
