/** Every part in every state, on one page that is not part of the dashboard: scripts/pictures.ts and the tests look at it. */
import "./tokens.css";
import "./base.css";
import { type JSX, render } from "preact";
import { Gauge, Slots, Spark } from "./charts.tsx";
import "./frame.css";
import { Diff, JsonPanel } from "./json.tsx";
import { FieldView, Toasts } from "./notice-view.tsx";
import { toast } from "./notices.ts";
import { VerdictView } from "./pages/verdict.tsx";
import {
  Ago,
  Btn,
  Build,
  Copy,
  Crumbs,
  Empty,
  Head,
  Info,
  Note,
  Num,
  Panel,
  Seg,
  State,
  Subject,
  Tag,
  Trouble,
  Until,
} from "./parts.tsx";
import { Table } from "./table.tsx";

const LONG = "of-the-northern-warehouse-of-the-north";
const STATUSES = [
  "pending",
  "processing",
  "retry",
  "scheduled",
  "waiting",
  "done",
  "failed",
  "cancelled",
  "expired",
];
const KINDS = ["primary", "plain", "quiet", "danger"] as const;
const TREND = [0, 2, 1, 4, null, 3, 9, 2];

const never = (): Promise<void> => new Promise(() => {});

function Gallery(): JSX.Element {
  return (
    <main class="page stack">
      <Crumbs>{["Parts", "Gallery"]}</Crumbs>
      <Head title="Every part in every state" say="For the eyes of those who change one." />
      <States />
      <Buttons />
      <Sentences />
      <Panel title="Figures">
        <div class="body stack tight">
          <div class="line wrap">
            <Num value={null} /> <Num value={0} /> <Num value={1_234_567} />
            <Ago at={Date.now() - 90_000} word=" ago" /> <Until at={Date.now() + 90_000} />
          </div>
          {[0, 0.5, 1].map((share) => (
            <Gauge key={share} share={share} />
          ))}
          <Slots used={3} of={8} />
          <Slots used={8} of={8} paused />
          <div class="line wrap">
            <Spark values={TREND} /> <Spark values={TREND} bad /> <Spark values={[]} />
          </div>
        </div>
      </Panel>
      <Tables />
      <Panel title="Fields">
        <div class="body stack tight">
          {(["text", "number", "area", "check", "choice"] as const).map((kind) => (
            <FieldView
              key={kind}
              field={{
                name: kind,
                label: `A field: ${kind}`,
                kind,
                hint: "What it is for.",
                required: kind === "text",
                choices: [{ value: "a", text: LONG }],
              }}
              value={kind === "check" ? true : kind === "number" ? "7" : "a"}
              set={() => {}}
            />
          ))}
        </div>
      </Panel>
      <JsonPanel
        title="JSON"
        value={{ id: LONG, many: [1, 2, [3, null]], hidden: "[hidden]" }}
        none="No payload."
      />
      <JsonPanel title="No JSON" value={null} none="No payload." />
      <Diff before={'{\n  "cents": 1\n}'} after={'{\n  "cents": 2\n}'} />
    </main>
  );
}

function States(): JSX.Element {
  return (
    <Panel title="States and tags">
      <div class="body stack tight">
        {[false, true].map((badge) => (
          <div class="line wrap" key={String(badge)}>
            {STATUSES.map((status) => (
              <State key={status} status={status} badge={badge} />
            ))}
          </div>
        ))}
        <div class="line wrap">
          <Tag>plain</Tag> <Tag tone="warn">warn</Tag> <Tag tone="bad">bad</Tag> <Tag>{LONG}</Tag>
          <Build id="9c41d07" /> <Build id={LONG} warn /> <Subject text="queue mail" />
        </div>
      </div>
    </Panel>
  );
}

function Buttons(): JSX.Element {
  return (
    <Panel
      title="Buttons"
      right={
        <Seg
          label="A choice"
          push
          choices={["One", "Two", "Three"].map((text, at) => ({
            text,
            href: `#${text}`,
            current: at === 1,
          }))}
        />
      }
    >
      <div class="body stack tight">
        {KINDS.map((kind) => (
          <div class="line wrap" key={kind}>
            <Btn kind={kind}>{kind}</Btn>
            <Btn kind={kind} icon="pause">
              with an icon
            </Btn>
            <Btn kind={kind} off title="No connection">
              off
            </Btn>
            <Btn kind={kind} hint="p" href="#link">
              a link
            </Btn>
            <Btn kind={kind} icon="close" label={`Close ${kind}`} />
            <Btn kind={kind} onClick={never}>
              busy
            </Btn>
          </div>
        ))}
        <div class="line">
          <Copy text="copied" /> <Copy text="copied" label="Copy the id" tiny />
        </div>
      </div>
    </Panel>
  );
}

function Sentences(): JSX.Element {
  return (
    <>
      {(["v-ok", "v-warn", "v-bad", "v-none"] as const).map((look) => (
        <VerdictView
          key={look}
          look={look}
          title={`A verdict that is ${look}.`}
          text="And why it is so."
          acts={<Btn>Mend it</Btn>}
        />
      ))}
      <Note>Something to know.</Note>
      <Note tone="warn" right={<Btn>Act</Btn>}>
        Something to look at: {LONG}.
      </Note>
      <Trouble error={new Error("The database did not answer in time.")} reload={() => {}} />
      <Panel title="Empty" aside="beside" footer={<Info>A word below.</Info>}>
        <Empty title="None yet.">What makes one.</Empty>
      </Panel>
    </>
  );
}

interface Row {
  readonly name: string;
  readonly count: number;
}

const ROWS: readonly Row[] = ["short", LONG, `${LONG}-${LONG}`].map((name, at) => ({
  name,
  count: 10 ** (at * 3),
}));

function Tables(): JSX.Element {
  return (
    <>
      {[false, true].map((tall) => (
        <Panel title={tall ? "A table of two lines" : "A table"} key={String(tall)}>
          <Table
            label={tall ? "Tall" : "Plain"}
            tall={tall}
            at={1}
            rows={ROWS}
            keyOf={({ name }) => name}
            select={{ many: true, isSelected: ({ name }) => name === "short" }}
            columns={[
              { name: "State", width: 112, cell: () => <State status="done" /> },
              {
                name: "Name",
                cell: ({ name }) => (
                  <>
                    <a class="name" href="#name">
                      {name}
                    </a>
                    {tall && <span class="under">{name}</span>}
                    <span class="sub">on phones</span>
                  </>
                ),
              },
              { name: "Wide", hide: "lg", width: "20%", look: "dim", cell: ({ name }) => name },
              { name: "Queue", hide: "md", width: "20%", cell: ({ name }) => name },
              {
                name: "Count",
                align: "end",
                width: 112,
                sorted: "ascending",
                cell: ({ count }) => <Num value={count} />,
              },
            ]}
          />
        </Panel>
      ))}
    </>
  );
}

render(
  <>
    <Gallery />
    <Toasts />
  </>,
  document.body,
);
toast("Something was done.", { undo: never });
toast("It was refused.", { bad: true });
for (const button of document.querySelectorAll("button")) {
  if (button.textContent === "busy") button.click();
}
