/** How the demo's workers are set up: short leases, so that a dead worker's orders come back within seconds. */

export const CONCURRENCY = 4;
export const LEASE_MS = 1_500;
export const GRACE_MS = 300;
export const UPKEEP_MS = 200;
