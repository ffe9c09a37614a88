/** All commands, in the order of the help. Each is loaded on demand, so an idle worker does not hold the others in memory. */
import type { Command } from "commander";
import type { Holdfast } from "../app/holdfast.ts";
import type { CommandKit } from "../terminal/kit.ts";
import type { Terminal } from "../terminal/terminal.ts";

type Build = (kit: CommandKit<Holdfast>) => Command;

const commands: Readonly<Record<string, () => Promise<Build>>> = {
  start: async () => (await import("./start.ts")).startCommand,
  work: async () => (await import("./start.ts")).workCommand,
  serve: async () => (await import("./start.ts")).serveCommand,
  enqueue: async () => (await import("./enqueue.ts")).enqueueCommand,
  jobs: async () => (await import("../jobs/command.ts")).jobsCommand,
  job: async () => (await import("./job.ts")).jobCommand,
  explain: async () => (await import("../explain/command.ts")).explainCommand,
  retry: async () => (await import("../bulk/command.ts")).retryCommand,
  cancel: async () => (await import("../bulk/command.ts")).cancelCommand,
  flows: async () => (await import("../flows/command.ts")).flowsCommand,
  rerun: async () => (await import("../steps/command.ts")).rerunCommand,
  "dead-letters": async () => (await import("../dead-letters/command.ts")).deadLettersCommand,
  bulk: async () => (await import("../bulk/command.ts")).bulkCommand,
  stats: async () => (await import("../stats/command.ts")).statsCommand,
  top: async () => (await import("./top.ts")).topCommand,
  leases: async () => (await import("../registry/lease-command.ts")).leasesCommand,
  workers: async () => (await import("../registry/command.ts")).workersCommand,
  schedules: async () => (await import("../schedules/command.ts")).schedulesCommand,
  locks: async () => (await import("../locks/command.ts")).locksCommand,
  queues: async () => (await import("../queues/command.ts")).queuesCommand,
  alerts: async () => (await import("../alerts/command.ts")).alertsCommand,
  doctor: async () => (await import("../doctor/command.ts")).doctorCommand,
  effects: async () => (await import("../steps/command.ts")).effectsCommand,
  items: async () => (await import("../workflows/command.ts")).itemsCommand,
  audit: async () => (await import("../audit/command.ts")).auditCommand,
  migrate: async () => (await import("./database.ts")).migrateCommand,
  copy: async () => (await import("../copy/command.ts")).copyCommand,
  tokens: async () => (await import("../tokens/command.ts")).tokensCommand,
  config: async () => (await import("./config.ts")).configCommand,
  demo: async () => (await import("../verify/demo-command.ts")).demoCommand,
  verify: async () => (await import("../verify/command.ts")).verifyCommand,
};

/** The named command, or null. */
export function namedCommand(args: readonly string[]): string | null {
  const named = args.find((arg) => !arg.startsWith("-"));
  return named !== undefined && Object.hasOwn(commands, named) ? named : null;
}

/** Only the named command; all of them for the help and for an unknown name. */
export async function buildCommands(named: string | null, terminal: Terminal): Promise<Command[]> {
  const wanted = Object.entries(commands).filter(([name]) => named === null || name === named);
  const builds = await Promise.all(wanted.map(([, load]) => load()));
  // The database is loaded by the command that opens one.
  const kit: CommandKit<Holdfast> = {
    terminal,
    open: async (url) => (await import("./database.ts")).openForLooking(url),
    openForWork: async (url, say) => (await import("./database.ts")).openForWork(url, say),
  };
  return builds.map((build) => build(kit));
}
