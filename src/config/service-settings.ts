/** The server, what watches over the queues, and the process itself. */
import { WEBHOOKS_MAX } from "../core/alert.ts";
import {
  bearer,
  host,
  list,
  oneOf,
  port,
  secret,
  span,
  text,
  webUrl,
  whole,
  yesOrNo,
} from "./kind.ts";
import { DAY, SECOND, setting, settled } from "./setting.ts";

export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof logLevels)[number];

const PROCESSES_MAX = 64;

export const serverSettings = {
  host: settled({
    group: "Server",
    env: ["HOLDFAST_HOST"],
    flag: "--host <host>",
    file: "host",
    kind: host(),
    initial: "127.0.0.1",
    about: "Where the server listens. Beyond this machine, only with a token.",
  }),
  port: settled({
    group: "Server",
    env: ["HEALTH_CHECK_PORT", "HOLDFAST_PORT", "PORT"],
    flag: "--port <port>",
    file: "port",
    kind: port(),
    initial: 8080,
    about: "The port of the server. 'work' has one only when this is given.",
  }),
  token: setting({
    group: "Server",
    env: ["HOLDFAST_TOKEN"],
    flag: null,
    file: "token",
    kind: bearer(),
    initial: null,
    about: "A token that lets an operator in; others are made with 'holdfast tokens'.",
  }),
};

export const monitoringSettings = {
  monitor: settled({
    group: "Monitoring",
    env: ["MONITOR_INTERVAL_MS"],
    flag: "--monitor <duration>",
    file: "monitor",
    kind: span({ least: SECOND, most: DAY, off: true }),
    initial: 30 * SECOND,
    about: "How often the monitor looks; 0: never.",
  }),
  canary: settled({
    group: "Monitoring",
    env: ["HOLDFAST_CANARY_INTERVAL_MS"],
    flag: "--canary <duration>",
    file: "canary",
    kind: span({ least: SECOND, most: DAY, off: true }),
    initial: 0,
    about: "How often a job is sent only to see whether jobs are done; 0: never.",
  }),
  webhookUrls: setting({
    group: "Monitoring",
    env: ["HOLDFAST_WEBHOOK_URLS"],
    flag: null,
    file: "webhooks.urls",
    kind: list(webUrl(), WEBHOOKS_MAX),
    initial: null,
    about: "Where alerts are sent, with commas between them.",
  }),
  webhookSecret: setting({
    group: "Monitoring",
    env: ["HOLDFAST_WEBHOOK_SECRET"],
    flag: null,
    file: "webhooks.secret",
    kind: secret(),
    initial: null,
    about: "The key that signs what is sent there.",
  }),
  webhookPrivate: settled({
    group: "Monitoring",
    env: ["HOLDFAST_WEBHOOK_PRIVATE"],
    flag: null,
    file: "webhooks.private",
    kind: yesOrNo(),
    initial: false,
    about: "Whether they may be addresses of a private network.",
  }),
  logLevel: settled<LogLevel>({
    group: "Monitoring",
    env: ["HOLDFAST_LOG_LEVEL", "LOG_LEVEL"],
    flag: "--log-level <level>",
    file: "logLevel",
    kind: oneOf(logLevels),
    initial: "info",
    about: "What is logged: this and what is worse.",
  }),
};

export const processSettings = {
  processes: settled({
    group: "Process",
    env: ["HOLDFAST_PROCESSES"],
    flag: "--processes <n>",
    file: "processes",
    kind: whole(1, PROCESSES_MAX),
    initial: 1,
    about: "How many processes run jobs; more than one are watched over by this one.",
  }),
  nodeEnv: setting({
    group: "Process",
    env: ["NODE_ENV"],
    flag: null,
    file: null,
    kind: text("a text such as production or development"),
    initial: null,
    about: "production: the log is JSON, also on a terminal, and nothing is assumed.",
  }),
  debug: settled({
    group: "Process",
    env: ["HOLDFAST_DEBUG"],
    flag: null,
    file: null,
    kind: yesOrNo(),
    initial: false,
    about: "Adds the stack to error messages.",
  }),
  config: setting({
    group: "Process",
    env: ["HOLDFAST_CONFIG"],
    flag: "--config <file>",
    file: null,
    kind: text("the path of a module"),
    initial: null,
    about: "The file with the configuration (holdfast.config.ts, .js or .mjs, if it is there).",
  }),
};
