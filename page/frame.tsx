/** The frame around every page: navigation, search, liveness, theme, keys, notices. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import * as f from "./format.ts";
import { Icon, type IconName, Mark } from "./icons.tsx";
import { keysOn, setKeysOn, useKeys } from "./keys.ts";
import {
  freeze,
  isLost,
  type Live,
  live,
  OLD_MS,
  serverNow,
  tryNow,
  useRead,
  useNow,
} from "./live.ts";
import { QuestionView, Toasts } from "./notice-view.tsx";
import { Btn, type Children } from "./parts.tsx";
import { type Address, go, to, usePlace } from "./router.ts";
import { Find } from "./search.tsx";
import { signOut } from "./sign-in.tsx";
import { useStore } from "./store.ts";
import { switchTheme } from "./theme.ts";
import type { Session } from "./api.gen.ts";
import "./frame.css";

interface NavItem {
  readonly path: string;
  readonly text: string;
  readonly icon: IconName;
  readonly key: string;
  /** Further first parts of addresses that belong to it. */
  readonly also?: readonly string[];
  readonly query?: typeof FAILED;
}

const FAILED = { status: "failed" };

const NAV: readonly (readonly NavItem[])[] = [
  [
    { path: "", text: "Overview", icon: "overview", key: "o" },
    { path: "jobs", text: "Jobs", icon: "jobs", key: "j", also: ["enqueue", "bulk"] },
    { path: "errors", text: "Errors", icon: "warning", key: "e" },
    { path: "jobs", query: FAILED, text: "Failed jobs", icon: "dead", key: "d" },
    { path: "tasks", text: "Tasks", icon: "tasks", key: "t", also: ["builds"] },
  ],
  [
    { path: "queues", text: "Queues", icon: "queues", key: "q" },
    { path: "schedules", text: "Schedules", icon: "clock", key: "s" },
    { path: "flows", text: "Flows", icon: "flows", key: "b" },
    { path: "workflows", text: "Workflows", icon: "workflows", key: "f", also: ["items"] },
  ],
  [
    { path: "workers", text: "Workers", icon: "workers", key: "w" },
    { path: "locks", text: "Locks", icon: "lock", key: "l" },
  ],
  [
    { path: "alerts", text: "Alerts", icon: "bell", key: "a" },
    { path: "audit", text: "Audit", icon: "audit", key: "u" },
  ],
];

/** By their keys. */
const TABBAR = new Set(["o", "j", "e", "w"]);

const ENGINES: Readonly<Record<string, string>> = {
  sqlite: "SQLite",
  postgres: "PostgreSQL",
  mysql: "MySQL",
};

/** Failed jobs are a view of the list of jobs. */
function isAt(
  { path, query, also = [] }: NavItem,
  { path: [first = ""], query: q }: Address,
): boolean {
  const isFailed = first === "jobs" && q.get("status") === FAILED.status;
  return (path === first || also.includes(first)) && isFailed === (query === FAILED);
}

export function Frame({
  who,
  children,
}: {
  readonly who: Session;
  readonly children: Children;
}): JSX.Element {
  const here = usePlace();
  const { data: overview } = useRead("overview");
  const [keysShown, showKeys] = useState(false);
  const lost = useLost();
  useKeys({
    ...Object.fromEntries(
      NAV.flat().map((item) => [`g ${item.key}`, () => go(to(item.path, item.query))]),
    ),
    f: () => freeze(),
    t: switchTheme,
    "?": () => showKeys(true),
    u: () => history.back(),
  });
  const { critical = 0, warning = 0, info = 0 } = overview?.alertsOpen ?? {};
  const alerts = critical + warning + info;
  const counts: Readonly<Record<string, number>> = {
    errors: overview?.figures.errorKinds ?? 0,
    alerts,
  };
  return (
    <>
      <button
        type="button"
        class="skip"
        onClick={() => document.querySelector<HTMLElement>("#main")?.focus()}
      >
        Skip to the page
      </button>
      <div class={lost ? "app is-old" : "app"}>
        <Rail here={here} counts={counts} who={who} />
        <Top who={who} showKeys={() => showKeys(true)} />
        <Connection />
        <main class="page" id="main" tabIndex={-1}>
          {children}
        </main>
      </div>
      <TabBar here={here} alerts={alerts} />
      <Toasts />
      <QuestionView />
      {keysShown && <Keys close={() => showKeys(false)} />}
    </>
  );
}

