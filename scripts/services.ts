/**
 * `npm run services`: all servers that the tests use, for work by hand. It prints what to export,
 * and keeps them running until it is interrupted.
 */
import { once } from "node:events";
import { notTested } from "./services/choice.ts";
import { SERVERS, TOOLS } from "./services/names.ts";
import { Supply } from "./services/supply.ts";

const ENDINGS = ["SIGHUP", "SIGINT", "SIGTERM"] as const;
const LONG_MS = 1e9;

const interrupted = Promise.race(ENDINGS.map(async (signal) => once(process, signal)));
// Waiting for a signal alone does not keep a process alive.
const alive = setInterval(() => {}, LONG_MS);
// An environment without names: here, servers are started whether or not others are known.
const demand = { shared: [...SERVERS, ...TOOLS] as const, own: [] };
const supply = await Supply.for(demand, { env: {}, say: (line) => console.log(`# ${line}`) });
for (const [name, value] of Object.entries(supply.env)) console.log(`export ${name}='${value}'`);
if (supply.missing.length > 0) console.error(notTested(supply.missing));
console.log(`# Process ${process.pid} keeps them running: press Ctrl-C to stop them.`);
await interrupted;
clearInterval(alive);
await supply[Symbol.asyncDispose]();
console.log("# Stopped.");
