/** The data of an item as it is stored: as it was given; the schema of the workflow only has to agree with it. */
import { InvalidArgument } from "../core/errors.ts";
import { checkFields } from "../core/item.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX, encode } from "../core/json.ts";
import type { AnyWorkflow } from "../core/workflow.ts";
import type { Patience } from "./item-patience.ts";

const DATA = { what: "data of an item", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX };

export async function dataText(
  { data: schema }: AnyWorkflow,
  data: unknown,
  patience: Patience,
): Promise<string> {
  const text = encode(checkFields("data", data), DATA);
  if (schema === null) return text;
  const checked = await patience.with("data", () => schema["~standard"].validate(data));
  if (checked.issues === undefined) return text;
  const [issue] = checked.issues;
  const path = (issue?.path ?? []).map((part) =>
    String(typeof part === "object" ? part.key : part),
  );
  const field = ["data", ...path].join(".");
  throw new InvalidArgument({ field, problem: issue?.message ?? "it is not valid." });
}
