/** The keeper in a thread of its own. Started by keeper-host.ts, which sends it leases and receives its reports. */
import { isMainThread, workerData, type MessagePort } from "node:worker_threads";
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { systemRuntime } from "../core/runtime.ts";
import { openKeeperStore } from "../store/keeper-store.ts";
import type { Beat, WorkerVitals } from "../store/registry.ts";
import type { StoreAddress } from "../store/store.ts";
import { SharedWithKeeper } from "./keeper-shared.ts";
import { endBlockedProcess, Watchdog } from "./watchdog.ts";
import { Keeper, unpack, type KeeperSettings, type PackedLeases, type Report } from "./keeper.ts";

export interface KeeperThreadData {
  readonly address: StoreAddress;
  readonly settings: KeeperSettings;
  readonly shared: SharedArrayBuffer;
  readonly port: MessagePort;
}

export type ToKeeper =
  | { readonly kind: "hold"; readonly leases: PackedLeases; readonly sentAt: number }
  | { readonly kind: "limit"; readonly id: string; readonly stopAt: number }
  | { readonly kind: "drop"; readonly leases: PackedLeases }
  | { readonly kind: "rest"; readonly leases: PackedLeases; readonly ask: number }
  | { readonly kind: "vitals"; readonly vitals: WorkerVitals }
  | { readonly kind: "beat" }
  | { readonly kind: "stop" };

export type FromKeeper =
  | { readonly kind: "ready" }
  | { readonly kind: "report"; readonly report: Report }
  | { readonly kind: "beat"; readonly beat: Beat | null }
  | { readonly kind: "rested"; readonly ask: number }
  | { readonly kind: "log"; readonly level: keyof Logger; readonly message: string };

/** Log lines go through the main thread's logger: there is one, and it may be the user's. */
function forwardingLogger(send: (message: FromKeeper) => void): Logger {
  const forward = (level: keyof Logger) => (_facts: object, message: string) =>
    send({ kind: "log", level, message });
  return {
    debug: forward("debug"),
    info: forward("info"),
    warn: forward("warn"),
    error: forward("error"),
  };
}

function main(data: KeeperThreadData): void {
  const { port } = data;
  const send = (message: FromKeeper): void => port.postMessage(message);
  process.removeAllListeners("warning"); // Node's own would print them beside the log.
  process.on("warning", ({ message }) => send({ kind: "log", level: "warn", message }));
  let keeper: Keeper | null = null;
  const loop = new Loop({
    name: "keeper",
    runtime: systemRuntime,
    logger: forwardingLogger(send),
    saysOutages: false,
    // A database that is away when the thread is started is met like one that goes away later: it is tried again.
    once: async () => (keeper ??= await openKeeper(data, send, loop)).once(),
  });
}

/** Opens the store once more, and hears what was said meanwhile. */
async function openKeeper(
  { address, settings, shared: buffer, port }: KeeperThreadData,
  send: (message: FromKeeper) => void,
  loop: Loop,
): Promise<Keeper> {
  const store = await openKeeperStore(address, systemRuntime);
  const shared = new SharedWithKeeper(buffer);
  const keeper = new Keeper({
    store,
    runtime: systemRuntime,
    settings,
    progress: () => shared.progress,
    unanswered: (since) => void (shared.unansweredSince = since),
    report: (report) => send({ kind: "report", report }),
    beat: (beat) => send({ kind: "beat", beat }),
  });
  port.on("message", (message: ToKeeper) => {
    switch (message.kind) {
      case "hold":
        return keeper.hold(unpack(message.leases), message.sentAt);
      case "limit":
        return keeper.limit(message.id, message.stopAt);
      case "drop":
        return keeper.drop(unpack(message.leases));
      case "rest":
        return void keeper
          .rest(unpack(message.leases))
          .then(() => send({ kind: "rested", ask: message.ask }));
      case "vitals":
        return keeper.tell(message.vitals);
      case "beat":
        keeper.beatNow();
        return loop.wake();
      case "stop":
        return void loop
          .stop()
          .then(() => store.close())
          .then(() => port.close());
    }
  });
  if (settings.endBlocked) watch(keeper, shared, settings);
  send({ kind: "ready" });
  return keeper;
}

function watch(keeper: Keeper, shared: SharedWithKeeper, settings: KeeperSettings): void {
  const { worker, blockedMsMax: limitMs } = settings;
  const watchdog = new Watchdog({
    limitMs,
    watched: { progress: () => shared.progress, isDebugged: () => shared.isDebugged },
    now: systemRuntime.monotonic(),
  });
  const look = (): void => {
    if (watchdog.look(systemRuntime.monotonic())) {
      endBlockedProcess({ limitMs, worker, jobs: keeper.jobs });
    }
    lookLater();
  };
  // In the background: the thread ends when its port is closed.
  const lookLater = (): void => void systemRuntime.timer(watchdog.lookMs, look, "background");
  lookLater();
}

if (!isMainThread) main(workerData as KeeperThreadData);
