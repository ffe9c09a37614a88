/** Prometheus' own checker of metrics: what it says about a text, line by line; nothing when all is well. */
import { spawnSync } from "node:child_process";
import { urlOf } from "./servers.ts";

export function complaintsAbout(text: string): string[] {
  const { status, stdout, stderr, error } = spawnSync(urlOf("promtool"), ["check", "metrics"], {
    input: text,
    encoding: "utf8",
    timeout: 30_000,
  });
  if (error !== undefined) throw error;
  const said = `${stdout}${stderr}`.split("\n").filter((line) => line.trim() !== "");
  return status === 0 || said.length > 0 ? said : [`it ended with ${String(status)}`];
}

/** The value of a sample, by its name and labels as they are written; null: there is none. */
export function sampleOf(text: string, sample: string): number | null {
  const line = text.split("\n").find((each) => each.startsWith(`${sample} `));
  return line === undefined ? null : Number(line.slice(sample.length + 1));
}
