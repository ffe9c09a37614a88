/** Who did what, why, and is the record whole? */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import * as f from "../format.ts";
import { Icon } from "../icons.tsx";
import type { AuditLine, VerifyAuditResponse } from "../api.gen.ts";
import { apiUrl } from "../api.ts";
import { addressOf, get, type Input } from "../client.ts";
import { useRead } from "../live.ts";
import { Ago, Btn, Copy, Empty, Head, Info, Moment, Note, Shown, Subject } from "../parts.tsx";
import { type Column, Table } from "../table.tsx";
import { go, to, usePlace } from "../router.ts";
import { useRows } from "../rows.ts";

const PAGE = 50;

export function AuditPage(): JSX.Element {
  const { query } = usePlace();
  const from = useRead("audit", { limit: PAGE, ...filterOf(query) });
  const lines = (from.data?.lines ?? []).toReversed();
  const cursor = useRows(lines.length);
  const [verified, setVerified] = useState<VerifyAuditResponse | null>(null);
  const verify = async (): Promise<void> =>
    setVerified(await get("audit/verify", {}, { limitMs: VERIFY_LIMIT_MS }));
  const actors = new Set(lines.map(({ actor }) => actor)).size;
  return (
    <>
      <Head
        title="Audit"
        say={`${from.data === undefined ? "" : `${f.plural(lines.length, "action")} by ${f.plural(actors, "actor")} on this page. `}Lines cannot be edited, also not with SQL.`}
        acts={
          <>
            <Btn onClick={verify}>Verify the log</Btn>
            <a
              class="btn hide-sm"
              href={apiUrl(addressOf("audit", { limit: 1_000 }))}
              download="audit.json"
            >
              Export
            </a>
          </>
        }
      />
      <div class="stack">
        {verified !== null && <Verdict verified={verified} />}
        <Filter query={query} />
        <Shown from={from}>
          {() =>
            lines.length === 0 ? (
              <section class="panel">
                <Empty title="No action matches.">
                  What operators do, here, over HTTP or on the command line, is written down with
                  who and why.
                </Empty>
              </section>
            ) : (
              <Lines lines={lines} at={cursor.at} />
            )
          }
        </Shown>
        <Pager query={query} lines={lines} />
        <div class="line sm dim">
          <Info>
            Each line holds the hash of the one before, so a changed or deleted line is found. On
            the command line: <code>holdfast audit verify</code>
          </Info>
          <Copy tiny text="holdfast audit verify" label="Copy the command" />
        </div>
      </div>
    </>
  );
}

function filterOf(query: URLSearchParams): Input<"audit"> {
  const [subject, actor, before] = ["subject", "actor", "before"].map(
    (name) => query.get(name) ?? "",
  );
  return {
    ...(subject === "" ? {} : { subject }),
    ...(actor === "" ? {} : { actor }),
    ...(before === "" ? {} : { before: Number(before) }),
  };
}

/** The server gives up after 20 s. */
const VERIFY_LIMIT_MS = 25_000;

/** Is the record whole? If not, where it breaks first. */
function Verdict({ verified }: { readonly verified: VerifyAuditResponse }): JSX.Element {
  const { broken } = verified;
  return (
    <div role="status">
      {broken === null && verified.isWhole ? (
        <Note>
          The log is whole: {f.plural(verified.lines, "line")} verified in {f.span(verified.tookMs)}
          , <Ago at={verified.verifiedAt} word=" ago" />.
        </Note>
      ) : (
        <Note tone="bad">
          The log was changed: {f.plural(verified.breaks, "break")} in{" "}
          {f.plural(verified.lines, "line")}.
          {broken !== null && (
            <>
              {" "}
              The first is line {f.count(broken.seq)}
              {broken.item !== null && (
                <>
                  {" "}
                  of <a href={to(["items", broken.item])}>item {f.shortId(broken.item)}</a>
                </>
              )}
              : {broken.problem}
            </>
          )}
        </Note>
      )}
    </div>
  );
}

