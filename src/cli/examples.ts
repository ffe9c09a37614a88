/** The examples in the help of each command. */
import type { Command } from "commander";
import { examplesOf } from "../operations/command.ts";

/** Of commands that are written by hand. The help of `holdfast schedules` shows the first of those that begin with it. */
const examples: readonly string[] = `
start --tasks tasks.ts --watch
start --url postgres://shop@db.internal/shop --tasks dist/tasks.js
work --tasks dist/tasks.js --queue mail,reports --concurrency 20
work --tasks dist/tasks.js --processes 4
serve --url postgres://shop@db.internal/shop --port 8080
enqueue mail.send '{"to":"ada@example.com"}'
enqueue report.build --delay 2h --key report-2027-01
jobs --status failed --task mail.send
jobs --queue mail --limit 50 --json
job show 01890a5d
job show 01890a5d --follow
retry 01890a5d
retry 01890a5d --input '{"to":"ada@example.com"}'
retry --task mail.send --ended-since 1h --dry-run
cancel 01890a5d
cancel --queue reports --status scheduled --reason 'wrong month'
flows enqueue nightly flow.json
rerun 01890a5d --from charge --confirm charge --dry-run
rerun 01890a5d --from-start --input '{"month":2}'
bulk delete --status done --ended-until 7d --dry-run
bulk move --to slow --task report.build
bulk priority --to 10 --task report.build
bulk resume 01890a5d
top
top --once
workers stop mailer-01a1dee7
workers drain --type mailer
workers pause --all --reason 'database upgrade'
workers resume --all
workers limit mailer 3
alerts test
doctor --quick
doctor --fix --reason 'after the restore'
audit verify
mcp --url sqlite:shop.db
mcp --role operator --agent night-watch
migrate
migrate --dry-run
copy sqlite:holdfast.db postgres://shop@db.internal/shop
config
config --all
completion bash
completion zsh
completion fish
demo
demo --orders 5000 --workers 8
verify --url postgres://postgres@localhost/postgres --minutes 10
`
  .trim()
  .split("\n");

const SHOWN_MAX = 3;

/** Returns all that there are. Those of a group with operations have the order of its commands. */
export function addExamples(program: Command): string[] {
  return program.commands.flatMap((command) => {
    const name = command.name();
    const ofParts = command.commands.flatMap((part) =>
      addExample(part, exampleLines(`${name} ${part.name()}`)),
    );
    const hasOperations = command.commands.some((part) => examplesOf(part).length > 0);
    return addExample(command, hasOperations ? ofParts : exampleLines(name));
  });
}

function exampleLines(path: string): string[] {
  return examples.filter((line) => line === path || line.startsWith(`${path} `));
}

function addExample(command: Command, byHand: readonly string[]): string[] {
  const own = [...examplesOf(command), ...byHand];
  const lines = own.slice(0, SHOWN_MAX).map((line) => `\n  holdfast ${line}`);
  command.addHelpText("after", `\nExample${lines.length === 1 ? "" : "s"}:${lines.join("")}`);
  return own;
}
