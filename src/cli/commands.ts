/** Every command, in the order of the help. Each is loaded when it is asked for: a worker at rest does without the others. */
import type { Command } from "commander";
import type { Terminal } from "./terminal.ts";

type Build = (terminal: Terminal) => Command;

const commands: Readonly<Record<string, () => Promise<Build>>> = {
  start: async () => (await import("./start.ts")).startCommand,
  work: async () => (await import("./work.ts")).workCommand,
  serve: async () => (await import("./serve.ts")).serveCommand,
  enqueue: async () => (await import("./enqueue.ts")).enqueueCommand,
  jobs: async () => (await import("./jobs.ts")).jobsCommand,
  job: async () => (await import("./job.ts")).jobCommand,
  retry: async () => (await import("./retry.ts")).retryCommand,
  cancel: async () => (await import("./cancel.ts")).cancelCommand,
  stats: async () => (await import("./stats.ts")).statsCommand,
  top: async () => (await import("./top.ts")).topCommand,
  leases: async () => (await import("./leases.ts")).leasesCommand,
  workers: async () => (await import("./workers.ts")).workersCommand,
  locks: async () => (await import("./locks.ts")).locksCommand,
  alerts: async () => (await import("./alerts.ts")).alertsCommand,
  doctor: async () => (await import("./doctor.ts")).doctorCommand,
  doubts: async () => (await import("./doubts.ts")).doubtsCommand,
  items: async () => (await import("./items.ts")).itemsCommand,
  audit: async () => (await import("./audit.ts")).auditCommand,
  migrate: async () => (await import("./migrate.ts")).migrateCommand,
  copy: async () => (await import("./copy.ts")).copyCommand,
  tokens: async () => (await import("./tokens.ts")).tokensCommand,
  config: async () => (await import("./config.ts")).configCommand,
  demo: async () => (await import("./demo.ts")).demoCommand,
  verify: async () => (await import("./verify.ts")).verifyCommand,
};

/** The one that was named, or null. */
export function namedCommand(args: readonly string[]): string | null {
  const named = args.find((arg) => !arg.startsWith("-"));
  return named !== undefined && Object.hasOwn(commands, named) ? named : null;
}

/** Only the one that was named; all of them for the help, and for a name that there is not. */
export async function buildCommands(named: string | null, terminal: Terminal): Promise<Command[]> {
  const wanted = Object.entries(commands).filter(([name]) => named === null || name === named);
  const builds = await Promise.all(wanted.map(([, load]) => load()));
  return builds.map((build) => build(terminal));
}
