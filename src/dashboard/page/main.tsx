/** The dashboard: which page an address shows. */
import { type JSX, render } from "preact";
import { useEffect } from "preact/hooks";
import { Frame } from "./frame.tsx";
import { startKeys } from "./keys.ts";
import { openStream, readSession, session } from "./live.ts";
import { JobPage } from "./pages/job.tsx";
import { JobsPage } from "./pages/jobs.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { Btn, Empty } from "./parts.tsx";
import { startRouter, to, usePlace } from "./router.ts";
import { SignIn } from "./sign-in.tsx";
import { useStore } from "./store.ts";
import { applyTheme } from "./theme.ts";

interface Page {
  readonly title: string;
  readonly view: (id: string) => JSX.Element;
}

const PAGES: Readonly<Record<string, Page>> = {
  "": { title: "Overview", view: () => <OverviewPage /> },
  jobs: { title: "Jobs", view: () => <JobsPage /> },
  "jobs/": { title: "Job", view: (id) => <JobPage key={id} id={id} /> },
};

function App(): JSX.Element {
  const who = useStore(session);
  const { path } = usePlace();
  const [first = "", id] = path;
  const page = path.length > 2 ? undefined : PAGES[id === undefined ? first : `${first}/`];
  useEffect(() => {
    document.title = `${page?.title ?? "Not found"}${id === undefined ? "" : ` ${id.slice(0, 40)}`} · Holdfast`;
  }, [page, id]);
  if (who === "out") return <SignIn />;
  if (who === null) return <p class="sr">Looking …</p>;
  return <Frame who={who}>{page === undefined ? <NotFound /> : page.view(id ?? "")}</Frame>;
}

function NotFound(): JSX.Element {
  return (
    <section class="panel">
      <Empty title="This page does not exist.">
        The address may be from another version. Everything there is stands in the navigation.
      </Empty>
      <p class="body">
        <Btn href={to("")}>Overview</Btn>
      </p>
    </section>
  );
}

applyTheme();
startRouter();
startKeys();
render(<App />, document.body);
await readSession();
if (session.value !== "out") openStream();
