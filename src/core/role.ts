/** What a person or token may do. */

export const roles = ["viewer", "operator"] as const;

/** Viewers only read. */
export type Role = (typeof roles)[number];
