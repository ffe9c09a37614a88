/** Stack traces as an application's author reads them: its own frames, without those of Holdfast and of Node. */
import { dirname } from "node:path";

/** The folder with all of Holdfast's modules, where this process has them; another host may have them elsewhere. */
const OURS = dirname(import.meta.dirname);
const INSTALLED = /[\\/]node_modules[\\/]holdfast[\\/]/;

const FRAME = /^\s+at /;
/** Enough to see where it happened. */
const FRAMES_MAX = 6;

/** The message and the first frames of the application. What is left out is counted. */
export function applicationStack(stack: string): string {
  const lines = stack.split("\n");
  const start = lines.findIndex((line) => FRAME.test(line));
  if (start === -1) return stack;
  const frames = lines.slice(start).filter((line) => FRAME.test(line));
  const shown = frames.filter((line) => !isForeign(line)).slice(0, FRAMES_MAX);
  const left = frames.length - shown.length;
  const more = left === 0 ? [] : [`    … ${left} more in --json`];
  return [...lines.slice(0, start), ...shown, ...more].join("\n");
}

function isForeign(frame: string): boolean {
  return /\bnode:/.test(frame) || INSTALLED.test(frame) || frame.includes(`${OURS}/`);
}
