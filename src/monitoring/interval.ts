/** How often a monitor looks, in a program and in `holdfast start`: each has its table of options. */
export const MONITOR_INTERVAL_MS = 30_000;
