/** Who uses the command line, as the audit names them, and why. */
import { userInfo } from "node:os";
import { Option } from "commander";

export interface ReasonOptions {
  readonly reason?: string;
}

export function reasonOption(): Option {
  return new Option("--reason <text>", "why: it is kept in the audit");
}

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
