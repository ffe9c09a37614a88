/** The error of an attempt with its stack, and what the job logged in that attempt. */
import type { JSX } from "preact";
import * as f from "../format.ts";
import { Diff } from "../json.tsx";
import { Copy, Info, Panel } from "../parts.tsx";
import { usePlace } from "../router.ts";
import type { ErrorRecord, JobStory, Report } from "../api.gen.ts";
import { AttemptChoice, COMPARE } from "./attempt-choice.tsx";
import type { Attempts } from "./attempts.ts";
import { errorAddress } from "./why-ended.tsx";
import "./job-error.css";

const LOGS_MAX = 200;

/** As the server stores them. */
const CAUSES_MAX = 10;

const FRAMES_MAX = 30;

export function ErrorPanel({
  story,
  attempts,
  reports,
}: {
  readonly story: JobStory;
  readonly attempts: Attempts;
  readonly reports: readonly Report[];
}): JSX.Element | null {
  const { query } = usePlace();
  const failed = attempts.all.filter(({ error }) => error !== null);
  const last = failed.at(-1);
  const wanted = query.get("attempt");
  const logs = reports.filter(({ kind }) => kind !== "progress");
  if (last === undefined) return logs.length === 0 ? null : <LogPanel logs={logs} />;
  const comparing = wanted === COMPARE && failed.length > 1;
  const shown = failed.find(({ epoch }) => String(epoch) === wanted) ?? last;
  const { error, epoch } = shown;
  return (
    <Panel
      title="Error"
      right={<AttemptChoice attempts={attempts} shown={comparing ? COMPARE : String(epoch)} />}
      footer={
        <>
          <a class="u" href={errorAddress(story, shown)}>
            {story.job.task} jobs that failed like this
          </a>
          <span class="line push copies">
            <Copy text={headOf(error)} label="Copy error" />
            <Copy text={wholeOf(error)} label="Copy stack" />
          </span>
        </>
      }
    >
      {comparing ? (
        <Diff before={wholeOf(failed.at(-2)?.error)} after={wholeOf(last.error)} />
      ) : (
        <Stack error={error} logs={logs.filter((one) => one.epoch === epoch)} />
      )}
    </Panel>
  );
}

/** The error, then what caused it, then what caused that. */
function chainOf(error: ErrorRecord | null | undefined): readonly ErrorRecord[] {
  const chain: ErrorRecord[] = [];
  let one: unknown = error;
  while (isError(one) && chain.length < CAUSES_MAX) {
    chain.push(one);
    one = one.cause;
  }
  return chain;
}

function isError(value: unknown): value is ErrorRecord {
  return typeof value === "object" && value !== null && "message" in value && "name" in value;
}

function headOf(error: ErrorRecord | null | undefined): string {
  return error === null || error === undefined ? "" : `${error.name}: ${error.message}`;
}

/** With its stack and all its causes. */
function wholeOf(error: ErrorRecord | null | undefined): string {
  return chainOf(error)
    .map((one) => one.stack ?? headOf(one))
    .join("\nCaused by ");
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
  return { own: own.slice(0, FRAMES_MAX), others: lines.length - own.length };
}

export function Stack({
  error,
  logs = [],
}: {
  readonly error: ErrorRecord | null;
  readonly logs?: readonly Report[];
}): JSX.Element {
  const chain = chainOf(error);
  if (chain.length === 0) return <p class="body dim">No error.</p>;
  return (
    <pre class="code" tabIndex={0}>
      {chain.map((one, depth) => (
        <OneError key={depth} error={one} isCause={depth > 0} />
      ))}
      {logs.length > 0 && "\n\n"}
      <Logs logs={logs} />
    </pre>
  );
}

function OneError({
  error,
  isCause,
}: {
  readonly error: ErrorRecord;
  readonly isCause: boolean;
}): JSX.Element {
  const { own, others } = frames(error.stack ?? "");
  const code = error.code === undefined || error.code === error.name ? "" : ` (${error.code})`;
  return (
    <>
      {isCause && <span class="o">{"\n\ncaused by "}</span>}
      <span class="bad">
        {error.name}
        {code}: {error.message}
      </span>
      {own.map((line, at) => (
        <Frame key={at} line={line} />
      ))}
      {others > 0 && (
        <span class="o">{`\n    ${f.plural(others, "frame")} of packages and Node`}</span>
      )}
    </>
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

/** As wide as the longest. */
function Level({ of }: { readonly of: Report }): JSX.Element {
  if (of.kind !== "log") return <span class="o">{"     "}</span>;
  return <span class={LEVELS[of.level]}>{of.level.padEnd(5)}</span>;
}

const LEVELS = { info: "o", warn: "warned", error: "bad" } as const;

function Logs({ logs }: { readonly logs: readonly Report[] }): JSX.Element {
  return (
    <>
      {logs.slice(-LOGS_MAX).map((one) => (
        <span key={one.seq}>
          <span class="o">{f.withMillis(one.at)}</span> <Level of={one} /> {lineOf(one)}
          {"data" in one && one.data !== null && <span class="o"> {JSON.stringify(one.data)}</span>}
          {"\n"}
        </span>
      ))}
    </>
  );
}
