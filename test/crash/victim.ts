/**
 * The process that is killed: `node victim.ts <file> <verb> <point>`.
 *
 * It opens the database, calls the verb and ends itself with SIGKILL at the given point: before the first statement, and
 * after every one. What lies between one statement and the next reaches no file, so it is not killed there too, unless
 * LONG=1. With point 0 it lives, and prints all points.
 */
import { writeSync } from "node:fs";
import { SqliteEngine } from "../../src/database/sqlite/engine.ts";
import { isLong } from "../support/scale.ts";
import { CRASH_AT, runtimeOn, verbs } from "./verbs.ts";
import { storeOn } from "../../src/app/store.ts";

const [path = "", name = "", killAt = ""] = process.argv.slice(2);
const points: string[] = [];

function probe(point: string): void {
  const isNew = points.length === 0 || point.startsWith("after");
  if (!isNew && !isLong) return;
  points.push(point);
  if (points.length !== Number(killAt)) return;
  writeSync(process.stdout.fd, JSON.stringify([point]));
  process.kill(process.pid, "SIGKILL");
}

const verb = verbs[name];
if (verb === undefined) throw new Error(`No verb is called '${name}'.`);
const runtime = runtimeOn({ now: CRASH_AT });
const engine = await SqliteEngine.open({ path, runtime, create: false, probe });
const store = await storeOn(engine);
await verb.act(store);
await store.close();
process.stdout.write(JSON.stringify(points)); // writeSync may write a part of it
