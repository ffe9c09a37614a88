/** The optional parts of a service, loaded on demand: a worker without a server does not load one. */
import type { Alerts } from "../alerts/alerts.ts";
import type { Holdfast } from "../app/holdfast.ts";
import type { Server } from "../app/server.ts";
import type { Settings } from "../app/settings.ts";
import type { Finding } from "../core/finding.ts";
import type { Logger } from "../core/log.ts";
import type { AnyTask } from "../core/task.ts";
import type { Children, Health } from "../monitoring/health.ts";
import type { Metrics } from "../monitoring/metrics.ts";
import type { Monitor, MonitorOptions } from "../monitoring/monitor.ts";
import type { AnyWorkflow } from "../workflows/workflow.ts";

export type { Alerts, Health, Metrics, Monitor, Server };

/** What every part needs. */
export interface Ground {
  readonly holdfast: Holdfast;
  readonly logger: Logger;
  readonly settings: Settings;
}

/** The workflows that the tasks module exports. Guards are functions, so moving items requires the code. */
export async function workflowsOf({ tasks }: Settings): Promise<readonly AnyWorkflow[]> {
  if (tasks === null) return [];
  const { loadWorkflows } = await import("./tasks.ts");
  return loadWorkflows(tasks);
}

/** While canaries are sent, every worker runs the canary's task. */
export async function tasksWithCanary(
  tasks: readonly AnyTask[],
  { canary }: Settings,
): Promise<readonly AnyTask[]> {
  if (canary === 0) return tasks;
  const { withCanary } = await import("../monitoring/canary.ts");
  return withCanary(tasks);
}

export async function openMonitor({ holdfast }: Ground, options: MonitorOptions): Promise<Monitor> {
  const { startMonitor } = await import("../monitoring/monitor.ts");
  return startMonitor(holdfast, options);
}

export async function openAlerts({ holdfast, settings }: Ground): Promise<Alerts> {
  const { webhookUrls: urls, webhookSecret: secret, webhookPrivate: allowPrivate } = settings;
  const { Alerts } = await import("../alerts/alerts.ts");
  if (urls === null) return new Alerts({ holdfast });
  const webhooks = { urls, allowPrivate, ...(secret === null ? {} : { secret }) };
  return new Alerts({ holdfast, webhooks });
}

export async function openMetrics({ holdfast }: Ground): Promise<Metrics> {
  const { Metrics } = await import("../monitoring/metrics.ts");
  return new Metrics({ holdfast, counts: () => holdfast.store.stats.counts() });
}

export async function openHealth(
  { holdfast, settings }: Ground,
  { awaitsWorker, pids }: { awaitsWorker: boolean; pids: Children["pids"] | undefined },
): Promise<Health> {
  const { Health } = await import("../monitoring/health.ts");
  const children =
    pids === undefined ? {} : { children: { pids, heartbeatMs: settings.heartbeat } };
  return new Health({ holdfast, awaitsWorker, ...children });
}

interface ServerParts extends Ground {
  readonly tasks: readonly AnyTask[] | null;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly monitor: Pick<Monitor, "latest"> | null;
}

export async function openServer(parts: ServerParts): Promise<Server> {
  const { holdfast, logger, settings, tasks, metrics, health, monitor } = parts;
  const { host, port, token, nodeEnv } = settings;
  // With --watch, a broken tasks module is not an error: the server starts without its tasks and workflows.
  const workflows = tasks === null ? [] : await workflowsOf(settings);
  const { startServer } = await import("../app/server.ts");
  return startServer({
    holdfast,
    logger,
    host,
    port,
    production: nodeEnv === "production",
    metrics,
    health,
    workflows,
    ...(token === null ? {} : { token }),
    ...(tasks === null ? {} : { tasks }),
    ...(monitor === null ? {} : { monitor }),
  });
}

/** The doctor's quick checks, which the monitor repeats. */
export async function openExamination({
  holdfast,
}: Ground): Promise<() => Promise<readonly Finding[]>> {
  const { Doctor } = await import("../doctor/doctor.ts");
  const doctor = new Doctor(holdfast);
  return async () => (await doctor.examine({ quick: true })).findings;
}
