import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { envFileFaults } from "../../src/config/sources.ts";

suite("lines of .env that Node's parser skips", () => {
  for (const [text, ...faults] of [
    ["A=1\nB=2"],
    ["# a comment\n\n  # another\nexport A=1\r\nB =2\r\n"],
    ["A='#1' # why\nB=\"two\nlines = here\n\"\nC=`x`\n"],
    ["A==\nB=#\nC="],
    ["A", /^line 1 has no '='/],
    ["A=1\nhunter2\nB: 2\nC=3", /^line 2 has no '='/, /^line 3 has no '='/],
    ["export A\nB=1", /^line 1 has no '='/],
    ["=5\nA B=1", /^line 1 has no valid name/, /^line 2 has no valid name/],
    ['A="x\nB=2\nC', /^line 1 has an opening quote/, /^line 3 has no '='/],
    ['A="hunter\\"2"\nB=1', /^line 1 has text after .* double quote/],
    ["A=1\nB='x\ny' z\nC", /^line 2 has text after/, /^line 4 has no '='/],
  ] as [string, ...RegExp[]][]) {
    test(JSON.stringify(text), () => {
      const found = envFileFaults(text);
      assert.equal(found.length, faults.length, found.join("\n"));
      for (const [index, fault] of faults.entries()) assert.match(found[index] ?? "", fault);
      assert.doesNotMatch(found.join(), /hunter/);
      if (faults.length === 0) assert.ok(Object.keys(parseEnv(text)).length > 1);
    });
  }

  test("the example has none of these", () => {
    const example = readFileSync(`${import.meta.dirname}/../../.env.example`, "utf8");
    assert.deepEqual(envFileFaults(example), []);
  });
});
