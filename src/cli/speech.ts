/** How a service speaks: to a person at a terminal, or to whoever gathers its lines, one JSON object each. */
import type { Terminal } from "./terminal.ts";

/** Tells a process which of a command's children it is. */
export const CHILD_VARIABLE = "HOLDFAST_CHILD";

const SERVICES = new Set(["start", "work", "serve"]);

/** Read once, and gone from the environment: what a task starts is none of our children. */
const child = takeChildNumber(process.env);

function takeChildNumber(env: NodeJS.ProcessEnv): number | undefined {
  const given = env[CHILD_VARIABLE];
  Reflect.deleteProperty(env, CHILD_VARIABLE);
  return given === undefined ? undefined : Number(given);
}

/** Which of its siblings this process is; undefined: it is nobody's child. */
export function childNumber(): number | undefined {
  return child;
}

/** Somebody looks at the log, and did not ask for something else. */
export function isForPerson({ errorLive, json, env }: Terminal): boolean {
  return errorLive && !json && env["NODE_ENV"] !== "production";
}

/** Where the log is JSON, the last word of a service is a line of it too. */
export function endsInLog(terminal: Terminal, command: string | null): boolean {
  return isService(command) && !isForPerson(terminal);
}

/** Every line is one of the log: in production, and in a process whose lines its parent puts there anyhow, without knowing how bad they are. */
export function logsOnly({ env }: Terminal, command: string | null): boolean {
  return isService(command) && (child !== undefined || env["NODE_ENV"] === "production");
}

function isService(command: string | null): boolean {
  return command !== null && SERVICES.has(command);
}
