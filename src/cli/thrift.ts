/**
 * Memory of a service at rest.
 *
 * While modules are loaded V8 doubles the space for young objects several times, and an idle process never gives it back. It need not grow then: what is
 * loaded stays. Once a service is up it may grow as it likes, which is when there is work. The flag decides how much is added, and nothing else.
 */
import { setFlagsFromString } from "node:v8";

const USUAL_FACTOR = 2;

export function startSmall(): void {
  setFlagsFromString("--semi-space-growth-factor=1");
}

export function growAsUsual(): void {
  setFlagsFromString(`--semi-space-growth-factor=${USUAL_FACTOR}`);
}
