/** Who uses the command line, as the audit names them. */
import { userInfo } from "node:os";

export function actorName(): string {
  return `cli ${userName()}`;
}

/** A process may have a user that no list of users knows. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? "somebody");
  }
}
