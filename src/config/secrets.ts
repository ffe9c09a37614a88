/**
 * Redacts secrets in messages, in log lines and in the output of `holdfast config`.
 *
 * A setting is printed from its parsed parts. Any other text is searched, first for the known secrets of this process, then for
 * anything that looks like one. When in doubt, text is redacted. The text may come from tasks or remote servers, so every rule
 * runs in linear time: no pattern restarts within text that it has already scanned.
 */
import { HIDDEN, ownRedaction } from "./redaction.ts";

export const REDACTED = "***";

const SECRET_NAME =
  /pass(?:word|wd|phrase)?$|pwd$|secret|token$|authori[sz]ation|api[-_]?key|private[-_]?key|access[-_]?key|credential|cookie|session[-_]?id|signature/i;

/** Whether a value with this name is probably a secret. */
function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** A shorter secret would also match parts of unrelated words. */
const KNOWN_LENGTH_MIN = 8;
const KNOWN_MAX = 64;
const known = new Set<string>();

/** Redacts this text from now on, wherever it occurs. */
export function keepSecret(secret: string): void {
  if (secret.length >= KNOWN_LENGTH_MIN && known.size < KNOWN_MAX) known.add(secret);
}

/** The password of a URL, both encoded and decoded. */
export function keepPasswordOf(url: string): void {
  if (!URL.canParse(url)) return;
  const { password, username, hostname, pathname, protocol } = new URL(url);
  // A password that equals a name, as in a development database, would redact that name everywhere.
  const names = [username, hostname, pathname.slice(1), protocol.slice(0, -1)];
  if (names.includes(password)) return;
  keepSecret(password);
  const meant = decoded(password);
  if (meant !== null) keepSecret(meant);
}

/** For tests. */
export function forgetSecrets(): void {
  known.clear();
}

/** `?password=…`, `&access_token=…`. */
const PARAMETER = /([?&;]([\w.-]{1,64})=)([^\s"'\\&;#]+)/g;
const CREDENTIALS = /\b(bearer|basic)\s{1,8}[\w.~+/=-]{6,}/gi;

/** `password: "…"`, `api_key=…`, but not the sentence "password: must not be empty". */
const ASSIGNED =
  /((?:pass(?:word|wd|phrase)|secret|api[-_]?key|(?:access|private)[-_]?key|(?:access|auth|refresh|bearer)[-_]?token)["']?\s{0,4}[:=]\s{0,4})(?:"[^"]{1,512}"|'[^']{1,512}'|(?!(?<=:\s{1,4})(?:is|was|are|must|may|can|cannot|not|no|has|should|missing|required|invalid)(?![^\s,.;:]))[^\s"',;&}\]]{1,512})/gi;

/** Holdfast's own tokens, and JWTs, which begin with `{"` in base64. */
const TOKEN = /\bhft_[\w-]{20,}|(?<![\w-])eyJ[\w-]{6,}(?:\.[\w-]*){1,4}/g;

/** Webhooks whose path is their secret. */
const WEBHOOK =
  /(\bhooks\.slack(?:-gov)?\.com\/|\bdiscord(?:app)?\.com\/api\/webhooks\/)[\w/-]{1,512}/gi;

/** The text without known secrets and without anything that looks like one. */
export function redacted(text: string): string {
  let shown = text;
  for (const secret of known) shown = shown.replaceAll(secret, REDACTED);
  if (shown.includes("-----BEGIN ")) shown = withoutKeys(shown);
  if (shown.includes("://") && shown.includes("@")) shown = withoutPasswords(shown);
  return shown
    .replaceAll(PARAMETER, (all, start: string, name: string) =>
      isSecretName(name) ? `${start}${REDACTED}` : all,
    )
    .replaceAll(CREDENTIALS, `$1 ${REDACTED}`)
    .replaceAll(ASSIGNED, `$1${REDACTED}`)
    .replaceAll(WEBHOOK, `$1${REDACTED}`)
    .replaceAll(TOKEN, REDACTED);
}

const KEY_BEGINS = "-----BEGIN ";
const KEY_ENDS = "-----END ";
const DASHES = "-----";
/** `-----BEGIN ENCRYPTED PRIVATE KEY-----`. */
const PRIVATE_KEY = /^[A-Z0-9 ]{0,32}PRIVATE KEY/;
const KEY_NAME_MAX = 48;

