/** What the API assumes if a form leaves it out: a form shows the same. The page imports nothing of the server, so a test compares them. */
export const OVERLAP_DEFAULT = "allow";
