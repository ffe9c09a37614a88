/**
 * A process that runs one command line after the other, each with streams, an environment and a folder of its own. To start
 * one takes longer than nearly every command; see command.ts for what is never run here.
 */
import { Writable } from "node:stream";
import type { main as Main } from "../../src/cli/main.ts";

export interface Errand {
  readonly folder: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export interface Done {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

class Paper extends Writable {
  text = "";

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString("utf8");
    done();
  }
}

const { env } = process;
const [, , commandMain = ""] = process.argv;
const { main } = (await import(commandMain)) as { main: typeof Main };

async function run({ folder, args, env: added }: Errand): Promise<void> {
  const [stdout, stderr] = [new Paper(), new Paper()];
  process.chdir(folder);
  process.env = { ...env, ...added }; // a command adds what `.env` says
  Object.defineProperty(process, "stdout", { configurable: true, value: stdout });
  Object.defineProperty(process, "stderr", { configurable: true, value: stderr });
  const code = await main(args);
  const done: Done = { code, stdout: stdout.text, stderr: stderr.text };
  process.send?.(done);
}

// A command that is over ends its process, if something keeps it. The next one is waiting here.
process.exit = (() => {}) as typeof process.exit;
process.on("message", (errand: Errand) => void run(errand));
process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
