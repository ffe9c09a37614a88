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
  const into = Map.groupBy(edges, ([, to]) => to);
  const columns = new Map<string, number>();
  const columnOf = (id: string, seen: ReadonlySet<string>): number => {
    const known = columns.get(id);
    if (known !== undefined) return known;
    if (seen.has(id)) return -1;
    const before = (into.get(id) ?? []).map(([from]) => columnOf(from, new Set([...seen, id])));
    const column = Math.max(-1, ...before) + 1;
    // A value from within a circle is not final: only what was asked for first is kept.
    if (seen.size === 0) columns.set(id, column);
    return column;
  };
  for (const node of nodes) columnOf(idOf(node), new Set());
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
