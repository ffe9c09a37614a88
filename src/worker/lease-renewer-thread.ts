/** The lease renewer in its own thread. lease-renewer-host.ts starts it, sends it leases and receives its reports. */
import { isMainThread, type MessagePort, workerData } from "node:worker_threads";
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { StoreAddress } from "../database/engine.ts";
import { engineAt } from "../database/open.ts";
import { extendAgain, statementsFor } from "../jobs/statements.ts";
import { heartbeat } from "../registry/heartbeat.ts";
import type { HeartbeatWrite, WorkerVitals } from "../registry/worker-record.ts";
import { endBlockedProcess, Watchdog, watchForBlocks } from "./blocked-stack.ts";
import {
  isNotBefore,
  LeaseRenewer,
  type LeaseRenewerSettings,
  type PackedLeases,
  type Report,
  SharedWithRenewer,
  unpack,
} from "./lease-renewer.ts";

export interface LeaseRenewerThreadData {
  readonly address: StoreAddress;
  readonly settings: LeaseRenewerSettings;
  readonly shared: SharedArrayBuffer;
  readonly port: MessagePort;
  /** Before the thread was started, on the main thread's monotonic clock. */
  readonly startedAt: number;
}

export type ToRenewer =
  | { readonly kind: "hold"; readonly leases: PackedLeases; readonly sentAt: number }
  | { readonly kind: "limit"; readonly id: string; readonly stopAt: number }
  | { readonly kind: "drop"; readonly leases: PackedLeases }
  | { readonly kind: "stopRenewing"; readonly leases: PackedLeases; readonly ask: number }
  | { readonly kind: "vitals"; readonly vitals: WorkerVitals }
  | { readonly kind: "heartbeat" }
  | { readonly kind: "stop" };

export type FromRenewer =
  /** `at` is on the thread's monotonic clock. */
  | { readonly kind: "ready"; readonly at: number }
  | { readonly kind: "clocksDiffer" }
  | { readonly kind: "report"; readonly report: Report }
  | { readonly kind: "heartbeat"; readonly heartbeat: HeartbeatWrite | null }
  | { readonly kind: "stoppedRenewing"; readonly ask: number }
  | { readonly kind: "log"; readonly level: keyof Logger; readonly message: string };

/** Log lines go through the main thread's logger, which may be the user's. */
function forwardingLogger(send: (message: FromRenewer) => void): Logger {
  const forward = (level: keyof Logger) => (_facts: object, message: string) =>
    send({ kind: "log", level, message });
  return {
    debug: forward("debug"),
    info: forward("info"),
    warn: forward("warn"),
    error: forward("error"),
  };
}

function main(data: LeaseRenewerThreadData): void {
  const { port } = data;
  const send = (message: FromRenewer): void => port.postMessage(message);
  if (!isNotBefore(systemRuntime.monotonic(), data.startedAt)) {
    send({ kind: "clocksDiffer" });
    return port.close();
  }
  process.removeAllListeners("warning"); // Node's own listener would print warnings to stderr.
  process.on("warning", ({ message }) => send({ kind: "log", level: "warn", message }));
  let renewer: LeaseRenewer | null = null;
  const loop = new Loop({
    name: "lease renewer",
    runtime: systemRuntime,
    logger: forwardingLogger(send),
    saysOutages: false,
    // If the database is unavailable at the start of the thread, the loop tries again.
    once: async () => (renewer ??= await openLeaseRenewer(data, send, loop)).once(),
  });
}

/** Opens a connection, and handles the messages that arrived meanwhile. */
async function openLeaseRenewer(
  { address, settings, shared: buffer, port }: LeaseRenewerThreadData,
  send: (message: FromRenewer) => void,
  loop: Loop,
): Promise<LeaseRenewer> {
  const engine = await engineAt(address, systemRuntime);
  const statements = await statementsFor(engine);
  const shared = new SharedWithRenewer(buffer);
  const renewer = new LeaseRenewer({
    store: {
      extend: (fences, leaseMs) => extendAgain({ engine, statements }, fences, leaseMs),
      heartbeat: (id, vitals, queues) => heartbeat(engine, id, { vitals, queues }),
    },
    runtime: systemRuntime,
    settings,
    progress: () => shared.progress,
    unanswered: (since) => void (shared.unansweredSince = since),
    report: (report) => send({ kind: "report", report }),
    heartbeat: (written) => send({ kind: "heartbeat", heartbeat: written }),
  });
  port.on("message", (message: ToRenewer) => {
    switch (message.kind) {
      case "hold":
        return renewer.hold(unpack(message.leases), message.sentAt);
      case "limit":
        return renewer.limit(message.id, message.stopAt);
      case "drop":
        return renewer.drop(unpack(message.leases));
      case "stopRenewing":
        return void renewer
          .stopRenewing(unpack(message.leases))
          .then(() => send({ kind: "stoppedRenewing", ask: message.ask }));
      case "vitals":
        return renewer.setVitals(message.vitals);
      case "heartbeat":
        renewer.heartbeatNow();
        return loop.wake();
      case "stop":
        return void loop
          .stop()
          .then(() => engine.close())
          .then(() => port.close());
    }
  });
  watchForBlocks({ engine, runtime: systemRuntime, worker: settings.worker, watched: shared });
  if (settings.endBlocked) watch(renewer, shared, settings);
  send({ kind: "ready", at: systemRuntime.monotonic() });
  return renewer;
}

function watch(
  renewer: LeaseRenewer,
  shared: SharedWithRenewer,
  settings: LeaseRenewerSettings,
): void {
  const { worker, maxBlockMs: limitMs } = settings;
  const watchdog = new Watchdog({
    limitMs,
    watched: { progress: () => shared.progress, isDebugged: () => shared.isDebugged },
    now: systemRuntime.monotonic(),
  });
  const look = (): void => {
    if (watchdog.look(systemRuntime.monotonic())) {
      endBlockedProcess(worker, limitMs, renewer.jobs);
    }
    lookLater();
  };
  // A background timer: the thread ends when its port is closed.
  const lookLater = (): void => void systemRuntime.timer(watchdog.lookMs, look, "background");
  lookLater();
}

if (!isMainThread) main(workerData as LeaseRenewerThreadData);
