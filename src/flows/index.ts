/** `holdfast/flows`: types and errors of flows and batches. An application calls `holdfast.flows` and `holdfast.batches`. */
export type { After } from "../jobs/after.ts";
export type { DependencyPolicy } from "../jobs/store.ts";
export type { FlowBuilder, FlowJob, FlowJobOptions, FlowJobSpec } from "./builder.ts";
export {
  CircleError,
  DependencyNotFoundError,
  DependencyUnmetError,
  FlowNotFoundError,
  StartedError,
} from "./errors.ts";
export type { Batch, Batches, BatchOptions, BuildFlow } from "./flows.ts";
export type {
  Flow,
  FlowJobsOptions,
  FlowPageOptions,
  FlowRetryOptions,
  Flows,
  FlowStatus,
  FlowView,
} from "./flows.ts";
export type {
  FlowEdge,
  FlowFacts,
  FlowJobRecord,
  FlowJobState,
  FlowKind,
  FlowsFilter,
} from "./store.ts";
export type { DependencyView } from "./results.ts";
