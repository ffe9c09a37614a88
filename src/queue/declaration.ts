/** A workflow as it is stored: what the database can go by, without the functions. */
import type { AnyWorkflow } from "../core/workflow.ts";
import type { Declaration } from "../store/workflows.ts";

export function declarationOf(workflow: AnyWorkflow): Declaration {
  const { name, version, keepMs, types, initial } = workflow;
  return {
    name,
    version,
    parent: workflow.nests ? name : (workflow.parent?.name ?? null),
    keepMs,
    types,
    states: [...workflow.states].map(([state, { isFinal }]) => ({
      name: state,
      isInitial: state === initial,
      isFinal,
    })),
    moves: [...workflow.moves].flatMap(([move, { from, to }]) =>
      from.map((state) => ({ name: move, from: state, to })),
    ),
  };
}
