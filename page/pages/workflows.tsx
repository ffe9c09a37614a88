/** Where do items pile up; and for an item: what may be done now? */
import type { JSX } from "preact";
import type { CountItemsResponse, ItemSummary, Workflow } from "../api.gen.ts";
import * as f from "../format.ts";
import { useRead } from "../live.ts";
import { Ago, Btn, Crumbs, Empty, Head, Panel, Seg, Shown, Tag } from "../parts.tsx";
import { type Column, Table } from "../table.tsx";
import { to, usePlace } from "../router.ts";
import { useRows } from "../rows.ts";
import { Diagram } from "./workflow-diagram.tsx";

type StateCount = CountItemsResponse["states"][number];

export function WorkflowsPage(): JSX.Element {
  const from = useRead("workflows", {}, 15_000);
  const rows = from.data?.workflows ?? [];
  const cursor = useRows(rows.length);
  return (
    <>
      <Head
        title="Workflows"
        say="Declared state machines. The database itself refuses a state or a move that is not declared."
      />
      <Shown from={from}>
        {() => (
          <section class="panel" aria-label="Workflows">
            {rows.length === 0 ? (
              <Empty title="None is declared.">
                <code>defineWorkflow</code> declares states and moves; items go through them, each
                move with who and why.
              </Empty>
            ) : (
              <Table at={cursor.at} rows={rows} keyOf={({ name }) => name} columns={COLUMNS} />
            )}
          </section>
        )}
      </Shown>
    </>
  );
}

const COLUMNS: readonly Column<Workflow>[] = [
  {
    name: "Workflow",
    cell: ({ name, parent }) => (
      <>
        <a class="name" href={to(["workflows", name])}>
          {name}
        </a>
        {parent !== null && <span class="dim"> of {parent}</span>}
      </>
    ),
  },
  {
    name: "States",
    hide: "sm",
    width: "45%",
    look: "dim",
    cell: ({ states }) => states.map(({ name }) => name).join(", "),
  },
  { name: "Version", align: "end", width: 88, cell: ({ version }) => version },
  {
    name: "Declared",
    hide: "sm",
    align: "end",
    look: "dim",
    width: 112,
    cell: ({ declaredAt }) => <Ago at={declaredAt} word=" ago" />,
  },
];

export function WorkflowPage({ name }: { readonly name: string }): JSX.Element {
  const from = useRead("workflows/{name}", { name }, 15_000);
  const counts = useRead("workflows/{name}/counts", { name });
  const status = usePlace().query.get("status");
  return (
    <>
      <Crumbs>{[<a href={to("workflows")}>Workflows</a>, name]}</Crumbs>
      <Shown from={from} page={name}>
        {({ workflow }) => (
          <>
            <Head
              title={workflow.name}
              tag={<Tag>version {workflow.version}</Tag>}
              say={sayAbout(workflow, counts.data?.states ?? [])}
            />
            <div class="stack">
              <Diagram workflow={workflow} counts={counts.data?.states ?? []} here={status} />
              <Items workflow={workflow} status={status} />
            </div>
          </>
        )}
      </Shown>
    </>
  );
}

/** "48 items. Most of those that are not finished are open: 30 of 48." Only if they are more than the others together. */
function sayAbout({ states }: Workflow, counts: readonly StateCount[]): string {
  if (counts.length === 0) return `${f.plural(states.length, "state")}.`;
  const total = counts.reduce((sum, { items }) => sum + items, 0);
  const final = new Set(states.filter(({ isFinal }) => isFinal).map(({ name }) => name));
  const open = counts.filter(({ name }) => !final.has(name));
  const left = open.reduce((sum, { items }) => sum + items, 0);
  const most = open.find(({ items }) => items > left / 2);
  const said = `${f.plural(total, "item")}${left === 0 ? "" : `, ${f.count(left)} not finished`}.`;
  if (most === undefined || most.items === left) {
    return most === undefined ? said : `${said} All of these are ${most.name}.`;
  }
  return `${said} Most of these are ${most.name}: ${f.count(most.items)}.`;
}

function Items({
  workflow,
  status,
}: {
  readonly workflow: Workflow;
  readonly status: string | null;
}): JSX.Element {
  const { query } = usePlace();
  const before = query.get("before");
  const from = useRead("items", {
    workflow: workflow.name,
    limit: 50,
    ...(status === null ? {} : { status }),
    ...(before === null ? {} : { before }),
  });
  const rows = from.data?.items ?? [];
  const cursor = useRows(rows.length);
  const choices = [
    { text: "All", href: to(["workflows", workflow.name]), current: status === null },
    ...workflow.states.slice(0, 8).map(({ name }) => ({
      text: name,
      href: to(["workflows", workflow.name], { status: name }),
      current: status === name,
    })),
  ];
  return (
    <>
      <Panel
        title="Items"
        right={
          <span class="push scroll">
            <Seg label="State" choices={choices} />
          </span>
        }
      >
        <Shown from={from}>
          {() =>
            rows.length === 0 ? (
              <Empty title={status === null ? "No item yet." : `No item is ${status}.`} />
            ) : (
              <Table at={cursor.at} rows={rows} keyOf={({ id }) => id} columns={ITEM_COLUMNS} />
            )
          }
        </Shown>
      </Panel>
      {(from.data?.next ?? null) !== null && (
        <nav class="line pager" aria-label="Pages of items">
          <Btn href={to(["workflows", workflow.name], { status, before: from.data?.next ?? null })}>
            Older
          </Btn>
        </nav>
      )}
    </>
  );
}

const ITEM_COLUMNS: readonly Column<ItemSummary>[] = [
  {
    name: "Item",
    cell: ({ id, identifier }) => (
      <a class="name" href={to(["items", id])}>
        {identifier}
      </a>
    ),
  },
  { name: "State", cell: ({ status }) => <Tag>{status}</Tag> },
  { name: "Tenant", hide: "sm", look: "dim", cell: ({ tenant }) => tenant },
  {
    name: "Revision",
    hide: "sm",
    align: "end",
    look: "dim",
    width: 96,
    cell: ({ revision }) => revision,
  },
  {
    name: "In it for",
    align: "end",
    look: "dim",
    width: 88,
    cell: ({ enteredAt }) => <Ago at={enteredAt} />,
  },
];
