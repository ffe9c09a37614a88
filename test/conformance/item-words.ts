/** How the triggers refuse a change of an item, the same on every database. */
export const words = {
  initial:
    "an item begins in the initial state of its workflow, or is imported into a declared one, at revision 1",
  type: "the workflow declares no such type",
  orphan: "an item of this workflow needs a parent",
  parent: "there is no such parent",
  family: "the parent is of another workflow than declared",
  place: "an item stands below its parent",
  ended: "the parent has ended",
  behind: "a parent is never behind its children",
  move: "the workflow declares no such move",
  stay: "an item is in a state since the move that brought it there",
  keeps: "an item keeps its workflow, type, tenant, identifier and parent",
  revision: "a revision goes up by one with every change, and time does not go back",
  audited: "every change of an item leaves one line in its audit",
  retention: "items and their audit are deleted by their retention only",
  living: "only what has ended is deleted, and nothing of a workflow that keeps its items for ever",
  keep: "a workflow with items stays, and how long it keeps them changes with a line of the audit that says so",
  written: "what is in the audit stays as it is",
  told: "the audit is written by the database, with the change that it tells of",
} as const;
