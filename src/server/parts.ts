/** What a server is made of, and what its routes are given. */
import type { Logger } from "../core/log.ts";
import type { Task } from "../core/task.ts";
import type { AnyWorkflow } from "../core/workflow.ts";
import type { Observation } from "../ops/observation.ts";
import type { Holdfast } from "../worker/holdfast.ts";
import type { Feed } from "./feed.ts";
import type { Limits } from "./limits.ts";

export interface ServerParts {
  readonly holdfast: Holdfast;
  /** Where it listens. Default 127.0.0.1, which nobody reaches from elsewhere. */
  readonly host?: string;
  /** Default 8080; 0: any that is free. */
  readonly port?: number;
  readonly logger?: Logger;
  /** An operator's token from the configuration (HOLDFAST_TOKEN), beside those in the database. */
  readonly token?: string;
  /** Then nothing is open without a token. Default: whether NODE_ENV is "production". */
  readonly production?: boolean;
  /** Tasks whose schemas check what is enqueued here; others are accepted as they come. */
  readonly tasks?: readonly Task[];
  /** Workflows whose items can be moved here: a guard is a function. */
  readonly workflows?: readonly AnyWorkflow[];
  /** What `/metrics` answers. */
  readonly metrics?: { text(): Promise<string> };
  /** What `/health`, `/live` and `/ready` answer. */
  readonly health?: Probes;
  readonly monitor?: { latest(): Observation | null };
  readonly limits?: Partial<Limits>;
}

export interface Probes {
  health(): ProbeAnswer | Promise<ProbeAnswer>;
  live(): ProbeAnswer | Promise<ProbeAnswer>;
  ready(): ProbeAnswer | Promise<ProbeAnswer>;
}

/** Whatever else it tells: "ok" and "degraded" are answered with 200, everything else with 503. */
export interface ProbeAnswer {
  readonly status: string;
  readonly [fact: string]: unknown;
}

/** What routes use. */
export interface RouteParts {
  readonly holdfast: Holdfast;
  readonly limits: Limits;
  readonly feed: Feed;
  readonly tasks: ReadonlyMap<string, Task>;
  readonly workflows: ReadonlyMap<string, AnyWorkflow>;
  readonly metrics: ServerParts["metrics"];
  readonly health: Probes | undefined;
  readonly monitor: ServerParts["monitor"];
  /** Milliseconds since the server began. */
  readonly uptime: () => number;
}
