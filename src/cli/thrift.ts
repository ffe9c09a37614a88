/**
 * Memory of a service at rest: the launcher keeps the space for young objects from growing while modules are loaded, because an idle process never
 * gives it back. Once a service is up it may grow, which it does when there is work. The flag decides how much is added, and nothing else.
 */
import { setFlagsFromString } from "node:v8";

const USUAL_FACTOR = 2;

export function growAsUsual(): void {
  setFlagsFromString(`--semi-space-growth-factor=${USUAL_FACTOR}`);
}
