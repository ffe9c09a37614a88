/** A workflow as a picture: a state diagram in Mermaid's words, read off the declaration. */
import { formatMs } from "./duration.ts";
import type { AnyWorkflow } from "./workflow.ts";

/** What Mermaid takes for a name as it is. `end` is a word of its own there. */
const PLAIN = /^(?!end$)[a-z]\w*$/i;

export function diagramOf(workflow: AnyWorkflow): string {
  const names = [...workflow.states.keys()];
  const idOf = (state: string): string =>
    PLAIN.test(state) ? state : `state_${names.indexOf(state) + 1}`;
  const lines = names
    .filter((state) => !PLAIN.test(state))
    .map((state) => `state ${quoted(state)} as ${idOf(state)}`);
  lines.push(`[*] --> ${idOf(workflow.initial)}`);
  for (const [move, { from, to, guard }] of workflow.moves) {
    const label = guard === null ? move : `${move} [guarded]`;
    for (const state of from) {
      lines.push(`${idOf(state)} --> ${idOf(to)}: ${label}${limitOf(workflow, state, move)}`);
    }
  }
  for (const [state, { isFinal }] of workflow.states) {
    if (isFinal) lines.push(`${idOf(state)} --> [*]`);
  }
  return ["stateDiagram-v2", ...lines.map((line) => `    ${line}`)].join("\n");
}

/** That the move is made by itself after a while. */
function limitOf(workflow: AnyWorkflow, state: string, move: string): string {
  const limit = workflow.states.get(state)?.limit ?? null;
  return limit?.move === move ? `, or after ${formatMs(limit.ms)}` : "";
}

function quoted(text: string): string {
  return `"${text.replaceAll('"', "'")}"`;
}
