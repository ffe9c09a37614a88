/**
 * Rows of PostgreSQL as JSON, one text each.
 *
 * Where a library reads values and renames columns in its own way or the user's, and cannot be told otherwise for one
 * statement, text passes through as it is.
 */

export function askingJson(text: string): string {
  return `
    with holdfast_row as (${text})
    select row_to_json(holdfast_row)::text as json
      from holdfast_row`;
}

export function rowsIn(texts: readonly unknown[]): unknown[] {
  return texts.map((text) => JSON.parse(text as string) as unknown);
}
