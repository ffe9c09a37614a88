/** The types of the page are made from JSON schemas. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { typeOf } from "../../scripts/api-types.ts";

suite("types of the API", () => {
  const cases: readonly [string, Parameters<typeof typeOf>[0], string][] = [
    ["an integer", { type: "integer" }, "number"],
    ["a nullable text", { type: ["string", "null"] }, "string | null"],
    ["a reference", { $ref: "#/components/schemas/Job" }, "Job"],
    [
      "a nullable reference",
      { anyOf: [{ $ref: "#/components/schemas/Status" }, { type: "null" }] },
      "Status | null",
    ],
    ["one of several words", { type: "string", enum: ["a", "b"] }, `"a" | "b"`],
    ["a constant", { const: true }, "true"],
    ["a list", { type: "array", items: { type: "string" } }, "readonly string[]"],
    [
      "a list of either",
      { type: "array", items: { type: ["string", "number"] } },
      "readonly (string | number)[]",
    ],
    [
      "both",
      { allOf: [{ $ref: "#/A" }, { anyOf: [{ $ref: "#/B" }, { type: "null" }] }] },
      "A & (B | null)",
    ],
    [
      "a map",
      { type: "object", additionalProperties: { type: "integer" } },
      "Readonly<Record<string, number>>",
    ],
    [
      "any object",
      { type: "object", properties: {}, additionalProperties: {} },
      "Readonly<Record<string, unknown>>",
    ],
    ["no field", { type: "object", properties: {}, additionalProperties: false }, "{}"],
    ["anything", {}, "unknown"],
    [
      "an object",
      {
        type: "object",
        properties: { id: { type: "string", description: "Its id." }, "a-b": { type: "null" } },
        required: ["id"],
      },
      `{\n  /** Its id. */\n  readonly id: string;\n  readonly "a-b"?: null;\n}`,
    ],
  ];
  for (const [name, schema, type] of cases) test(name, () => assert.equal(typeOf(schema), type));
});
