/** The parts that pages are made of. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { sentence } from "./api.ts";
import * as f from "./format.ts";
import { Glyph, Icon, type IconName, wordOf } from "./icons.tsx";
import { useMay, useNow } from "./live.ts";
import { toast } from "./notices.ts";
import { to } from "./router.ts";
import "./parts.css";

export type Children = ComponentChildren;

const BONES_AFTER_MS = 200;

// States, tags and times.

interface StateProps {
  readonly status: string;
  readonly badge?: boolean;
  readonly word?: string;
  readonly title?: string;
}

export function State({ status, badge = false, word, title }: StateProps): JSX.Element {
  return (
    <span class={`st ${badge ? "badge " : ""}${wordOf(status)}`} title={title}>
      <Glyph status={status} bare />
      {word ?? wordOf(status)}
    </span>
  );
}

type Tone = "warn" | "bad" | "plain";

export function Tag({
  children,
  tone = "plain",
  title,
}: {
  readonly children: Children;
  readonly tone?: Tone;
  readonly title?: string;
}): JSX.Element {
  return (
    <span class={tone === "plain" ? "tag" : `tag ${tone}`} title={title}>
      {children}
    </span>
  );
}

/** A version made of the start time of a process names no build. */
const NO_BUILD = /^build-\d+$/;

/** A build, by its id: it leads to what it changed. */
export function Build({
  id,
  warn = false,
}: {
  readonly id: string;
  readonly warn?: boolean;
}): JSX.Element {
  const look = warn ? "tag mono warn" : "tag mono";
  const text = id.length > 16 ? `${id.slice(0, 15)}…` : id;
  return NO_BUILD.test(id) ? (
    <span class={look} title={`Build ${id}`}>
      {text}
    </span>
  ) : (
    <a class={look} href={to(["builds", id])} title={`Build ${id}`}>
      {text}
    </a>
  );
}

/** How long ago, in one unit; the exact instant on hover. */
export function Ago({
  at,
  word = "",
}: {
  readonly at: number;
  readonly word?: string;
}): JSX.Element {
  const now = useNow();
  return (
    <time dateTime={new Date(at).toISOString()} title={f.exact(at)}>
      {f.age(now - at)}
      {word}
    </time>
  );
}

/** "in 3 min 12 s"; when it is over, "now". */
export function Until({ at }: { readonly at: number }): JSX.Element {
  const now = useNow();
  const left = at - now;
  return (
    <time dateTime={new Date(at).toISOString()} title={f.exact(at)}>
      {left > 0 ? `in ${f.span(Math.ceil(left / 1_000) * 1_000)}` : "now"}
    </time>
  );
}

/** How long it has lasted so far. */
export function Lasting({ since }: { readonly since: number }): JSX.Element {
  const now = useNow();
  return (
    <span title={`since ${f.exact(since)}`}>
      {f.span(Math.max(0, Math.floor((now - since) / 1_000) * 1_000))}
    </span>
  );
}

/** "10:41:08" today, otherwise with the day. */
export function Moment({ at }: { readonly at: number }): JSX.Element {
  const now = useNow();
  return (
    <time dateTime={new Date(at).toISOString()} title={f.exact(at)}>
      {f.moment(at, now)}
    </time>
  );
}

/** A number; a zero is faint. */
export function Num({ value }: { readonly value: number | null }): JSX.Element {
  if (value === null) return <span class="faint">–</span>;
  return value === 0 ? <span class="faint">0</span> : <>{f.count(value)}</>;
}

// Buttons.

export interface BtnProps {
  readonly children?: Children;
  readonly kind?: "primary" | "plain" | "quiet" | "danger";
  readonly icon?: IconName;
  readonly onClick?: (() => unknown) | undefined;
  readonly title?: string | undefined;
  /** A name for a button that shows only its icon. */
  readonly label?: string;
  readonly hint?: string;
  readonly hide?: "sm" | "md";
  readonly off?: boolean;
  readonly href?: string;
  readonly push?: boolean;
  readonly type?: "button" | "submit";
}

function classes({ kind = "plain", label, hide, push }: BtnProps): string {
  const parts = ["btn"];
  if (kind !== "plain") parts.push(kind);
  if (label !== undefined) parts.push("icon");
  if (hide !== undefined) parts.push(`hide-${hide}`);
  if (push === true) parts.push("push");
  return parts.join(" ");
}

function Inside({ icon, children, label, hint }: BtnProps): JSX.Element {
  return (
    <>
      {icon !== undefined && <Icon name={icon} fat={icon === "more"} />}
      {children}
      {label !== undefined && <span class="sr">{label}</span>}
      {hint !== undefined && <kbd class="on hide-sm">{hint}</kbd>}
    </>
  );
}

