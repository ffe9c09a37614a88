import { systemRuntime, type Runtime } from "../../src/core/runtime.ts";

/** Time that passes faster, for what happens once in minutes. */
export function hurried(factor: number): Runtime {
  const startedAt = systemRuntime.monotonic();
  return {
    ...systemRuntime,
    monotonic: () => startedAt + (systemRuntime.monotonic() - startedAt) * factor,
    timer: (ms, call, kind) => systemRuntime.timer(ms / factor, call, kind),
  };
}
