/** The error of an attempt with its stack, and what the job logged in that attempt. */
import type { JSX } from "preact";
import * as f from "../format.ts";
import { Diff } from "../json.tsx";
import { Copy, Info, Panel, Seg } from "../parts.tsx";
import { to, usePlace } from "../router.ts";
import type { Attempt, ErrorRecord, JobStory, Report } from "../api.gen.ts";

const LOGS_MAX = 200;
const SHOWN_ATTEMPTS = 4;

export function ErrorPanel({
  story,
  reports,
}: {
  readonly story: JobStory;
  readonly reports: readonly Report[];
}): JSX.Element | null {
  const { query, path } = usePlace();
  const failed = story.attempts.filter(({ error }) => error !== null);
  const last = failed.at(-1);
  const wanted = query.get("attempt");
  const logs = reports.filter(
    ({ kind }) => kind === "log" || kind === "report" || kind === "dropped",
  );
  if (last === undefined) return logs.length === 0 ? null : <LogPanel logs={logs} />;
  const comparing = wanted === "compare" && failed.length > 1;
  const shown = failed.find(({ epoch }) => String(epoch) === wanted) ?? last;
  const choice = (value: string): string => to(path, { attempt: value });
  const some = failed.slice(-SHOWN_ATTEMPTS);
  const choices = [
    ...some.map(({ epoch, attempt }) => ({
      text: `Attempt ${attempt}`,
      href: choice(String(epoch)),
      current: !comparing && epoch === shown.epoch,
    })),
    ...(failed.length > 1
      ? [{ text: "Compare", href: choice("compare"), current: comparing }]
      : []),
  ];
  const own = logs.filter(({ epoch }) => epoch === shown.epoch);
  const name = shown.error?.name ?? "";
  return (
    <Panel
      title="Error"
      right={failed.length > 1 ? <Seg push label="Attempt" choices={choices} /> : undefined}
      footer={
        <Info>
          <a href={to("jobs", { task: story.job.task, error: name })}>
            Search jobs of {story.job.task} whose error says {name}
          </a>
        </Info>
      }
    >
      {comparing ? (
        <Diff before={plain(failed.at(-2))} after={plain(last)} />
      ) : (
        <Stack error={shown.error} logs={own} />
      )}
    </Panel>
  );
}

function plain(attempt: Attempt | undefined): string {
  const { error } = attempt ?? { error: null };
  return error === null ? "" : (error.stack ?? `${error.name}: ${error.message}`);
}

function LogPanel({ logs }: { readonly logs: readonly Report[] }): JSX.Element {
  return (
    <Panel title="Log" aside={f.plural(logs.length, "line")}>
      <pre class="code" tabIndex={0}>
        <Logs logs={logs} />
      </pre>
    </Panel>
  );
}

/** Frames of the application stand out; those of packages and of Node are counted. */
function frames(stack: string): { readonly own: readonly string[]; readonly others: number } {
  const lines = stack.split("\n").filter((line) => /^\s+at /.test(line));
  const own = lines.filter((line) => !/node_modules|node:internal|\(node:|at node:/.test(line));
  return { own: own.slice(0, 30), others: lines.length - own.length };
}

export function Stack({
  error,
  logs = [],
}: {
  readonly error: ErrorRecord | null;
  readonly logs?: readonly Report[];
}): JSX.Element {
  if (error === null) return <p class="body dim">No error.</p>;
  const { own, others } = frames(error.stack ?? "");
  return (
    <pre class="code" tabIndex={0}>
      <span class="bad">
        {error.name}: {error.message}
      </span>
      {own.map((line) => (
        <Frame key={line} line={line} />
      ))}
      {others > 0 && (
        <span class="o">{`\n    ${f.plural(others, "frame")} of packages and Node`}</span>
      )}
      {error.cause !== undefined && error.cause !== null && (
        <span class="o">{`\ncause: ${causeText(error.cause)}`}</span>
      )}
      {logs.length > 0 && "\n\n"}
      <Logs logs={logs} />
    </pre>
  );
}

/** The live stack of a worker whose event loop a task blocks. */
export function Blocked({ ms, stack }: NonNullable<JobStory["blocked"]>): JSX.Element {
  return (
    <Panel
      title="A task blocks the event loop"
      aside={`for ${f.span(ms)} when the stack was taken`}
      right={<Copy text={stack} />}
      footer={
        <Info>
          No other job of this worker goes on meanwhile. Its leases are renewed by a thread beside
          it, so no job is lost.
        </Info>
      }
    >
      <pre class="code" tabIndex={0}>
        {stack.split("\n").map((line, at) => (
          <Frame key={`${at} ${line}`} line={line} isFirst={at === 0} />
        ))}
      </pre>
    </Panel>
  );
}

function causeText(cause: unknown): string {
  if (typeof cause === "object" && cause !== null && "message" in cause) {
    const { name = "Error", message } = cause as { name?: string; message: string };
    return `${name}: ${message}`;
  }
  return JSON.stringify(cause);
}

function Frame({
  line,
  isFirst = false,
}: {
  readonly line: string;
  readonly isFirst?: boolean;
}): JSX.Element {
  const begins = isFirst ? "" : "\n";
  const place = /^(?<begin>.*?\(?)(?<place>[^()\s]+:\d+:\d+)(?<end>\)?)$/.exec(line);
  if (place?.groups === undefined) return <>{begins + line}</>;
  const { begin = "", place: where = "", end = "" } = place.groups;
  return (
    <>
      {begins + begin}
      <span class="hl">{where.replace("file://", "")}</span>
      {end}
    </>
  );
}

function lineOf(report: Report): string {
  if (report.kind === "dropped") return `${report.count} lines were left out`;
  return (report.kind === "report" ? report.name : report.text) ?? "";
}

function Logs({ logs }: { readonly logs: readonly Report[] }): JSX.Element {
  return (
    <>
      {logs.slice(-LOGS_MAX).map((one) => (
        <span key={one.seq}>
          <span class="o">{f.withMillis(one.at)}</span> {lineOf(one)}
          {"data" in one && one.data !== null && <span class="o"> {JSON.stringify(one.data)}</span>}
          {"\n"}
        </span>
      ))}
    </>
  );
}
