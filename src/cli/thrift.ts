/**
 * Memory of a service at rest. While its modules are loaded V8 is kept from two things that an idle process never gives back: the space for young
 * objects does not grow, and no function is optimised. The compilers alone are 8 MB of Node's program, and what runs while modules are loaded runs
 * once. Functions are compiled as usual again before a module of the user's is loaded; the space may grow once the service is up. A worker alone is
 * held back once more until its first job: what it does at rest, over and over, would have them compiled within minutes.
 */
import { setFlagsFromString } from "node:v8";

const USUAL_FACTOR = 2;
const COMPILERS = ["opt", "maglev"];
/** Whoever says something about the compilers is right. */
const ABOUT_COMPILERS =
  /--(no-?)?(opt|maglev|turbofan|sparkplug|always|jitless|lite-mode|interpreted)/;

let isHeldBack = false;

/** Called by the launcher before anything else is loaded. */
export function beThrifty(): void {
  setFlagsFromString("--semi-space-growth-factor=1");
  holdBack();
}

/** No function is optimised from here on that is not yet. */
export function holdBack(): void {
  const given = [...process.execArgv, process.env["NODE_OPTIONS"] ?? ""];
  if (given.some((flags) => ABOUT_COMPILERS.test(flags))) return;
  for (const compiler of COMPILERS) setFlagsFromString(`--no-${compiler}`);
  isHeldBack = true;
}

export function compileAsUsual(): void {
  if (!isHeldBack) return;
  for (const compiler of COMPILERS) setFlagsFromString(`--${compiler}`);
  isHeldBack = false;
}

export function growAsUsual(): void {
  setFlagsFromString(`--semi-space-growth-factor=${USUAL_FACTOR}`);
}
