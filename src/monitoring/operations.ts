/** The findings of the monitor's cheap checks. */
import { severities } from "../database/check.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import type { Observation } from "./monitor.ts";

interface MonitorApp {
  /** Without one, nothing is known here. */
  readonly monitor?: {
    latest(): Pick<Observation, "at" | "findings" | "examined"> | null;
  };
}

const finding = s
  .object({
    check: s.text(),
    severity: s.choice(severities),
    problem: s.text(),
    remedy: s.text(),
    fixable: s.boolean(),
    offenders: s.list(
      s.loose({ subject: s.text(), detail: s.text(), sinceAt: s.integer().nullable() }),
    ),
    more: s.boolean(),
  })
  .named("Finding", "A problem that a check found, and what to do about it.");

export const findingOperations = {
  list: operationsOf<MonitorApp>("operations")({
    name: "listFindings",
    summary: "What the monitor's checks found",
    access: "viewer",
    returns: "`at` is null if no monitor of this server has looked yet, or its checks failed.",
    result: s.object({ at: s.integer().nullable(), findings: s.list(finding) }),
    run: async ({ monitor }) => {
      const seen = monitor?.latest() ?? null;
      const isKnown = seen !== null && seen.examined !== false;
      return { at: isKnown ? seen.at : null, findings: isKnown ? seen.findings : [] };
    },
    http: { method: "GET", path: "/api/v1/invariants" },
    agent: "Broken rules that the monitor found in the database, each with its remedy.",
  }),
};
