/** How commands show results: lists as tables. */
import { type Cell, type Column, counted, table } from "../terminal/table.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { Show } from "./operation.ts";

interface Shown<Row> extends Column {
  readonly cell: (row: Row, terminal: Terminal) => string | Cell;
  /** Only from this width on. */
  readonly from?: number;
}

export type Columns<Row> = readonly Shown<Row>[];

type CellOf<Row> = Shown<Row>["cell"];

export const plain = <Row>(title: string, cell: CellOf<Row>): Shown<Row> => ({ title, cell });
export const right = <Row>(title: string, cell: CellOf<Row>): Shown<Row> => ({
  title,
  cell,
  align: "right",
});
/** Shortened on a narrow terminal. */
export const flexible = <Row>(title: string, cell: CellOf<Row>, from = 0): Shown<Row> => ({
  title,
  cell,
  flexible: true,
  from,
});

export function tableOf<Row>(
  columns: Columns<Row>,
  rows: readonly Row[],
  terminal: Terminal,
): string[] {
  const { columns: width, colors } = terminal;
  const shown = columns.filter(({ from = 0 }) => width === null || width >= from);
  return table({
    columns: shown,
    rows: rows.map((row) => shown.map(({ cell }) => cell(row, terminal))),
    width,
    paintTitle: colors.bold,
  });
}

/** The rows of a result as a table; `none` stands for an empty one, and `unit` counts them below it. */
export function listOf<Row, Input, Result>(list: {
  readonly rows: (result: Result) => readonly Row[];
  readonly columns: Columns<Row>;
  readonly none: string | ((input: Input) => string);
  readonly unit?: string;
}): Show<Input, Result> {
  const { rows, columns, none, unit } = list;
  return (result, { terminal, input }) => {
    const found = rows(result);
    if (found.length === 0) return [typeof none === "string" ? none : none(input)];
    const count = unit === undefined ? [] : ["", terminal.colors.dim(counted(found.length, unit))];
    return [...tableOf(columns, found, terminal), ...count];
  };
}
