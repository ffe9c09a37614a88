/** Tells when a module or a file beside it has changed, once for a handful of changes: an editor writes a file in several steps. */
import { watch, type FSWatcher } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { systemRuntime, type Timer } from "../core/runtime.ts";

const SETTLE_MS = 100;
const NAMES_MAX = 20;
/** A database may lie in the same folder, and changes all the time. */
const SOURCES = /^[^.].*\.(?:[cm]?[jt]sx?|json)$/;

export interface WatchOptions {
  /** The names of the files, without their folder. */
  readonly onChange: (names: readonly string[]) => void;
  readonly onError: (error: unknown) => void;
}

export function watchBeside(file: string, { onChange, onError }: WatchOptions): Disposable {
  const path = resolve(file);
  const changed = new Set<string>();
  let timer: Timer | null = null;
  const tell = (): void => {
    timer = null;
    const names = [...changed];
    changed.clear();
    onChange(names);
  };
  const hear = (_event: string, name: string | null): void => {
    const which = name ?? basename(path);
    if (!SOURCES.test(which) && which !== basename(path)) return;
    if (changed.size < NAMES_MAX) changed.add(which);
    timer?.cancel();
    timer = systemRuntime.timer(SETTLE_MS, tell);
  };
  const watcher: FSWatcher = watch(dirname(path), hear);
  watcher.on("error", onError);
  return {
    [Symbol.dispose]() {
      timer?.cancel();
      watcher.close();
    },
  };
}
