/** Whether a server that the environment names can be reached. */
import { once } from "node:events";
import { connect } from "node:net";
import { KNOWN, type ServerName } from "./names.ts";

const ANSWER_LIMIT_MS = 5_000;

const USUAL_PORTS: Readonly<Record<ServerName, number>> = {
  postgres: 5432,
  mysql: 3306,
  redis: 6379,
  pgbouncer: 6432,
};

/** Why it cannot be used; null when a server listens there. */
export async function whyNoAnswer(name: ServerName, text: string): Promise<string | null> {
  const url = URL.parse(text);
  if (url === null) return `${KNOWN[name].variable} is not a URL`;
  if (url.hostname === "") return null; // A socket in a folder: the driver knows how to find it.
  const port = url.port === "" ? USUAL_PORTS[name] : Number(url.port);
  const socket = connect({ port, host: url.hostname.replaceAll(/^\[|\]$/g, "") });
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(ANSWER_LIMIT_MS) });
    return null;
  } catch {
    return `no server answers at ${url.host}, which ${KNOWN[name].variable} names`;
  } finally {
    socket.on("error", () => {}); // It was given up already.
    socket.destroy();
  }
}
