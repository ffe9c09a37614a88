/** Places the nodes of a graph in columns: each stands to the right of what leads to it. */

export interface Placed<Node> {
  readonly node: Node;
  readonly column: number;
  readonly row: number;
}

/**
 * Columns by the longest way from a node without a predecessor; circles are cut where they close. Rows follow the rows of
 * the predecessors, so that lines cross less.
 */
export function layered<Node>(
  nodes: readonly Node[],
  idOf: (node: Node) => string,
  edges: readonly (readonly [string, string])[],
): Placed<Node>[] {
  const into = Map.groupBy(onwardOnly(nodes.map(idOf), edges), ([, to]) => to);
  const columns = new Map<string, number>();
  const columnOf = (id: string): number => {
    const known = columns.get(id);
    if (known !== undefined) return known;
    const column = Math.max(-1, ...(into.get(id) ?? []).map(([from]) => columnOf(from))) + 1;
    columns.set(id, column);
    return column;
  };
  for (const node of nodes) columnOf(idOf(node));
  const rows = new Map<string, number>();
  const placed: Placed<Node>[] = [];
  const byColumn = Map.groupBy(nodes, (node) => columns.get(idOf(node)) ?? 0);
  for (const column of [...byColumn.keys()].toSorted((a, b) => a - b)) {
    const wanted = (node: Node): number => {
      const before = (into.get(idOf(node)) ?? []).flatMap(([from]) => rows.get(from) ?? []);
      return before.length === 0
        ? Number.POSITIVE_INFINITY
        : before.reduce((sum, row) => sum + row, 0) / before.length;
    };
    const sorted = (byColumn.get(column) ?? []).toSorted((a, b) => {
      const [one, other] = [wanted(a), wanted(b)];
      return one === other ? 0 : one - other;
    });
    for (const [row, node] of sorted.entries()) {
      rows.set(idOf(node), row);
      placed.push({ node, column, row });
    }
  }
  return placed;
}

/** Without the lines that lead back to a node on the way to them. Ways begin where no line leads to, or else at the first. */
function onwardOnly(
  ids: readonly string[],
  edges: readonly (readonly [string, string])[],
): readonly (readonly [string, string])[] {
  const out = Map.groupBy(edges, ([from]) => from);
  const reached = new Set(edges.map(([, to]) => to));
  const onWay = new Set<string>();
  const seen = new Set<string>();
  const kept: (readonly [string, string])[] = [];
  const visit = (id: string): void => {
    seen.add(id);
    onWay.add(id);
    for (const edge of out.get(id) ?? []) {
      if (onWay.has(edge[1])) continue;
      kept.push(edge);
      if (!seen.has(edge[1])) visit(edge[1]);
    }
    onWay.delete(id);
  };
  for (const id of [...ids.filter((one) => !reached.has(one)), ...ids])
    if (!seen.has(id)) visit(id);
  return kept;
}
