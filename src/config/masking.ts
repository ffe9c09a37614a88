/**
 * Secrets are not shown: neither in a message, nor in a log line, nor by `holdfast config`.
 *
 * A setting is printed from its parsed parts. Any other text is searched: first for the secrets of
 * this process, which are known, then for what looks like one. The rules rather cover too much.
 * Texts come from tasks and from remote servers, so the cost of every rule is linear in the length
 * of the text: no pattern begins anew inside of what it has already read in vain.
 */

export const COVERED = "***";

const SECRET_NAME =
  /pass(?:word|wd|phrase)?$|pwd$|secret|token$|authori[sz]ation|api[-_]?key|private[-_]?key|access[-_]?key|credential|cookie|session[-_]?id|signature/i;

/** Whether what stands under this name is a secret, most likely. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** A shorter one would be found in words that have nothing to do with it. */
const KNOWN_LENGTH_MIN = 8;
const KNOWN_MAX = 64;
const known = new Set<string>();

/** From now on this text is covered wherever it stands. */
export function keepSecret(secret: string): void {
  if (secret.length >= KNOWN_LENGTH_MIN && known.size < KNOWN_MAX) known.add(secret);
}

/** The password of a URL, as it is written there and as it is meant. */
export function keepPasswordOf(url: string): void {
  if (!URL.canParse(url)) return;
  const { password, username, hostname, pathname, protocol } = new URL(url);
  // Where it is the same as a name, as with a database for development, it would cover that name everywhere.
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
/** `password: "…"`, `api_key=…`; but not "password: must not be empty", which is a sentence. */
const ASSIGNED =
  /((?:pass(?:word|wd|phrase)|secret|api[-_]?key|(?:access|auth|refresh|bearer)[-_]?token)["']?\s{0,4}[:=]\s{0,4})(?:"[^"]{1,512}"|'[^']{1,512}'|(?!(?<=:\s{1,4})(?:is|was|are|must|may|can|cannot|not|no|has|should|missing|required|invalid)(?![^\s,.;:]))[^\s"',;&}\]]{1,512})/gi;
/** Tokens of this product, and those (JWT) that begin with `{"` in base64. */
const TOKEN = /\bhft_[\w-]{20,}|(?<![\w-])eyJ[\w-]{6,}(?:\.[\w-]*){1,4}/g;

/** The text without the secrets that are known, or that can be told by their looks. */
export function masked(text: string): string {
  let shown = text;
  for (const secret of known) shown = shown.replaceAll(secret, COVERED);
  if (shown.includes("-----BEGIN ")) shown = withoutKeys(shown);
  if (shown.includes("://") && shown.includes("@")) shown = withoutPasswords(shown);
  return shown
    .replaceAll(PARAMETER, (all, start: string, name: string) =>
      isSecretName(name) ? `${start}${COVERED}` : all,
    )
    .replaceAll(CREDENTIALS, `$1 ${COVERED}`)
    .replaceAll(ASSIGNED, `$1${COVERED}`)
    .replaceAll(TOKEN, COVERED);
}

const KEY_BEGINS = "-----BEGIN ";
const KEY_ENDS = "-----END ";
const DASHES = "-----";
/** `-----BEGIN ENCRYPTED PRIVATE KEY-----`. */
const PRIVATE_KEY = /^[A-Z0-9 ]{0,32}PRIVATE KEY/;
const KEY_NAME_MAX = 48;

/** Private keys in PEM; one whose end is missing goes to the end of the text. */
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
    shown += text.slice(from, at) + COVERED;
    const end = text.indexOf(KEY_ENDS, name);
    if (end === -1) return shown;
    const dashes = text.indexOf(DASHES, end + KEY_ENDS.length);
    if (dashes === -1) return shown;
    from = dashes + DASHES.length;
    at = text.indexOf(KEY_BEGINS, from);
  }
  return shown + text.slice(from);
}

/** Where a URL in a text ends, by the look of it: a password may hold a slash that should have been encoded. */
const URL_ENDS = new Set(` \t\r\n"'\\`);
/** Where the part of a URL with user, password and host ends, by the rules: a password may hold a quote or a blank. */
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
    shown += text.slice(from, start) + COVERED;
    from = end;
  }
  return shown + text.slice(from);
}

/** For each place in the text: where the last @ is before the next of these characters; -1: there is none. */
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
  const user = url.password === "" ? url.username : `${url.username}:${COVERED}`;
  // An @ behind the host is the end of a password with a character that should have been encoded.
  const isSpilt = `${url.pathname}${url.search}${url.hash}`.includes("@");
  const rest = isSpilt ? "/…" : `${url.pathname}${printedQuery(url.searchParams)}`;
  return `${url.protocol}//${user}${user === "" ? "" : "@"}${url.host}${rest}`;
}

function printedQuery(parameters: URLSearchParams): string {
  const shown = [...parameters].map(
    ([name, value]) => `${name}=${isSecretName(name) ? COVERED : value}`,
  );
  return shown.length === 0 ? "" : `?${shown.join("&")}`;
}

/** Of a URL that was not understood only the scheme can be shown: anything may stand behind it. */
export function schemeOf(text: string): string {
  const scheme = /^[a-z][a-z0-9+.-]{0,19}:/i.exec(text)?.[0];
  return scheme === undefined ? `a text of ${text.length} characters` : `"${scheme}…"`;
}

/** The path of a webhook is its key, with many services. */
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
