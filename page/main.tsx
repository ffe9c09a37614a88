/** The dashboard: which page an address shows. */
import { type JSX, render } from "preact";
import { useEffect } from "preact/hooks";
import { Frame } from "./frame.tsx";
import { startKeys } from "./keys.ts";
import { openStream, readSession, session } from "./live.ts";
import { AlertsPage } from "./pages/alerts.tsx";
import { AuditPage } from "./pages/audit.tsx";
import { BulkListPage, BulkPage } from "./pages/bulk.tsx";
import { EnqueuePage } from "./pages/enqueue.tsx";
import { ErrorsPage } from "./pages/errors.tsx";
import { FlowPage, FlowsPage } from "./pages/flows.tsx";
import { ItemPage } from "./pages/item.tsx";
import { JobPage } from "./pages/job.tsx";
import { JobsPage } from "./pages/jobs.tsx";
import { LocksPage } from "./pages/locks.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { QueuePage, QueuesPage } from "./pages/queues.tsx";
import { SchedulePage, SchedulesPage } from "./pages/schedules.tsx";
import { WorkerPage, WorkersPage } from "./pages/workers.tsx";
import { WorkflowPage, WorkflowsPage } from "./pages/workflows.tsx";
import { Btn, Head } from "./parts.tsx";
import { startRouter, to, usePlace } from "./router.ts";
import { SignIn, Unnamed } from "./sign-in.tsx";
import { useStore } from "./store.ts";
import { applyTheme } from "./theme.ts";

interface Page {
  readonly title: string;
  readonly view: (id: string) => JSX.Element;
}

/** By the first part of the path, with a slash if another part follows. A map has no names of its own, as objects do. */
const PAGES: ReadonlyMap<string, Page> = new Map(
  Object.entries({
    "": { title: "Overview", view: () => <OverviewPage /> },
    jobs: { title: "Jobs", view: () => <JobsPage /> },
    "jobs/": { title: "Job", view: (id) => <JobPage key={id} id={id} /> },
    enqueue: { title: "Enqueue", view: () => <EnqueuePage /> },
    bulk: { title: "Bulk actions", view: () => <BulkListPage /> },
    "bulk/": { title: "Bulk action", view: (id) => <BulkPage key={id} id={id} /> },
    errors: { title: "Errors", view: () => <ErrorsPage /> },
    queues: { title: "Queues", view: () => <QueuesPage /> },
    "queues/": { title: "Queue", view: (name) => <QueuePage key={name} name={name} /> },
    schedules: { title: "Schedules", view: () => <SchedulesPage /> },
    "schedules/": { title: "Schedule", view: (name) => <SchedulePage key={name} name={name} /> },
    flows: { title: "Flows", view: () => <FlowsPage /> },
    "flows/": { title: "Flow", view: (id) => <FlowPage key={id} id={id} /> },
    workflows: { title: "Workflows", view: () => <WorkflowsPage /> },
    "workflows/": { title: "Workflow", view: (name) => <WorkflowPage key={name} name={name} /> },
    "items/": { title: "Item", view: (id) => <ItemPage key={id} id={id} /> },
    workers: { title: "Workers", view: () => <WorkersPage /> },
    "workers/": { title: "Worker", view: (id) => <WorkerPage key={id} id={id} /> },
    locks: { title: "Locks", view: () => <LocksPage /> },
    alerts: { title: "Alerts", view: () => <AlertsPage /> },
    audit: { title: "Audit", view: () => <AuditPage /> },
  } satisfies Record<string, Page>),
);

function App(): JSX.Element {
  const who = useStore(session);
  const { path } = usePlace();
  const [first = "", id] = path;
  const page = path.length > 2 ? undefined : PAGES.get(id === undefined ? first : `${first}/`);
  useEffect(() => {
    document.title = `${page?.title ?? "Not found"}${id === undefined ? "" : ` ${id.slice(0, 40)}`} · Holdfast`;
  }, [page, id]);
  if (who === "out") return <SignIn />;
  if (who === "unnamed") return <Unnamed />;
  if (who === null) return <p class="sr">Looking …</p>;
  return <Frame who={who}>{page === undefined ? <NotFound /> : page.view(id ?? "")}</Frame>;
}

function NotFound(): JSX.Element {
  return (
    <>
      <Head
        title="This page does not exist"
        say="The address may be from another version. The navigation lists every page."
      />
      <Btn href={to("")}>Overview</Btn>
    </>
  );
}

applyTheme();
startRouter();
startKeys();
render(<App />, document.body);
await readSession();
openStream();