function Rail({
  here,
  counts,
  who,
}: {
  readonly here: Address;
  readonly counts: Readonly<Record<string, number>>;
  readonly who: Session;
}): JSX.Element {
  return (
    <nav class="rail" aria-label="Pages">
      <a class="brand" href={to("")} aria-label="Holdfast, overview">
        <Mark />
        <span>Holdfast</span>
      </a>
      {NAV.map((group) => (
        <ul key={group[0]?.key}>
          {group.map((item) => {
            const number = counts[item.path] ?? 0;
            return (
              <li key={item.key}>
                <a
                  href={to(item.path, item.query)}
                  aria-current={isAt(item, here) ? "page" : undefined}
                  title={item.text}
                >
                  <Icon name={item.icon} />
                  <span class="label">{item.text}</span>
                  {number > 0 && (
                    <span class={item.path === "alerts" ? "count bad" : "count"}>
                      {f.count(number)}
                    </span>
                  )}
                </a>
              </li>
            );
          })}
        </ul>
      ))}
      <p class="foot">
        {who.site !== null && (
          <>
            {who.site}
            <br />
          </>
        )}
        <span title={who.database}>
          {ENGINES[who.engine] ?? who.engine}
          {who.latencyMs !== null && `, ${f.span(who.latencyMs)}`}
        </span>
        <br />
        Holdfast {who.version}
      </p>
    </nav>
  );
}

function TabBar({
  here,
  alerts,
}: {
  readonly here: Address;
  readonly alerts: number;
}): JSX.Element {
  const [open, setOpen] = useState(false);
  const main = NAV.flat().filter(({ key }) => TABBAR.has(key));
  const rest = NAV.flat().filter(({ key }) => !TABBAR.has(key));
  return (
    <nav class="tabbar" aria-label="Main pages">
      {main.map((item) => (
        <a
          key={item.key}
          href={to(item.path, item.query)}
          aria-current={isAt(item, here) ? "page" : undefined}
        >
          <Icon name={item.icon} />
          {item.text}
          {item.path === "" && alerts > 0 && <i />}
        </a>
      ))}
      <button
        type="button"
        aria-expanded={open}
        aria-current={rest.some((item) => isAt(item, here)) ? "page" : undefined}
        onClick={() => setOpen(!open)}
      >
        <Icon name="more" fat />
        More
      </button>
      {open && (
        <ul class="menu moremenu">
          {rest.map((item) => (
            <li key={item.key}>
              <a href={to(item.path, item.query)} onClick={() => setOpen(false)}>
                <Icon name={item.icon} />
                {item.text}
              </a>
            </li>
          ))}
        </ul>
      )}
    </nav>
  );
}

function useLost(): boolean {
  useNow();
  return isLost(useStore(live), Date.now());
}

function Top({
  who,
  showKeys,
}: {
  readonly who: Session;
  readonly showKeys: () => void;
}): JSX.Element {
  const frozen = useStore(live, ({ frozenAt }) => frozenAt !== null);
  const { name, role } = who.principal;
  return (
    <header class="top">
      <Find pages={NAV.flat()} />
      <div class="line push">
        <Liveness />
        <Btn
          kind="quiet"
          icon={frozen ? "play" : "pause"}
          label={frozen ? "Go live (f)" : "Freeze (f)"}
          hide="sm"
          onClick={() => freeze()}
        />
        <span class="sm faint hide-md" title={`Times are shown in ${f.zoneName()}`}>
          {f.zoneShort(serverNow())}
        </span>
        <Btn kind="quiet" icon="theme" label="Light or dark (t)" hide="sm" onClick={switchTheme} />
        <Btn kind="quiet" label="Keyboard (?)" hide="sm" onClick={showKeys}>
          ?
        </Btn>
        <span class="tag hide-md" title={`Signed in as ${name}`}>
          {role}
        </span>
        {who.canSignOut && <Btn kind="quiet" icon="out" label="Sign out" onClick={signOut} />}
      </div>
    </header>
  );
}

