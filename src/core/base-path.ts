/** The path below which a server's pages and routes are. */

/** Plain segments, without a slash at the end. */
const BASE_PATH = /^(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)*$/;

/** Without a slash at its end; empty: the root. Null: it cannot be one. */
export function basePathIn(given: string): string | null {
  const path = given.replace(/\/$/, "");
  return BASE_PATH.test(path) ? path : null;
}

/** Completes "must …". */
export const BASE_PATH_ALLOWED =
  'begin with a slash and have plain segments, such as "/admin/jobs"';
