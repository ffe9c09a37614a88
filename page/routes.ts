/**
 * Ways of the lines between boxes that stand in columns and rows: they run in the gaps, so none crosses a box.
 *
 * A line that goes on leaves its box on the right and arrives on the left. One that goes back leaves below.
 */

export interface Cell {
  readonly column: number;
  readonly row: number;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

interface Line {
  readonly from: Cell;
  readonly to: Cell;
}

export interface Route {
  readonly points: readonly Point[];
  /** Where its text stands: the left upper corner, and how wide it may be. */
  readonly label: Point & { readonly width: number };
}

export const BOX = { width: 132, height: 76 };
export const LABEL_HEIGHT = 14;
const GAP = { x: 120, y: 64 };
const EDGE = { x: 8, y: 20 };

/** What stands beside each other in a gap: texts, then lines, then heads of arrows. */
const TEXT_WIDTH = 84;
const ACROSS = { first: TEXT_WIDTH + 6, step: 6, lanes: 3 };
const ALONG = { first: 26, step: 12, lanes: 3 };
const PORT = { first: 14, step: 10, lanes: 4 };

export function boxAt({ column, row }: Cell): Point {
  return { x: column * (BOX.width + GAP.x) + EDGE.x, y: row * (BOX.height + GAP.y) + EDGE.y };
}

/** The size of a drawing with so many columns and rows. */
export function sizeOf(columns: number, rows: number): { width: number; height: number } {
  const last = boxAt({ column: columns - 1, row: rows - 1 });
  const right = columns === 1 ? GAP.x : EDGE.x;
  return { width: last.x + BOX.width + right, height: last.y + BOX.height + GAP.y };
}

/** The ways, in the order of the lines. */
export function routesOf(lines: readonly Line[]): Route[] {
  return lines.map((line, at) =>
    isOn(line) ? onward(line, at, lines.filter(isOn)) : back(line, at),
  );
}

function isOn({ from, to }: Line): boolean {
  return to.column > from.column;
}

function lane({ first, step, lanes }: typeof ACROSS, at: number): number {
  return first + (at % lanes) * step;
}

/** In the gap to the right of a column. */
function acrossAt(column: number, at: number): number {
  return boxAt({ column, row: 0 }).x + BOX.width + lane(ACROSS, at);
}

/** In the gap below a row. */
function alongAt(row: number, at: number): number {
  return boxAt({ column: 0, row }).y + BOX.height + lane(ALONG, at);
}

function isSame(one: Cell, other: Cell): boolean {
  return one.column === other.column && one.row === other.row;
}

/** Lines at one side of a box share it, in the order of where they go. */
function portOf(line: Line, own: "from" | "to", all: readonly Line[]): number {
  const far = own === "from" ? "to" : "from";
  const beside = all
    .filter((one) => isSame(one[own], line[own]))
    .toSorted((a, b) => a[far].row - b[far].row || a[far].column - b[far].column);
  const share = (beside.indexOf(line) + 1) / (beside.length + 1);
  return boxAt(line[own]).y + share * BOX.height;
}

function onward(line: Line, at: number, all: readonly Line[]): Route {
  const { from, to } = line;
  const start = { x: boxAt(from).x + BOX.width, y: portOf(line, "from", all) };
  const end = { x: boxAt(to).x, y: portOf(line, "to", all) };
  const label = { x: start.x + 4, y: start.y - LABEL_HEIGHT - 1, width: TEXT_WIDTH };
  const [first, last] = [acrossAt(from.column, at), acrossAt(to.column - 1, at)];
  const isNext = to.column === from.column + 1;
  const y = alongAt(to.row > from.row ? to.row - 1 : to.row, at);
  const between = isNext
    ? []
    : [
        { x: first, y },
        { x: last, y },
      ];
  const points = [start, { x: first, y: start.y }, ...between, { x: last, y: end.y }, end];
  return { points, label };
}

function back({ from, to }: Line, at: number): Route {
  const [a, b] = [boxAt(from), boxAt(to)];
  const out = a.x + BOX.width / 2 + lane(PORT, at);
  const into = b.x + BOX.width / 2 - lane(PORT, at);
  const y = alongAt(from.row, at);
  const start = [
    { x: out, y: a.y + BOX.height },
    { x: out, y },
  ];
  const isBelow = to.row > from.row;
  const side = { x: into, y: isBelow ? b.y : b.y + BOX.height };
  const label = labelOn(out, into, y);
  const turn = alongAt(isBelow ? to.row - 1 : to.row, at);
  if (turn === y) return { points: [...start, { x: into, y }, side], label };
  const gap = acrossAt(Math.max(0, to.column - 1), at);
  const points = [...start, { x: gap, y }, { x: gap, y: turn }, { x: into, y: turn }, side];
  return { points, label };
}

function labelOn(x1: number, x2: number, y: number): Route["label"] {
  const width = Math.max(Math.abs(x2 - x1) - 8, BOX.width);
  return { x: (x1 + x2 - width) / 2, y: y - LABEL_HEIGHT - 1, width };
}