function Filter({ query }: { readonly query: URLSearchParams }): JSX.Element {
  const [text, setText] = useState("");
  const fields = ["actor", "subject"] as const;
  const apply = (): void => {
    const colon = text.indexOf(":");
    const name = fields.find((one) => one === text.slice(0, colon)) ?? "subject";
    const value = (
      fields.some((one) => text.startsWith(`${one}:`)) ? text.slice(colon + 1) : text
    ).trim();
    setText("");
    go(to("audit", { actor: query.get("actor"), subject: query.get("subject"), [name]: value }));
  };
  return (
    <form
      class="query"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        apply();
      }}
    >
      <Icon name="search" />
      {fields.map((name) => {
        const value = query.get(name);
        if (value === null || value === "") return null;
        const rest = new URLSearchParams(query);
        rest.delete(name);
        return (
          <span class="chip" key={name}>
            <span>{name}</span>
            <b>{value}</b>
            <button type="button" title="Remove" onClick={() => go(to("audit", rest))}>
              <Icon name="close" />
              <span class="sr">Remove {name}</span>
            </button>
          </span>
        );
      })}
      <input
        type="text"
        list={undefined}
        aria-label="Search the audit log"
        placeholder="actor:token on-call, or a subject such as queue mail"
        value={text}
        autocomplete="off"
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </form>
  );
}

const COLUMNS: readonly Column<AuditLine>[] = [
  {
    name: "Line",
    hide: "sm",
    align: "end",
    look: "faint",
    width: 80,
    narrow: 64,
    cell: ({ seq }) => f.count(seq),
  },
  { name: "When", width: 128, narrow: 96, look: "dim", cell: (line) => <Moment at={line.at} /> },
  {
    name: "Who",
    cell: ({ actor }) => <a href={to("audit", { actor })}>{actor}</a>,
  },
  {
    name: "What",
    cell: ({ action, subject, reason }) => (
      <>
        <span class="mono">{action}</span>
        <span class="sub">{subject}</span>
        {reason !== null && <span class="sub">“{reason}”</span>}
      </>
    ),
  },
  { name: "To what", hide: "sm", cell: ({ subject }) => <Subject text={subject} /> },
  {
    name: "Before → after",
    hide: "md",
    look: "dim",
    width: 160,
    cell: ({ oldStatus, newStatus }) =>
      oldStatus === null && newStatus === null ? "" : `${oldStatus ?? "–"} → ${newStatus ?? "–"}`,
  },
  {
    name: "Why",
    hide: "md",
    look: "dim",
    width: "26%",
    cell: ({ reason }) => reason ?? <span class="faint">no reason given</span>,
  },
];

function Lines({
  lines,
  at,
}: {
  readonly lines: readonly AuditLine[];
  readonly at: number;
}): JSX.Element {
  return (
    <section class="panel" aria-label="Audit log">
      <Table
        at={at}
        rows={lines}
        keyOf={({ id }) => id}
        titleOf={({ detail }) => detail ?? undefined}
        columns={COLUMNS}
      />
    </section>
  );
}

function Pager({
  query,
  lines,
}: {
  readonly query: URLSearchParams;
  readonly lines: readonly AuditLine[];
}): JSX.Element | null {
  const last = lines.at(-1);
  const before = query.get("before");
  const older = new URLSearchParams(query);
  if (last !== undefined) older.set("before", String(last.seq));
  const newest = new URLSearchParams(query);
  newest.delete("before");
  if (before === null && lines.length < PAGE) return null;
  return (
    <nav class="line pager" aria-label="Pages of the audit log">
      {before !== null && <Btn href={to("audit", newest)}>Newest</Btn>}
      {lines.length === PAGE && <Btn href={to("audit", older)}>Older</Btn>}
    </nav>
  );
}