/** A button; if its work takes time, the glyph turns until it is over. */
export function Btn(props: BtnProps): JSX.Element {
  const { onClick, title, label, href, off = false, type = "button" } = props;
  const [busy, setBusy] = useState(false);
  if (href !== undefined) {
    return (
      <a class={classes(props)} href={href} title={title ?? label}>
        <Inside {...props} />
      </a>
    );
  }
  const press = (): void => {
    if (busy || off) return;
    const work = onClick?.();
    if (!(work instanceof Promise)) return;
    setBusy(true);
    void work
      .catch((error: unknown) => toast(sentence(error), { bad: true }))
      .finally(() => setBusy(false));
  };
  return (
    <button
      type={type}
      class={busy ? `${classes(props)} busy` : classes(props)}
      title={title ?? label}
      aria-disabled={off || undefined}
      aria-busy={busy || undefined}
      onClick={press}
    >
      {busy && <Glyph status="processing" bare />}
      <Inside {...props} />
    </button>
  );
}

/** A button that changes something: a viewer has none, and without a connection it says why it does nothing. */
export function Act(props: BtnProps): JSX.Element | null {
  const { operator, why } = useMay();
  if (!operator) return null;
  return why === null ? <Btn {...props} /> : <Btn {...props} off title={why} />;
}

export function Copy({
  text,
  label = "Copy",
  tiny = false,
}: {
  readonly text: string;
  readonly label?: string;
  readonly tiny?: boolean;
}): JSX.Element {
  const copy = async (): Promise<void> => {
    await copyText(text);
    toast(`Copied: ${text.length > 60 ? `${text.slice(0, 60)}…` : text}`);
  };
  return tiny ? (
    <button type="button" class="btn quiet icon tiny" title={label} onClick={() => void copy()}>
      <Icon name="copy" />
      <span class="sr">{label}</span>
    </button>
  ) : (
    <Btn kind="quiet" push onClick={copy}>
      {label}
    </Btn>
  );
}

/** The clipboard's interface exists only over HTTPS and on the loopback interface. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard as Clipboard | undefined) return navigator.clipboard.writeText(text);
  const box = document.createElement("textarea");
  box.value = text;
  box.className = "sr";
  document.body.append(box);
  box.select();
  // oxlint-disable-next-line typescript/no-deprecated -- Nothing else copies without HTTPS.
  document.execCommand("copy");
  box.remove();
}

// Layout.

export function Head({
  title,
  say,
  acts,
  tag,
}: {
  readonly title: Children;
  readonly say?: Children;
  readonly acts?: Children;
  readonly tag?: Children;
}): JSX.Element {
  return (
    <div class="head">
      <div class={say === undefined ? "" : "grow"}>
        {tag === undefined ? (
          <h1>{title}</h1>
        ) : (
          <div class="line wrap">
            <h1>{title}</h1>
            {tag}
          </div>
        )}
        {say !== undefined && <p class="say">{say}</p>}
      </div>
      {acts !== undefined && <div class="acts">{acts}</div>}
    </div>
  );
}

export function Panel({
  title,
  aside,
  right,
  children,
  footer,
  bare = false,
  id,
}: {
  readonly title?: Children;
  readonly aside?: Children;
  readonly right?: Children;
  readonly children?: Children;
  readonly footer?: Children;
  readonly bare?: boolean;
  readonly id?: string;
}): JSX.Element {
  return (
    <section class="panel" id={id}>
      {title !== undefined && (
        <header class={bare ? "bare" : ""}>
          <h2>{title}</h2>
          {aside !== undefined && <span class="faint sm">{aside}</span>}
          {right}
        </header>
      )}
      {children}
      {footer !== undefined && <footer>{footer}</footer>}
    </section>
  );
}

export function Info({ children }: { readonly children: Children }): JSX.Element {
  return (
    <>
      <Icon name="info" />
      <span>{children}</span>
    </>
  );
}

export function Note({
  tone,
  children,
  right,
}: {
  readonly tone?: "warn" | "bad";
  readonly children: Children;
  readonly right?: Children;
}): JSX.Element {
  return (
    <div
      class={tone === undefined ? "note" : `note ${tone}`}
      role={tone === "bad" ? "alert" : undefined}
    >
      <Icon name={tone === undefined ? "info" : "warning"} />
      <p class="grow">{children}</p>
      {right}
    </div>
  );
}

export interface Choice {
  readonly text: Children;
  readonly href: string;
  readonly current: boolean;
}

export function Seg({
  label,
  choices,
  push = false,
}: {
  readonly label: string;
  readonly choices: readonly Choice[];
  readonly push?: boolean;
}): JSX.Element {
  return (
    <nav class={push ? "seg push" : "seg"} aria-label={label}>
      {choices.map(({ text, href, current }) => (
        <a key={href} href={href} aria-current={current ? "true" : undefined}>
          {text}
        </a>
      ))}
    </nav>
  );
}

// Loading, empty and failed.

/** Rows of bones, after a moment: a list that comes at once does not flicker. */
export function Bones({ rows = 6 }: { readonly rows?: number }): JSX.Element | null {
  const [shown, show] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => show(true), BONES_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  if (!shown) return null;
  return (
    <div class="bones" role="status">
      <span class="sr">Looking …</span>
      {Array.from({ length: rows }, (_, row) => (
        <div class="bonerow" key={row}>
          <i class="bone w1" />
          <i class="bone w2" />
          <i class="bone w3" />
        </div>
      ))}
    </div>
  );
}

