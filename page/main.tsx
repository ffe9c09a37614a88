/** The dashboard: which page an address shows. */
import "./tokens.css";
import "./base.css";
import { type JSX, render } from "preact";
import { useEffect } from "preact/hooks";
import { Frame } from "./frame.tsx";
import { startKeys } from "./keys.ts";
import { ended, openStream, readSession, session } from "./live.ts";
import { AlertsPage } from "./pages/alerts.tsx";
import { AuditPage } from "./pages/audit.tsx";
import { BuildPage, BuildsPage } from "./pages/builds.tsx";
import { BulkListPage, BulkPage } from "./pages/bulk.tsx";
import { EnqueuePage } from "./pages/enqueue.tsx";
import { ErrorsPage } from "./pages/errors.tsx";
import { FlowPage } from "./pages/flow.tsx";
import { FlowsPage } from "./pages/flows.tsx";
import { ItemPage } from "./pages/item.tsx";
import { JobPage } from "./pages/job.tsx";
import { JobsPage } from "./pages/jobs.tsx";
import { LocksPage } from "./pages/locks.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { QueuePage, QueuesPage } from "./pages/queues.tsx";
import { SchedulePage } from "./pages/schedule.tsx";
import { SchedulesPage } from "./pages/schedules.tsx";
import { TaskPage, TasksPage } from "./pages/tasks.tsx";
import { WorkerPage, WorkersPage } from "./pages/workers.tsx";
import { WorkflowPage, WorkflowsPage } from "./pages/workflows.tsx";
import { Btn, Head } from "./parts.tsx";
import { type PagePath, titles } from "./paths.ts";
import { startRouter, to, usePlace } from "./router.ts";
import { SessionEnded, SignIn, Unnamed } from "./sign-in.tsx";
import { useStore } from "./store.ts";
import { applyTheme } from "./theme.ts";

type View = (id: string) => JSX.Element;

const views: Readonly<Record<PagePath, View>> = {
  "": () => <OverviewPage />,
  jobs: () => <JobsPage />,
  "jobs/": (id) => <JobPage key={id} id={id} />,
  enqueue: () => <EnqueuePage />,
  bulk: () => <BulkListPage />,
  "bulk/": (id) => <BulkPage key={id} id={id} />,
  errors: () => <ErrorsPage />,
  tasks: () => <TasksPage />,
  "tasks/": (name) => <TaskPage key={name} name={name} />,
  builds: () => <BuildsPage />,
  "builds/": (id) => <BuildPage key={id} id={id} />,
  queues: () => <QueuesPage />,
  "queues/": (name) => <QueuePage key={name} name={name} />,
  schedules: () => <SchedulesPage />,
  "schedules/": (name) => <SchedulePage key={name} name={name} />,
  flows: () => <FlowsPage />,
  "flows/": (id) => <FlowPage key={id} id={id} />,
  workflows: () => <WorkflowsPage />,
  "workflows/": (name) => <WorkflowPage key={name} name={name} />,
  "items/": (id) => <ItemPage key={id} id={id} />,
  workers: () => <WorkersPage />,
  "workers/": (id) => <WorkerPage key={id} id={id} />,
  locks: () => <LocksPage />,
  alerts: () => <AlertsPage />,
  audit: () => <AuditPage />,
};

function isPage(path: string): path is PagePath {
  return Object.hasOwn(titles, path);
}

function App(): JSX.Element {
  const who = useStore(session);
  const signedOut = useStore(ended);
  const { path } = usePlace();
  const [first = "", id] = path;
  const wanted = id === undefined ? first : `${first}/`;
  const page = path.length <= 2 && isPage(wanted) ? wanted : null;
  useEffect(() => {
    document.title = `${page === null ? "Not found" : titles[page]}${id === undefined ? "" : ` ${id.slice(0, 40)}`} · Holdfast`;
  }, [page, id]);
  if (who === "out") return <SignIn />;
  if (who === "unnamed") return <Unnamed />;
  if (who === null) return <p class="sr">Looking …</p>;
  return (
    <>
      <Frame who={who}>{page === null ? <NotFound /> : views[page](id ?? "")}</Frame>
      {signedOut !== null && <SessionEnded state={signedOut} />}
    </>
  );
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
