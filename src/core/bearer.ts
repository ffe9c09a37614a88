/** Rules for a bearer token that a person chooses: long enough, of characters that no client changes, and no example. */

const BEARER_LENGTH_MIN = 16;
export const BEARER_LENGTH_MAX = 512;
const DIFFERENT_MIN = 6;
const PIECE_LENGTH_MAX = 16;
const FORM = /^[\w.~+/=-]+$/;
const EXAMPLE = /(?:change|replace)[-_.]?me|your[-_.]?(?:secret|token)|placeholder|example/i;
const REPEATED = new RegExp(`^(.{1,${PIECE_LENGTH_MAX}})\\1+$`);

/** Completes "must be …". */
export const BEARER_ALLOWED =
  `${BEARER_LENGTH_MIN} to ${BEARER_LENGTH_MAX} letters, digits or any of . ~ + / = - _, such as the output of 'openssl rand -hex 32'; ` +
  `not an example such as change-me, and not a few characters repeated`;

export function isBearer(token: string): boolean {
  const { length } = token;
  return length >= BEARER_LENGTH_MIN && length <= BEARER_LENGTH_MAX && FORM.test(token);
}

/** An attacker would guess it early. */
export function isGuessable(token: string): boolean {
  return EXAMPLE.test(token) || REPEATED.test(token) || new Set(token).size < DIFFERENT_MIN;
}
