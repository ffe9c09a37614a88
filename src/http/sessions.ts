/**
 * Sessions of people who signed in with a token: a cookie with a secret, of which only the hash is stored.
 *
 * The cookie never holds the token, so a stolen cookie is of use for hours and not for the life of the token. A session ends
 * with its token, at its own end, or when the person signs out.
 */
import { createHash } from "node:crypto";
import type { Runtime } from "../core/runtime.ts";

const SECRET_BYTES = 32;

/** The secret in base64url. */
const SECRET = /^[\w-]{43}$/;

/** How long a session lasts. */
export const SESSION_MS = 12 * 3_600_000;

/** Sessions of one token; signing in once more ends the oldest. */
export const SESSIONS_MAX = 50;

export function newSecret(runtime: Runtime): string {
  const bytes = new Uint8Array(SECRET_BYTES);
  runtime.fillRandom(bytes);
  return Buffer.from(bytes).toString("base64url");
}

/**
 * The hash that a session is stored under. That of the configured token depends on the token too, so another token in the
 * configuration ends its sessions.
 */
export function sessionHash(secret: string, configured: string | null): string {
  return createHash("sha256")
    .update(configured === null ? secret : `${secret}.${configured}`)
    .digest("hex");
}

// The cookie. Browsers send the cookies of a host to all its ports, so its name holds the port.

/** The names of the cookie: with the prefix, browsers accept it over HTTPS only, and for this host only. */
export function cookieNames(port: number): { readonly secure: string; readonly plain: string } {
  return { secure: `__Host-holdfast_${port}`, plain: `holdfast_${port}` };
}

/** The session's secret in a Cookie header; null: none. */
export function secretIn(header: string | undefined, port: number): string | null {
  const { secure, plain } = cookieNames(port);
  const pairs = (header ?? "").split(";").map((pair) => pair.trim());
  for (const name of [secure, plain]) {
    const pair = pairs.find((one) => one.startsWith(`${name}=`));
    const secret = pair?.slice(name.length + 1);
    if (secret !== undefined && SECRET.test(secret)) return secret;
  }
  return null;
}

/** A Set-Cookie header; without a secret, it deletes the cookie. */
export function cookieFor(secret: string | null, port: number, isSecure: boolean): string {
  const { secure, plain } = cookieNames(port);
  const lasting = secret === null ? 0 : Math.floor(SESSION_MS / 1_000);
  const common = `Path=/; Max-Age=${lasting}; HttpOnly; SameSite=Strict`;
  return isSecure
    ? `${secure}=${secret ?? ""}; ${common}; Secure`
    : `${plain}=${secret ?? ""}; ${common}`;
}
