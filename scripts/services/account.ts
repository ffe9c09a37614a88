/** Whom the servers run as: ourselves, or nobody when we are root, whom PostgreSQL refuses. */
import { readFileSync } from "node:fs";

export interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** The account to change to; null when servers may run as we do. */
export function serverAccount(): Account | null {
  if (process.getuid?.() !== 0) return null;
  const account = accountIn(readFileSync("/etc/passwd", "utf8"), "nobody");
  if (account === null) throw new Error("We are root, and /etc/passwd has no user 'nobody'.");
  return account;
}

export function accountIn(passwd: string, name: string): Account | null {
  const line = passwd.split("\n").find((each) => each.startsWith(`${name}:`));
  const [, , uid, gid] = line?.split(":") ?? [];
  return uid === undefined || gid === undefined ? null : { uid: Number(uid), gid: Number(gid) };
}
