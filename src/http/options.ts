/** Settings of the server. */
import { bearer, host, port, setting, settled } from "../config/kind.ts";

export const serverSettings = {
  host: settled({
    group: "Server",
    env: ["HOLDFAST_HOST"],
    flag: "--host <host>",
    file: "host",
    kind: host(),
    initial: "127.0.0.1",
    about: "The address to listen on; a token is required unless it is a loopback address.",
  }),
  port: settled({
    group: "Server",
    env: ["HEALTH_CHECK_PORT", "HOLDFAST_PORT", "PORT"],
    flag: "--port <port>",
    file: "port",
    kind: port(),
    initial: 8080,
    about: "The port of the server; 'holdfast work' starts a server only if it is set.",
  }),
  token: setting({
    group: "Server",
    env: ["HOLDFAST_TOKEN"],
    flag: null,
    file: "token",
    kind: bearer(),
    initial: null,
    about: "An API token with the operator role; create others with 'holdfast tokens create'.",
  }),
};
