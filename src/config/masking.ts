/**
 * Secrets are not shown: neither in a message, nor in a log line, nor by `holdfast config`.
 *
 * What a text is meant to be is not always known, and a password may stand in any URL. So the rules go by what things look like, and rather cover too
 * much.
 */

export const COVERED = "***";

const SECRET_NAME =
  /pass(?:word|wd|phrase)?$|pwd$|secret|token$|authori[sz]ation|api[-_]?key|private[-_]?key|access[-_]?key|credential|cookie|session[-_]?id|signature/i;

/** Whether what stands under this name is a secret, most likely. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** `scheme://user:password@`, to the last @ before a blank or a quote: a password may hold anything. */
const PASSWORD_IN_URL = /(\b[a-z][a-z0-9+.-]*:\/\/[^\s"'\\/@:]*):[^\s"'\\]+@/gi;
/** `?password=…`, `&access_token=…`. */
const PARAMETER = /([?&;]([\w.-]{1,64})=)([^\s"'\\&;#]+)/g;
const CREDENTIALS = /\b(bearer|basic)\s+[\w.~+/=-]{6,}/gi;
/** `password: "…"`, `api_key=…`, in whatever text. */
const ASSIGNED =
  /((?:pass(?:word|wd|phrase)|secret|api[-_]?key|(?:access|auth|refresh|bearer)[-_]?token)["']?\s{0,4}[:=]\s{0,4})(?:"[^"]{1,512}"|'[^']{1,512}'|[^\s"',;&}\]]{1,512})/gi;

/** The text without the secrets that can be told by their looks. */
export function masked(text: string): string {
  return text
    .replaceAll(PASSWORD_IN_URL, `$1:${COVERED}@`)
    .replaceAll(PARAMETER, (all, start: string, name: string) =>
      isSecretName(name) ? `${start}${COVERED}` : all,
    )
    .replaceAll(CREDENTIALS, `$1 ${COVERED}`)
    .replaceAll(ASSIGNED, `$1${COVERED}`);
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