function livenessOf(
  { frozenAt, heardAt, failingSince }: Live,
  now: number,
): readonly [string, string, string] {
  if (frozenAt !== null) return ["frozen", "Frozen", `at ${f.timeOfDay(frozenAt)}`];
  const old = now - heardAt;
  if (failingSince !== null && old > OLD_MS) return ["lost", `${f.age(old)} old`, ""];
  if (failingSince !== null) return ["", "Connecting", ""];
  return ["", "Live", `${(Math.min(old, 9_900) / 1_000).toFixed(1)} s`];
}

function Liveness(): JSX.Element {
  useNow();
  const state = useStore(live);
  const [look, word, more] = livenessOf(state, Date.now());
  return (
    <span class={`live ${look}`} title="How old the newest figure is">
      <i />
      {word}
      <span class="hide-sm faint">{more}</span>
    </span>
  );
}

/** The red bar after 15 s without an answer, and a line for a moment when it is back. */
function Connection(): JSX.Element | null {
  useNow();
  const state = useStore(live);
  const { failingSince, heardAt, tryAt, backAt } = state;
  const now = Date.now();
  if (failingSince !== null && isLost(state, now)) {
    const seconds = tryAt === null ? 0 : Math.max(0, Math.ceil((tryAt - now) / 1_000));
    return (
      <div class="lostbar" role="alert">
        <Icon name="warning" />
        <p class="grow">
          <strong>
            No connection to Holdfast for {f.span(Math.floor((now - failingSince) / 1_000) * 1_000)}
            .
          </strong>{" "}
          What you see is from {f.timeOfDay(heardAt)}. Jobs go on without this page.
          {seconds > 0 && ` Trying again in ${seconds} s.`}
        </p>
        <Btn onClick={tryNow}>Try now</Btn>
      </div>
    );
  }
  if (backAt === null) return null;
  return (
    <div class="lostbar back" role="status">
      <Icon name="good" />
      <p>The connection is back, and everything is up to date.</p>
    </div>
  );
}

const KEYS: readonly (readonly [string, readonly (readonly [string, string])[]])[] = [
  [
    "Anywhere",
    [
      ["Search, go, act", "/ ctrl-k"],
      ["Freeze, go live", "f"],
      ["Light, dark", "t"],
      ["This list", "?"],
      ["Close, clear, leave", "Esc"],
    ],
  ],
  ["Go to", NAV.flat().map(({ text, key }) => [text, `g ${key}`] as const)],
  [
    "In a list",
    [
      ["Down, up", "j k"],
      ["Open, back", "↵ u"],
      ["Select, select a range", "x ⇧x"],
      ["Select all that match", "⇧a"],
      ["Show new rows", "."],
    ],
  ],
  [
    "What is open or selected",
    [
      ["Retry, or run now", "r"],
      ["Cancel", "c"],
      ["Pause, resume", "p"],
      ["Stop a worker", "s"],
      ["Copy id, copy link", "y ⇧y"],
      ["Next, previous attempt", "] ["],
    ],
  ],
];

function Keys({ close }: { readonly close: () => void }): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const on = useStore(keysOn);
  useEffect(() => box.current?.showModal(), []);
  return (
    <dialog class="keys" ref={box} aria-labelledby="keys-h" onClose={close}>
      <header>
        <h2 id="keys-h">Keyboard</h2>
        <Btn kind="quiet" push onClick={close}>
          Close <kbd>Esc</kbd>
        </Btn>
      </header>
      <div class="two">
        {KEYS.map(([title, lines]) => (
          <div key={title}>
            <h3>{title}</h3>
            <ul>
              {lines.map(([text, keys]) => (
                <li key={text}>
                  {text}
                  <span>
                    {keys.split(" ").map((key) => (
                      <kbd key={key}>{key}</kbd>
                    ))}
                  </span>
                </li>
              ))}
            </ul>
          </div>
        ))}
      </div>
      <label class="line keysoff">
        <input
          class="box"
          type="checkbox"
          checked={on}
          onChange={(event) => setKeysOn(event.currentTarget.checked)}
        />
        Single keys are on
      </label>
    </dialog>
  );
}
