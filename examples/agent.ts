/** An agent: a prompt, a model in a sandboxed child process, streamed output, and finished parts that are not repeated. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type Context, defineTask, GiveUpError, openHoldfast } from "holdfast";

const OUTPUT_BYTES_MAX = 64 * 1024;
const TIME_MS_MAX = 60_000;

/** Stands for a model: it makes a plan, then works through its parts, and says a line at a time. */
const MODEL = `
process.stdin.on("end", () => process.exit(1)); // the process that asked is gone
process.stdin.once("data", async (order) => {
  const { part, prompt } = JSON.parse(order);
  const say = (line) => new Promise((said) => process.stdout.write(line + "\\n", said));
  const endless = prompt === "count forever";
  if (part === "plan") for (const each of ["read", "think", "answer"]) await say(each);
  else if (part === "think") {
    for (let n = 1; n <= 8 || endless; n += 1) {
      await say("thought " + n);
      await new Promise((done) => setTimeout(done, 250));
    }
  } else await say(part + ": " + prompt);
  process.exit(0);
});`;

/** Runs the model for one part in a process with an empty environment and a folder of its own. */
async function askModel(ctx: Context, part: string, prompt: string): Promise<string[]> {
  appendFileSync("runs.txt", `${part}\n`); // what the end of this example counts
  const box = realpathSync(mkdtempSync(join(tmpdir(), "agent-")));
  writeFileSync(join(box, "model.mjs"), MODEL);
  // Node's permission model: it reads its own folder, writes nothing, and starts no processes.
  const rules = ["--permission", `--allow-fs-read=${box}`, "--max-old-space-size=64"];
  const child = spawn(process.execPath, [...rules, "model.mjs"], {
    cwd: box,
    env: {},
    detached: true, // it leads a process group, so that everything it starts can be killed with it
    stdio: ["pipe", "pipe", "ignore"],
  });
  const closed = once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>;
  const killed: Error[] = [];
  const kill = (...why: Error[]): void => {
    killed.push(...why);
    const { pid, exitCode, signalCode } = child;
    const runs = exitCode === null && signalCode === null;
    if (pid !== undefined && runs) process.kill(-pid, "SIGKILL");
  };
  // Cancelled, timed out, shut down, or the lease is lost: the model must not go on.
  const abort = (): void => kill(ctx.signal.reason as Error);
  ctx.signal.addEventListener("abort", abort);
  const timer = setTimeout(() => kill(new Error("the model took too long")), TIME_MS_MAX);
  let bytes = 0;
  child.stdout.on("data", (text: Buffer) => {
    bytes += text.length;
    if (bytes > OUTPUT_BYTES_MAX) kill(new GiveUpError("the model said too much"));
  });
  try {
    ctx.report("child", { pid: child.pid });
    child.stdin.write(JSON.stringify({ part, prompt })); // and not ended: it ends when we do
    const lines: string[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line);
      ctx.report("output", { part, line });
    }
    const [code, signal] = await closed;
    if (killed[0] !== undefined) throw killed[0];
    if (code !== 0) throw new Error(`the model ended with ${signal ?? code}`);
    return lines;
  } finally {
    kill();
    clearTimeout(timer);
    ctx.signal.removeEventListener("abort", abort);
    rmSync(box, { recursive: true, force: true });
  }
}

const agent = defineTask({
  name: "agent.run",
  timeout: "10m",
  retry: { maxAttempts: 5, backoff: { initial: "100ms" } },
  async run({ prompt }: { prompt: string }, ctx) {
    const plan = await ctx.step("plan", () => askModel(ctx, "plan", prompt));
    const said: string[] = [];
    for (const [index, part] of plan.entries()) {
      // A finished part is kept: a later attempt gets its lines and does not ask the model again.
      said.push(...(await ctx.step(part, () => askModel(ctx, part, prompt))));
      ctx.progress({ done: index + 1, total: plan.length }, part);
    }
    return said.at(-1) ?? "";
  },
});

const holdfast = await openHoldfast("sqlite:agent.db");
if (process.argv[2] === "worker") {
  await holdfast.startWorker({ tasks: [agent], lease: "2s", grace: 0, signals: true });
} else {
  await main();
  await holdfast.close();
}

function startWorker(): ChildProcess {
  return spawn(process.execPath, [import.meta.filename, "worker"], { stdio: "ignore" });
}

async function main(): Promise<void> {
  rmSync("runs.txt", { force: true });
  const first = startWorker();
  const job = await holdfast.enqueue(agent, { prompt: "why is the sky blue?" });
  let second: ChildProcess | null = null;
  const seen = new Set<string>();
  for await (const entry of job.watch()) {
    if (entry.kind !== "report" || entry.name !== "output") continue;
    const { part, line } = entry.data as { part: string; line: string };
    if (!seen.has(line)) console.log(`${part} | ${line}`); // a part that begins again says it again
    seen.add(line);
    if (second !== null || part !== "think") continue;
    first.kill("SIGKILL");
    second = startWorker();
  }
  console.log(`result: ${await job.result()}`);
  const runs = readFileSync("runs.txt", "utf8").trim().split("\n");
  for (const part of ["plan", "read", "think", "answer"]) {
    console.log(`${part}: asked ${runs.filter((run) => run === part).length}x`);
  }

  const endless = await holdfast.enqueue(agent, { prompt: "count forever" });
  let pid = 0;
  for await (const entry of endless.watch()) {
    if (entry.kind !== "report") continue;
    if (entry.name === "child") ({ pid } = entry.data as { pid: number });
    else if ((entry.data as { line: string }).line === "thought 2") await endless.cancel();
  }
  console.log(
    `${(await endless.get()).status}, and its child is ${isAlive(pid) ? "alive" : "gone"}`,
  );
  second?.kill("SIGTERM");
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
