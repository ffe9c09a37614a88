/** How the service is, and the verdict: whether all is well, and if not, what to do first. */
import { HoldfastError } from "../core/errors.ts";
import { operationsOf } from "../operations/operation.ts";
import { type CountsApp, recentCounts } from "../stats/counts.ts";
import { counted } from "../terminal/table.ts";
import type { Colors } from "../terminal/terminal.ts";
import { Overview, type OverviewSource } from "./overview.ts";
import { overview, type OverviewView } from "./shapes.ts";
import { serviceStatus, type Status } from "./status.ts";

/** A server keeps an overview for all who ask; a command looks once. */
export type StatusApp = { readonly overview: Overview } | (OverviewSource & CountsApp);

class TookTooLongError extends HoldfastError {
  constructor() {
    super("TOOK_TOO_LONG", "The database did not answer in time. Try again.");
  }
}

async function shared({ overview: kept }: { readonly overview: Overview }): Promise<OverviewView> {
  const found = await kept.get();
  if (found === null) throw new TookTooLongError();
  return found;
}

async function lookOnce(source: OverviewSource & CountsApp): Promise<Status> {
  const counts = async () => {
    const { queues, countedAt } = await recentCounts(source);
    return { queues, countedAt: countedAt ?? (await source.store.db.clock()) };
  };
  // Only the monitor of a server knows its canaries; those that are late have raised an alert.
  const once = new Overview({ source, counts, canaries: () => [] });
  return (await once.look()).status;
}

export const statusOperations = {
  status: operationsOf<StatusApp>("operations")({
    name: "getStatus",
    summary: "Whether all is well, and if not, what is wrong and which command fixes it",
    access: "viewer",
    returns: "The findings, worst first; over HTTP at most a second old.",
    result: serviceStatus,
    run: async (app) => ("overview" in app ? (await shared(app)).status : lookOnce(app)),
    http: { method: "GET", path: "/api/v1/status" },
    cli: {
      command: "status",
      about: "say whether all is well; exit code 1 if not",
      examples: ["status", "status --json"],
      after: `
Exit codes: 0 if all is well, 1 if not, 3 if the database does not answer.`,
      show: (found, { terminal: { colors } }) => linesOf(found, colors),
      fails: ({ isWell }) => !isWell,
    },
    agent:
      "Whether all is well. If not: what is wrong, worst first, each with the command that fixes it. Ask this first.",
  }),
};

export const overviewOperations = {
  overview: operationsOf<{ readonly overview: Overview }>("dashboard")({
    name: "getOverview",
    summary: "How the service is: figures, queues, workers and alerts",
    access: "viewer",
    returns: "At most a second old.",
    result: overview,
    run: shared,
    http: { method: "GET", path: "/api/v1/overview" },
  }),
};

function linesOf(
  { findings, ...facts }: Status,
  { bold, dim, green, red, yellow }: Colors,
): string[] {
  const [worst, ...others] = findings;
  const { workers, queues, pending, running } = facts;
  const all = `${counted(workers, "worker")}, ${counted(queues, "queue")}; ${pending} pending, ${running} running`;
  if (worst === undefined) return [bold(green("All is well.")), dim(all)];
  const paint = worst.isBad ? red : yellow;
  return [
    bold(paint(worst.title)),
    dim(`  → ${worst.command}`),
    ...others.flatMap(({ brief, command }) => [`also: ${brief}`, dim(`  → ${command}`)]),
  ];
}
