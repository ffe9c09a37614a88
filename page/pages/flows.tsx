/** Flows and batches, newest first. */
import type { JSX } from "preact";
import type { Flow } from "../api.gen.ts";
import * as f from "../format.ts";
import { useRead } from "../live.ts";
import { Ago, Empty, Head, Seg, Shown, State } from "../parts.tsx";
import { type Column, Table } from "../table.tsx";
import { to, usePlace } from "../router.ts";
import { useRows } from "../rows.ts";
import { LOOK } from "./flow.tsx";

const KINDS = ["flow", "batch"] as const;

export function FlowsPage(): JSX.Element {
  const { query } = usePlace();
  const kind = KINDS.find((one) => one === query.get("kind"));
  const from = useRead("flows", { limit: 100, ...(kind === undefined ? {} : { kind }) });
  const rows = from.data?.flows ?? [];
  const cursor = useRows(rows.length);
  return (
    <>
      <Head
        title="Flows and batches"
        say="Jobs that wait for other jobs: a flow is a graph, a batch is many jobs and one that runs when all have ended."
        acts={
          <Seg
            label="Which"
            choices={[
              { text: "All", href: to("flows"), current: kind === undefined },
              { text: "Flows", href: to("flows", { kind: "flow" }), current: kind === "flow" },
              { text: "Batches", href: to("flows", { kind: "batch" }), current: kind === "batch" },
            ]}
          />
        }
      />
      <Shown from={from}>
        {() => (
          <section class="panel" aria-label="Flows and batches">
            {rows.length === 0 ? (
              <Empty title="None yet.">
                <code>holdfast.flows.enqueue("report", (flow) =&gt; …)</code> makes one, all jobs or
                none.
              </Empty>
            ) : (
              <Table at={cursor.at} rows={rows} keyOf={({ id }) => id} columns={COLUMNS} />
            )}
          </section>
        )}
      </Shown>
    </>
  );
}

const COLUMNS: readonly Column<Flow>[] = [
  {
    name: "Name",
    cell: ({ id, name, kind }) => (
      <>
        <a class="name" href={to(["flows", id])}>
          {name}
        </a>
        <span class="sub">{kind}</span>
      </>
    ),
  },
  { name: "Kind", hide: "sm", look: "dim", width: 96, cell: ({ kind }) => kind },
  {
    name: "State",
    width: 120,
    narrow: 104,
    cell: ({ status }) => <State status={LOOK[status]} word={status} />,
  },
  {
    name: "Jobs",
    hide: "sm",
    align: "end",
    look: "dim",
    width: 152,
    cell: ({ done, total }) => `${f.count(done)} of ${f.count(total)}`,
  },
  {
    name: "Created",
    align: "end",
    look: "dim",
    width: 88,
    narrow: 72,
    cell: ({ createdAt }) => <Ago at={createdAt} />,
  },
];