/** Removes PEM private keys. A key without an end marker extends to the end of the text. */
function withoutKeys(text: string): string {
  let shown = "";
  let from = 0;
  let at = text.indexOf(KEY_BEGINS);
  while (at !== -1) {
    const name = at + KEY_BEGINS.length;
    if (!PRIVATE_KEY.test(text.slice(name, name + KEY_NAME_MAX))) {
      at = text.indexOf(KEY_BEGINS, name);
      continue;
    }
    shown += text.slice(from, at) + REDACTED;
    const end = text.indexOf(KEY_ENDS, name);
    if (end === -1) return shown;
    const dashes = text.indexOf(DASHES, end + KEY_ENDS.length);
    if (dashes === -1) return shown;
    from = dashes + DASHES.length;
    at = text.indexOf(KEY_BEGINS, from);
  }
  return shown + text.slice(from);
}

/** Where a URL in free text seems to end: a password may contain a slash that should have been encoded. */
const URL_ENDS = new Set(` \t\r\n"'\\`);

/** Where the authority of a URL ends according to the standard: a password may contain a quote or a space. */
const AUTHORITY_ENDS = new Set("/?#\r\n");
const USER_ENDS = new Set([...URL_ENDS, "/", "@", ":"]);
const PORT = /^\d{1,5}(?![^\s"'),;:.\]])/;
const PORT_LENGTH_MAX = 6;

/** `scheme://user:password@host`. */
function withoutPasswords(text: string): string {
  const inUrl = lastAts(text, URL_ENDS);
  const inAuthority = lastAts(text, AUTHORITY_ENDS);
  let shown = "";
  let from = 0;
  for (let at = text.indexOf("://"); at !== -1; at = text.indexOf("://", Math.max(at + 1, from))) {
    let colon = at + 3;
    while (colon < text.length && !USER_ENDS.has(text.charAt(colon))) colon += 1;
    if (text.charAt(colon) !== ":") continue;
    const start = colon + 1;
    const isPort = PORT.test(text.slice(start, start + PORT_LENGTH_MAX));
    const isSentence = /\s/.test(text.charAt(start));
    const byRules = isPort || isSentence ? -1 : (inAuthority[start] ?? -1);
    const end = Math.max(inUrl[start] ?? -1, byRules);
    if (end <= start) continue;
    shown += text.slice(from, start) + REDACTED;
    from = end;
  }
  return shown + text.slice(from);
}

/** For each index: the position of the last @ before the next of these characters; -1: none. */
function lastAts(text: string, ends: ReadonlySet<string>): Int32Array {
  const last = new Int32Array(text.length);
  for (let at = text.length - 1, found = -1; at >= 0; at -= 1) {
    const character = text.charAt(at);
    if (ends.has(character)) found = -1;
    else if (character === "@" && found === -1) found = at;
    last[at] = found;
  }
  return last;
}

/** A URL as it may be printed, from its parts. */
export function printedUrl(text: string): string {
  if (/^sqlite:/i.test(text)) return text;
  if (!URL.canParse(text)) return schemeOf(text);
  const url = new URL(text);
  const user = url.password === "" ? url.username : `${url.username}:${REDACTED}`;
  // An @ after the host ends a password that contains a character that should have been encoded.
  const isSpilt = `${url.pathname}${url.search}${url.hash}`.includes("@");
  const rest = isSpilt ? "/…" : `${url.pathname}${printedQuery(url.searchParams)}`;
  return `${url.protocol}//${user}${user === "" ? "" : "@"}${url.host}${rest}`;
}

function printedQuery(parameters: URLSearchParams): string {
  const shown = [...parameters].map(
    ([name, value]) => `${name}=${isSecretName(name) ? REDACTED : value}`,
  );
  return shown.length === 0 ? "" : `?${shown.join("&")}`;
}

/** Only the scheme of a URL that cannot be parsed may be shown: the rest may be a secret. */
export function schemeOf(text: string): string {
  const scheme = /^[a-z][a-z0-9+.-]{0,19}:/i.exec(text)?.[0];
  return scheme === undefined ? `a string of ${text.length} characters` : `"${scheme}…"`;
}

/** For many services the path of a webhook is its secret. */
export function originOf(text: string): string {
  return URL.canParse(text) ? `${new URL(text).origin}/…` : schemeOf(text);
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

// Redacts secrets from the fields of log lines.
//
// Fields come from anywhere: a driver's error may contain its whole request. So all values are copied, down to a limited depth.
// A value whose name suggests a secret is redacted, and so is any text that looks like one.

const DEPTH_MAX = 6;
const ENTRIES_MAX = 64;
const TEXT_LENGTH_MAX = 8_192;

/** Only this much of a text is searched. */
const READ_LENGTH_MAX = 2 * TEXT_LENGTH_MAX;

/** The end of the searched part may be the first half of a secret, so this much of it is not shown. */
const SECRET_LENGTH_MAX = 1_024;
const CUT = "[…]";

export function redactedFacts(facts: object): Record<string, unknown> {
  return entriesOf(facts, 0, new Set());
}

/** A value passed to `console`. */
export function redactedValues(value: unknown): unknown {
  return copy(value, 0, new Set());
}

/** Redacts before it truncates: half of a secret does not look like one. */
export function redactedText(text: string): string {
  if (text.length <= TEXT_LENGTH_MAX) return redacted(text);
  const shown = redacted(text.slice(0, READ_LENGTH_MAX));
  const unsure = text.length > READ_LENGTH_MAX ? SECRET_LENGTH_MAX : 0;
  const length = Math.min(TEXT_LENGTH_MAX, Math.max(0, shown.length - unsure));
  return `${shown.slice(0, length)}${CUT}`;
}

type Above = Set<object>;

function copy(value: unknown, depth: number, above: Above): unknown {
  if (typeof value === "string") return redactedText(value);
  if (typeof value === "bigint") return String(value);
  if (typeof value === "function" || typeof value === "symbol") return undefined;
  if (typeof value !== "object" || value === null) return value;
  if (above.has(value) || depth > DEPTH_MAX) return CUT;
  if (value instanceof Date || value instanceof URL) return redactedText(textOf(value));
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  const within = new Set(above).add(value);
  if (value instanceof Error) return errorOf(value, depth + 1, within);
  if (Array.isArray(value) || value instanceof Set) {
    return [...value].slice(0, ENTRIES_MAX).map((each) => copy(each, depth + 1, within));
  }
  if (value instanceof Map)
    return entriesOf(Object.fromEntries(value) as object, depth + 1, within);
  return entriesOf(value, depth + 1, within);
}

function textOf(value: Date | URL): string {
  if (value instanceof URL) return value.href;
  return Number.isNaN(value.getTime()) ? "no date" : value.toISOString();
}

function entriesOf(value: object, depth: number, above: Above): Record<string, unknown> {
  const copied: Record<string, unknown> = {};
  for (const name of Object.keys(value).slice(0, ENTRIES_MAX)) {
    const kept = redactedValue(name, read(value, name), depth, above);
    // Defined, not assigned: a field may be called __proto__.
    if (kept !== undefined)
      Object.defineProperty(copied, name, { value: kept, enumerable: true, configurable: true });
  }
  return copied;
}

/** A number called token is the fencing token of a lock, not a secret. */
function redactedValue(name: string, value: unknown, depth: number, above: Above): unknown {
  if (value === null || value === undefined || typeof value === "boolean") return value;
  if (ownRedaction().hides(name)) return HIDDEN;
  if (!isSecretName(name)) return copy(value, depth, above);
  return typeof value === "number" && /token$/i.test(name) ? value : REDACTED;
}

function errorOf(error: Error, depth: number, above: Above): Record<string, unknown> {
  const { cause } = error;
  // The error's own fields come first: one called `type` must not hide the error's class.
  return {
    ...entriesOf(error, depth, above),
    type: error.name,
    message: redactedText(error.message),
    ...(typeof error.stack === "string" ? { stack: redactedText(error.stack) } : {}),
    ...(cause === undefined ? {} : { cause: copy(cause, depth, above) }),
  };
}

/** A getter may throw. */
function read(value: object, name: string): unknown {
  try {
    return (value as Record<string, unknown>)[name];
  } catch {
    return CUT;
  }
}
