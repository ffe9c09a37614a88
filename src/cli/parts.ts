/**
 * The parts of a service that not every command needs, loaded when they are wanted: a worker alone loads none of them.
 *
 * Null: this build does not have the part.
 */
import type { Finding } from "../core/finding.ts";
import type { Logger } from "../core/log.ts";
import type { Settings } from "../config/schema.ts";
import type { AnyTask } from "../core/task.ts";
import type { Observation } from "../ops/observation.ts";
import type { Holdfast } from "../worker/holdfast.ts";
import type { Worker } from "../worker/worker.ts";

export interface Monitor {
  latest(): Observation | null;
  stop(): Promise<void>;
}

export interface MonitorOptions {
  readonly interval: number;
  readonly examine?: () => Promise<readonly Finding[]>;
  readonly onObservation: (observation: Observation) => Promise<void>;
  readonly canary?: { readonly interval: number };
}

export interface Alerts {
  observe(observation: Observation): Promise<void>;
  stop(): Promise<void> | void;
}

export interface Metrics {
  watch(worker: Worker): void;
  text(): Promise<string>;
}

export interface Health {
  watch(worker: Worker): void;
  health(): unknown;
  live(): unknown;
  ready(): unknown;
}

export interface Server {
  readonly url: string;
  close(): Promise<void>;
}

/** What a part is made of. */
export interface Ground {
  readonly holdfast: Holdfast;
  readonly logger: Logger;
  readonly settings: Settings;
}

export interface ServerParts extends Ground {
  readonly metrics: Metrics | null;
  readonly health: Health | null;
  readonly monitor: Monitor | null;
}

/** Given to every worker while canaries are sent. */
export async function canaryTasks(_settings: Settings): Promise<readonly AnyTask[]> {
  return [];
}

export async function openMonitor(
  _ground: Ground,
  _options: MonitorOptions,
): Promise<Monitor | null> {
  return null;
}

/** The checks that run all the time. */
export async function openExamination(
  _ground: Ground,
): Promise<(() => Promise<readonly Finding[]>) | null> {
  return null;
}

export async function openAlerts(_ground: Ground): Promise<Alerts | null> {
  return null;
}

export async function openMetrics(_ground: Ground): Promise<Metrics | null> {
  return null;
}

export async function openHealth(_ground: Ground): Promise<Health | null> {
  return null;
}

export async function openServer(_parts: ServerParts): Promise<Server | null> {
  return null;
}
