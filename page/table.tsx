/** A table by its columns. Their widths are set, so that no name pushes another column out of its panel. */
import type { JSX } from "preact";
import type { Children } from "./parts.tsx";
import "./table.css";

/** Windows below 640, 1,200 and 1,400 pixels. */
type Size = "sm" | "md" | "lg";

export interface Column<Row> {
  readonly name: string;
  /** Pixels, or a part of the table; columns without it share what is left. */
  readonly width?: number | `${number}%`;
  /** Another one below 1,200 pixels. */
  readonly narrow?: number | `${number}%`;
  /** Pixels that a column without a width in pixels has at least: the table scrolls in its panel before it has less. */
  readonly min?: number;
  readonly align?: "end";
  /** The size of window, and below, on which it is not shown. */
  readonly hide?: Size;
  /** What stands in its heading instead of its name; null: the name is for screen readers only. */
  readonly heading?: Children;
  /** Only of the column by which the rows are sorted. */
  readonly sorted?: "ascending" | "descending";
  /** Classes of its cells. */
  readonly look?: string | ((row: Row) => string);
  readonly cell: (row: Row) => Children;
}

interface TableProps<Row> {
  /** Columns that not everybody sees may be `false`. */
  readonly columns: readonly (Column<Row> | false)[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  readonly label?: string;
  /** Rows have two lines. */
  readonly tall?: boolean;
  /** The row at which the keys are, of a list that is walked with them; -1: none. */
  readonly at?: number;
  /** Whether a row is marked, other than by `at`. */
  readonly isMarked?: (row: Row) => boolean;
  /** Rows are selected, one or many. */
  readonly select?:
    | { readonly many: boolean; readonly isSelected: (row: Row) => boolean }
    | undefined;
  readonly titleOf?: (row: Row) => string | undefined;
}

/** Pixels of a column of text, before it cannot be read. */
const MIN = 112;

export function Table<Row>({
  columns: given,
  rows,
  keyOf,
  label,
  tall = false,
  at,
  isMarked = () => false,
  select,
  titleOf,
}: TableProps<Row>): JSX.Element {
  const columns = given.filter((column) => column !== false);
  return (
    <div class="tablebox" onMouseOver={tellWhole}>
      <table
        class={tall ? "table tall" : "table"}
        style={leastWidths(columns)}
        aria-label={label}
        role={select === undefined ? undefined : "grid"}
        aria-multiselectable={select?.many === true || undefined}
      >
        <colgroup>
          {columns.map(({ name, hide, width, narrow = width }) => (
            <col
              key={name}
              class={hidden(hide)}
              style={{ "--wide": lengthOf(width), "--narrow": lengthOf(narrow) }}
            />
          ))}
        </colgroup>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} class={lookOf(column)} aria-sort={column.sorted}>
                {column.heading === null ? (
                  <span class="sr">{column.name}</span>
                ) : (
                  (column.heading ?? column.name)
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr
              key={keyOf(row)}
              data-row={at === undefined ? undefined : true}
              class={index === at || isMarked(row) ? "at" : undefined}
              aria-selected={select?.isSelected(row)}
              title={titleOf?.(row)}
            >
              {columns.map((column) => (
                <td key={column.name} class={lookOf(column, row)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function hidden(hide: Size | undefined): string {
  return hide === undefined ? "" : `hide-${hide}`;
}

function lengthOf(width: number | string = "auto"): string {
  return typeof width === "number" ? `${width}px` : width;
}

/** Of a cell, or of its heading. */
function lookOf<Row>({ align, hide, look = "" }: Column<Row>, row?: Row): string {
  const own = row === undefined ? "" : typeof look === "function" ? look(row) : look;
  return [align === "end" ? "num" : "", hidden(hide), own].filter((part) => part !== "").join(" ");
}

/** What the columns that are shown need, by size of window. */
function leastWidths<Row>(columns: readonly Column<Row>[]): Record<string, string> {
  const large = columns.filter(({ hide }) => hide !== "lg");
  const medium = large
    .filter(({ hide }) => hide !== "md")
    .map(({ narrow, ...column }) => (narrow === undefined ? column : { ...column, width: narrow }));
  return {
    "--wide": leastOf(columns),
    "--large": leastOf(large),
    "--narrow": leastOf(medium),
    "--small": leastOf(medium.filter(({ hide }) => hide !== "sm")),
  };
}

function leastOf<Row>(columns: readonly Column<Row>[]): string {
  const widths = columns.map(({ width, min = MIN }) => (typeof width === "number" ? width : min));
  return `${widths.reduce((all, width) => all + width, 0)}px`;
}

/** What is cut is told whole on hover. */
function tellWhole({ target }: Event): void {
  const cell = target instanceof Element ? target.closest<HTMLElement>("td") : null;
  if (cell === null) return;
  const parts = [cell, ...cell.querySelectorAll<HTMLElement>("*:not(.sr)")];
  const isCut = parts.some(
    (part) => part.clientWidth > 0 && part.scrollWidth > part.clientWidth + 1,
  );
  if (isCut) cell.title = cell.innerText;
  else cell.removeAttribute("title");
}
