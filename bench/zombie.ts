/**
 * What does a worker do to its job when it wakes up too late? `npm run bench:zombie`
 *
 *     node bench/zombie.ts [--short] [--json zombies.json]
 *
 * One story for everybody, with real processes and real signals: see zombie/story.ts. All of them at once, each in a place
 * of its own, at their defaults: it takes about two minutes. With --short every lease, lock and expiry lasts 5 s, and
 * it takes half a minute.
 *
 * Environment: ENGINES=sqlite,postgres,mariadb,redis, PEER=none (only Holdfast).
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { wordsFrom } from "./environment.ts";
import { milliseconds, printTable, progress } from "./figures.ts";
import { installPeers, versionOf } from "./peers.ts";
import { describeServer, getServers, type Servers } from "./servers.ts";
import { ENGINES } from "./places.ts";
import { keyOf } from "./systems/system.ts";
import { SUBJECTS } from "./zombie/all.ts";
import { AWAKENINGS, tell, type Awakening, type Told } from "./zombie/story.ts";
import type { Pace, Seen, Subject } from "./zombie/subject.ts";

interface Scene {
  readonly subject: Subject;
  readonly awakening: Awakening;
}

interface LeftOut extends Scene {
  readonly reason: string;
}

async function play(scene: Scene, pace: Pace): Promise<Told | LeftOut> {
  const { subject, awakening } = scene;
  const title = `${keyOf(subject)}, A wakes ${awakening}`;
  progress(`${title}: begins`);
  try {
    const told = await tell(subject, awakening, pace);
    progress(`${title}: ${told.verdict}, after ${milliseconds(told.frozenMs)}`);
    return told;
  } catch (error) {
    progress(`${title}: COULD NOT BE RUN`);
    return { ...scene, reason: (error as Error).message };
  }
}

function versionsOf({ packages, role }: Subject): string {
  if (role === "peer") return packages.map(versionOf).join(" on ");
  const text = readFileSync(join(import.meta.dirname, "../package.json"), "utf8");
  return `holdfast ${(JSON.parse(text) as { version: string }).version}`;
}

function rowOf({ row }: Seen): string {
  return row ?? "no row";
}

function said(words: readonly string[]): string {
  return [...new Set(words)].join("; ");
}

/** What A was told that is not good news. */
function warnings({ heard }: Told): string[] {
  return heard.filter((each) => !/^(?:job:success|job:complete|completed)$/.test(each));
}

function wasTold(story: Told): string {
  return warnings(story).length > 0 ? "yes" : "no";
}

function rowsFor(stories: readonly Told[]): string[][] {
  return SUBJECTS.flatMap((subject) => {
    const [during, later] = AWAKENINGS.map((awakening) =>
      stories.find((each) => each.subject === subject && each.awakening === awakening),
    );
    if (during === undefined || later === undefined) return [];
    const runs = during.runs === later.runs ? `${during.runs}` : `${during.runs}, ${later.runs}`;
    return [
      [
        keyOf(subject),
        runs,
        during.verdict,
        rowOf(during.after),
        wasTold(during),
        later.verdict,
        rowOf(later.after),
        wasTold(later),
      ],
    ];
  });
}

const HEAD = [
  "system",
  "runs",
  "A's completion while B runs the job",
  "the job then, B still running",
  "A told",
  "A's completion after B's",
  "the job then",
  "A told",
];

function printStory(story: Told): void {
  const { awakening, frozenMs, before, after, final, wrote, heard, verdict } = story;
  console.log(`  A wakes ${awakening}, after ${milliseconds(frozenMs)}: ${verdict}`);
  console.log(`    the job before: ${rowOf(before)}`);
  console.log(`    A wrote:        ${said(wrote) || "nothing that was seen"}`);
  console.log(`    A was told:     ${said(heard) || "nothing"}`);
  console.log(`    the job after:  ${rowOf(after)}`);
  if (awakening === "while B runs it") console.log(`    B finishes:     ${rowOf(final)}`);
}

function print(stories: readonly Told[], pace: Pace, databases: readonly string[]): void {
  console.log(
    "\nA is frozen (SIGSTOP) in the middle of its job until B has it, then woken (SIGCONT): its completion is late. " +
      "ACCEPTED: the job's row changed.\nEverybody runs a job twice then: at least once is what all of them promise.\n",
  );
  printTable(HEAD, rowsFor(stories));
  for (const subject of SUBJECTS) {
    const ours = stories.filter((story) => story.subject === subject);
    if (ours.length === 0) continue;
    console.log(`\n${keyOf(subject)}: ${versionsOf(subject)}; ${subject.settings[pace]}.`);
    console.log(`  a completion carries: ${subject.guard}`);
    for (const story of ours) printStory(story);
  }
  const today = new Date().toISOString().slice(0, 10);
  console.log(`\n${today}, Node ${process.versions.node}, ${process.platform} ${process.arch}.`);
  for (const database of databases) console.log(`Database: ${database}.`);
}

function json(
  stories: readonly Told[],
  leftOut: readonly LeftOut[],
  run: { pace: Pace; databases: readonly string[] },
): string {
  const named = ({ subject, ...rest }: Told | LeftOut): object => ({
    system: keyOf(subject),
    ...rest,
    versions: versionsOf(subject),
    settings: subject.settings[run.pace],
    guard: subject.guard,
  });
  const at = new Date().toISOString();
  const all = { at, ...run, stories: stories.map(named), leftOut: leftOut.map(named) };
  return `${JSON.stringify(all, null, 2)}\n`;
}

/** Everybody whose server and packages are there. */
function invited(servers: Servers, subjects: readonly Subject[]): [Scene[], LeftOut[]] {
  const peers = subjects.some(({ role }) => role === "peer");
  if (peers) installPeers();
  const scenes = subjects.flatMap((subject) =>
    AWAKENINGS.map((awakening) => ({ subject, awakening })),
  );
  const out = scenes.flatMap((scene) => {
    const reason = servers.missing.get(scene.subject.engine);
    return reason === undefined ? [] : [{ ...scene, reason }];
  });
  return [scenes.filter(({ subject }) => !servers.missing.has(subject.engine)), out];
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { json: { type: "string" }, short: { type: "boolean", default: false } },
  });
  const pace = values.short ? "short" : "defaults";
  const engines = wordsFrom("ENGINES", ENGINES);
  const subjects = SUBJECTS.filter(
    ({ engine, role }) =>
      engines.includes(engine) && (role === "ours" || process.env["PEER"] !== "none"),
  );
  const used = ENGINES.filter((name) => subjects.some(({ engine }) => engine === name));
  await using servers = await getServers(used);
  const [scenes, leftOut] = invited(servers, subjects);
  const played = await Promise.all(scenes.map((scene) => play(scene, pace)));
  const stories = played.filter((each) => "verdict" in each);
  leftOut.push(...played.filter((each) => "reason" in each));
  const found = used.filter((engine) => !servers.missing.has(engine));
  const databases = await Promise.all(found.map(describeServer));
  print(stories, pace, databases);
  for (const { subject, awakening, reason } of leftOut) {
    console.log(`COULD NOT BE RUN: ${keyOf(subject)}, A wakes ${awakening}: ${reason}`);
  }
  if (values.json !== undefined) {
    writeFileSync(values.json, json(stories, leftOut, { pace, databases }));
  }
  if (leftOut.length > 0) process.exitCode = 1;
}

await main();
