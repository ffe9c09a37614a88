/**
 * The life of a worker, as its row tells it. The databases enforce the same: their triggers are made from these lists.
 *
 *     starting ──► running ──► stopping ──► stopped
 *
 * Anybody may close the row of a worker that gave no sign of life for too long, so every state leads to `stopped`.
 */

export const workerStates = ["starting", "running", "stopping", "stopped"] as const;
export type WorkerState = (typeof workerStates)[number];

/** A worker in one of these has its slot; one that is stopping has let go of it. */
export const activeStates = ["starting", "running"] as const satisfies WorkerState[];

export const workerMoves: Readonly<Record<WorkerState, readonly WorkerState[]>> = {
  starting: ["running", "stopping", "stopped"],
  running: ["stopping", "stopped"],
  stopping: ["stopped"],
  stopped: [],
};

/** What somebody wants a worker to do: it is told with its next heartbeat, or at once where there is push. */
export const wishes = ["run", "pause", "drain", "stop"] as const;
export type Wish = (typeof wishes)[number];

/** Why a worker's row was closed. */
export const endings = ["asked", "failed", "gone", "stale", "hung"] as const;
export type Ending = (typeof endings)[number];

export const SLOTS_MAX = 1_000;
