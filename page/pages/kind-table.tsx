/** Kinds of errors of a task or a build. */
import type { JSX } from "preact";
import type { ErrorKind } from "../api.gen.ts";
import * as f from "../format.ts";
import { useRead } from "../live.ts";
import type { Input } from "../client.ts";
import { Ago, type Children, Empty, Panel, Shown, Tag } from "../parts.tsx";
import { to } from "../router.ts";
import { type Column, Table } from "../table.tsx";

const EVERY_MS = 15_000;

/** An error has one name everywhere: its class, and its code if that says more. */
export function titleOf({ name, code }: Pick<ErrorKind, "name" | "code">): string {
  return code === null || code === name ? name : `${name} (${code})`;
}

/** Jobs that are failed now; "500+" if there may be more. */
function nowText({ failedNow, isFailedNowExact }: ErrorKind): string {
  if (isFailedNowExact) return f.count(failedNow);
  return failedNow === 0 ? "?" : `${f.count(failedNow)}+`;
}

/** The open kinds of a task or a build. */
export function KindsPanel({
  title,
  of,
  none,
  footer,
}: {
  readonly title: string;
  readonly of: Input<"errors">;
  readonly none: string;
  readonly footer?: Children;
}): JSX.Element {
  const kinds = useRead("errors", of, EVERY_MS);
  const { build } = of;
  return (
    <Panel
      title={title}
      right={
        <a class="btn quiet push" href={to("errors", { task: of.task, build })}>
          All
        </a>
      }
      footer={footer}
    >
      <Shown from={kinds} rows={3}>
        {({ groups }) =>
          groups.length === 0 ? (
            <Empty title={none} />
          ) : (
            <Table tall columns={columnsOf(build)} rows={groups} keyOf={({ id }) => id} />
          )
        }
      </Shown>
    </Panel>
  );
}

function columnsOf(build: string | undefined): readonly Column<ErrorKind>[] {
  return [
    { name: "Error", min: 160, cell: (group) => <Kind group={group} build={build} /> },
    {
      name: "Failed now",
      align: "end",
      width: 96,
      cell: (group) => <FailedNow group={group} />,
    },
    {
      name: build === undefined ? "Ever" : "In it",
      align: "end",
      hide: "sm",
      look: "dim",
      width: 72,
      cell: ({ within, failed }) => f.count(within?.failed ?? failed),
    },
    {
      name: "Last",
      align: "end",
      hide: "sm",
      look: "dim",
      width: 88,
      cell: ({ lastAt }) => <Ago at={lastAt} />,
    },
  ];
}

function Kind({
  group,
  build,
}: {
  readonly group: ErrorKind;
  readonly build: string | undefined;
}): JSX.Element {
  return (
    <>
      <span class="line">
        <a class="name clip" href={to("errors", { group: group.id })}>
          {titleOf(group)}
        </a>
        {build !== undefined && group.firstBuild === build && <Tag tone="bad">new here</Tag>}
      </span>
      <span class="under">
        {build !== undefined && `${group.task} · `}
        {group.message}
      </span>
    </>
  );
}

/** Jobs that failed with it and still are. */
export function FailedNow({ group }: { readonly group: ErrorKind }): JSX.Element {
  const text = nowText(group);
  if (group.failedNow === 0) return <span class="faint">{text}</span>;
  return <a href={to("jobs", { status: "failed", kind: group.id })}>{text}</a>;
}
