/** Published as `holdfast/workflows`: declared state machines, and their items. */

export type { ChildrenIn, ItemAction, ItemEntry, ItemRecord } from "../core/item.ts";
export {
  IntegrityViolationError,
  InvalidMoveError,
  ItemChangedError,
  ItemNotFoundError,
  ItemsStrandedError,
  MoveRefusedError,
  WorkflowConflictError,
  type Strand,
} from "./errors.ts";
export type { HistoryEntry } from "./history.ts";
export type {
  ChildChange,
  ChildPatch,
  HistoryOptions,
  ImportedItem,
  ItemChange,
  ItemContent,
  ItemsFilter,
  NewItem,
} from "./options.ts";
export {
  defineWorkflow,
  diagramOf,
  unchecked,
  type AnyWorkflow,
  type ChildrenEnd,
  type EnqueueOnEntry,
  type EntryFacts,
  type EntryJobOptions,
  type GuardFacts,
  type LockTimes,
  type MoveOptions,
  type MoveRules,
  type StateOptions,
  type StateRules,
  type Verdict,
  type Workflow,
  type WorkflowOptions,
} from "./workflow.ts";
export type { Item, Workflows } from "./workflows.ts";
