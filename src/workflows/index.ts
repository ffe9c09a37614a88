/** Published as `holdfast/workflows`: declared state machines, and their items. */

export type { ChildrenIn, ItemEntry, ItemRecord } from "../core/item.ts";
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
  ItemsFilter,
  NewItem,
} from "./options.ts";
export {
  defineWorkflow,
  diagramOf,
  unchecked,
  type AnyWorkflow,
  type EntryFacts,
  type GuardFacts,
  type MoveOptions,
  type StateOptions,
  type Verdict,
  type Workflow,
} from "./workflow.ts";
export type { Item, Workflows } from "./workflows.ts";
