/** A list that is walked with `j` and `k`, and in which rows are selected with `x`. */
import { useEffect, useState } from "preact/hooks";
import { useKeys } from "./keys.ts";

export interface Rows {
  /** The row that the keys are at; -1: none. */
  readonly at: number;
  readonly setAt: (at: number) => void;
}

/** The rows are the elements with `data-row` on the page; the link in one has the focus. */
export function useRows(count: number): Rows {
  const [at, setAt] = useState(-1);
  const move = (by: number): void => {
    const next = Math.min(count - 1, Math.max(0, at + by));
    setAt(next);
  };
  useEffect(() => {
    if (at < 0) return;
    const row = document.querySelectorAll<HTMLElement>("[data-row]")[at];
    row?.querySelector<HTMLElement>("a, button")?.focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest" });
  }, [at]);
  useKeys({ j: () => move(1), k: () => move(-1) });
  return { at, setAt };
}

export interface Selection {
  readonly ids: ReadonlySet<string>;
  readonly toggle: (id: string, on?: boolean) => void;
  readonly setAll: (ids: readonly string[]) => void;
  readonly clear: () => void;
}

/** Selections by address, so that they are still there when a person comes back. */
const kept = new Map<string, ReadonlySet<string>>();
const KEPT_MAX = 20;

export function useSelection(address: string): Selection {
  const [, draw] = useState(0);
  const ids = kept.get(address) ?? new Set<string>();
  const set = (next: ReadonlySet<string>): void => {
    kept.delete(address);
    if (next.size > 0) kept.set(address, next);
    const [oldest] = kept.keys();
    if (kept.size > KEPT_MAX && oldest !== undefined) kept.delete(oldest);
    draw((times) => times + 1);
  };
  return {
    ids,
    toggle: (id, on = !ids.has(id)) => {
      const next = new Set(ids);
      if (on) next.add(id);
      else next.delete(id);
      set(next);
    },
    setAll: (all) => set(new Set(all)),
    clear: () => set(new Set()),
  };
}