/** In the place of what could not be read. */
export function Trouble({
  error,
  reload,
  page,
}: {
  readonly error: unknown;
  readonly reload: () => void;
  /** The heading, if it stands for the whole page. */
  readonly page?: string | undefined;
}): JSX.Element {
  return (
    <>
      {page !== undefined && <Head title={page} />}
      <Note tone="bad" right={<Btn onClick={reload}>Try again</Btn>}>
        {sentence(error)}
      </Note>
    </>
  );
}

export function Empty({
  title,
  children,
}: {
  readonly title: string;
  readonly children?: Children;
}): JSX.Element {
  return (
    <div class="body emptyp">
      <p class="strong">{title}</p>
      {children !== undefined && <p class="dim">{children}</p>}
    </div>
  );
}

/** What is asked for: its data, bones while it comes, or what went wrong. */
export function Shown<T>({
  from,
  rows,
  page,
  children,
}: {
  readonly from: {
    readonly data: T | undefined;
    readonly error: unknown;
    readonly reload: () => void;
  };
  readonly rows?: number;
  /** The heading of the page while there is no data. */
  readonly page?: string;
  readonly children: (data: T) => Children;
}): JSX.Element {
  const { data, error, reload } = from;
  return (
    <>
      {error !== null && (
        <Trouble error={error} reload={reload} page={data === undefined ? page : undefined} />
      )}
      {data !== undefined
        ? children(data)
        : error === null && <Bones {...(rows === undefined ? {} : { rows })} />}
    </>
  );
}

// Links to things.

export function JobLink({
  id,
  children,
}: {
  readonly id: string;
  readonly children?: Children;
}): JSX.Element {
  return <a href={to(["jobs", id])}>{children ?? <span class="mono">{f.shortId(id)}</span>}</a>;
}

export function QueueLink({ name }: { readonly name: string }): JSX.Element {
  return <a href={to(["queues", name])}>{name}</a>;
}

export function WorkerLink({ id }: { readonly id: string }): JSX.Element {
  return (
    <a href={to(["workers", id])} title={id}>
      {f.workerName(id)}
    </a>
  );
}

/** A task, with its version if it has one: the page is that of all its versions. */
export function TaskLink({ name }: { readonly name: string }): JSX.Element {
  const [bare = name] = name.split("@");
  return (
    <a class="clip" href={to(["tasks", bare])}>
      {name}
    </a>
  );
}

const SUBJECTS: ReadonlyMap<string, string> = new Map([
  ["job", "jobs"],
  ["queue", "queues"],
  ["worker", "workers"],
  ["schedule", "schedules"],
  ["item", "items"],
  ["flow", "flows"],
  ["bulk", "bulk"],
]);

/** A subject leads to what it names. */
export function Subject({ text }: { readonly text: string }): JSX.Element {
  const [kind = "", ...rest] = text.split(" ");
  const id = rest.join(" ");
  const place = SUBJECTS.get(kind);
  if (place === undefined || id === "") return <>{text}</>;
  return (
    <a href={to([place, id])} title={text}>
      {kind} {f.shortId(id)}
    </a>
  );
}

export function Crumbs({ children }: { readonly children: readonly Children[] }): JSX.Element {
  return (
    <nav class="crumb sm" aria-label="Where this is">
      {children.map((child, at) => (
        <span class="line" key={at}>
          {at > 0 && <span class="faint">/</span>}
          {child}
        </span>
      ))}
    </nav>
  );
}
