/** The parts of a service that not every command needs, each loaded when it is wanted: a worker alone loads no server. */
import type { Finding } from "../core/finding.ts";
import type { Logger } from "../core/log.ts";
import type { Settings } from "../config/schema.ts";
import type { AnyTask } from "../core/task.ts";
import type { AnyWorkflow } from "../core/workflow.ts";
import type { Alerts } from "../ops/alerts.ts";
import type { Monitor, MonitorOptions } from "../ops/monitor.ts";
import type { Children, Health } from "../server/health.ts";
import type { Metrics } from "../server/metrics.ts";
import type { Server } from "../server/server.ts";
import { loadEngine } from "../store/engines.ts";
import type { Holdfast } from "../worker/holdfast.ts";

export type { Alerts, Health, Metrics, Monitor, Server };

/** What a part is made of. */
export interface Ground {
  readonly holdfast: Holdfast;
  readonly logger: Logger;
  readonly settings: Settings;
}

/** Loads what will be opened, before modules of the user's are: see thrift.ts. */
export async function loadParts(
  { url, monitor }: Settings,
  { server }: { server: boolean },
): Promise<void> {
  await import("../worker/holdfast.ts");
  await loadEngine(url);
  if (monitor > 0) await Promise.all([import("../ops/monitor.ts"), import("../ops/alerts.ts")]);
  if (!server) return;
  await Promise.all([import("../server/metrics.ts"), import("../server/health.ts")]);
  await import("../server/server.ts");
}

/** Those that the tasks module exports: a guard is a function, so whoever moves items needs the code. */
export async function workflowsOf({ tasks }: Settings): Promise<readonly AnyWorkflow[]> {
  if (tasks === null) return [];
  const { loadWorkflows } = await import("./tasks.ts");
  return loadWorkflows(tasks);
}

/** The canary's task is given to every worker while canaries are sent. */
export async function tasksWithCanary(
  tasks: readonly AnyTask[],
  { canary }: Settings,
): Promise<readonly AnyTask[]> {
  if (canary === 0) return tasks;
  const { withCanary } = await import("../ops/canary.ts");
  return withCanary(tasks);
}

export async function openMonitor({ holdfast }: Ground, options: MonitorOptions): Promise<Monitor> {
  const { startMonitor } = await import("../ops/monitor.ts");
  return startMonitor(holdfast, options);
}

export async function openAlerts({ holdfast, settings }: Ground): Promise<Alerts> {
  const { webhookUrls: urls, webhookSecret: secret, webhookPrivate: allowPrivate } = settings;
  const { Alerts } = await import("../ops/alerts.ts");
  if (urls === null) return new Alerts({ holdfast });
  const webhooks = { urls, allowPrivate, ...(secret === null ? {} : { secret }) };
  return new Alerts({ holdfast, webhooks });
}

export async function openMetrics({ holdfast }: Ground): Promise<Metrics> {
  const { Metrics } = await import("../server/metrics.ts");
  return new Metrics({ holdfast, census: () => holdfast.store.census() });
}

export async function openHealth(
  { holdfast, settings }: Ground,
  { awaitsWorker, pids }: { awaitsWorker: boolean; pids: Children["pids"] | undefined },
): Promise<Health> {
  const { Health } = await import("../server/health.ts");
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
  // A module that could not be read while developing is waited out: then there is nothing to know of.
  const workflows = tasks === null ? [] : await workflowsOf(settings);
  const { startServer } = await import("../server/server.ts");
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

/** The checks that run all the time: those that cost little, whatever is stored. */
export async function openExamination({
  holdfast,
}: Ground): Promise<() => Promise<readonly Finding[]>> {
  const { Doctor } = await import("../ops/doctor.ts");
  const doctor = new Doctor(holdfast);
  return async () => (await doctor.examine({ quick: true })).findings;
}
