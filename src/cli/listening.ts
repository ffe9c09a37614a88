/** Why a server cannot listen where the settings say, in words that name the setting and what to do about it. */
import type { Origin, Origins } from "../config/config.ts";
import type { Settings } from "../config/schema.ts";
import { HoldfastError } from "../core/errors.ts";

/** The settings are well-formed; it is this machine that does not go along, and tomorrow it may. */
export class CannotListen extends HoldfastError {}

const PORTS = "--port or HEALTH_CHECK_PORT; 0 takes any that is free";
const HOSTS = "127.0.0.1 for this machine alone, 0.0.0.0 for all it has";

type Words = (settings: Settings, origins: Origins) => string;

const noSuchHost: Words = ({ host }, { host: origin }) =>
  `${named("Host", host, origin)}: this machine has no such address. ` +
  `Give one that it has with --host or HOLDFAST_HOST: ${HOSTS}.`;

/** By what the system says. */
const REASONS: Readonly<Record<string, { code: string; words: Words }>> = {
  EADDRINUSE: {
    code: "PORT_TAKEN",
    words: ({ host, port }, { port: origin }) =>
      `${named("Port", port, origin)} is taken: another process listens there on ${host}. ` +
      `End it, or give another port with ${PORTS}.`,
  },
  EACCES: {
    code: "PORT_REFUSED",
    words: ({ port }, { port: origin }) =>
      `${named("Port", port, origin)} is not for this user: the system keeps it for itself. ` +
      `Give one from 1024 on with ${PORTS}.`,
  },
  EADDRNOTAVAIL: { code: "HOST_UNKNOWN", words: noSuchHost },
  ENOTFOUND: { code: "HOST_UNKNOWN", words: noSuchHost },
  EAI_AGAIN: { code: "HOST_UNKNOWN", words: noSuchHost },
  EINVAL: { code: "HOST_UNKNOWN", words: noSuchHost },
};

/** What a server that did not start threw, in our words if we know any. */
export function whyNotListening(error: unknown, settings: Settings, origins: Origins): unknown {
  const reason = REASONS[systemCode(error) ?? ""];
  if (reason === undefined) return error;
  return new CannotListen(reason.code, reason.words(settings, origins), error);
}

function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code } = (error.cause ?? error) as { readonly code?: unknown };
  return typeof code === "string" ? code : undefined;
}

/** `PORT 8080 (environment)`; `Port 8080 (the default)`. */
function named(title: string, value: string | number, { name, source }: Origin): string {
  return `${name ?? title} ${value} (${source ?? "the default"})`;
}
