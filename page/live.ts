/**
 * What the page shows, kept fresh.
 *
 * Each address of the API that is on screen is read again when the event stream reports a change, at most once a second,
 * and every few seconds without one. While there is no connection, one request tries again after 1, 2, 4 and then every
 * 8 s, and everything else waits for it. A frozen page reads nothing.
 */
import { useEffect, useMemo, useState } from "preact/hooks";
import {
  type Reads,
  type Session,
  type StreamEventName,
  streamEventNameValues,
} from "./api.gen.ts";
import { apiUrl, type Known, onUnauthorized, readAgain, Refused, Unreachable } from "./api.ts";
import { addressOf, get, type Input, type Result } from "./client.ts";
import { Store, useStore } from "./store.ts";

const FRESH_MS = 1_000;
const EVERY_MS = 5_000;
const AGAIN_MS = 1_200;
const RETRY_MS = [1_000, 2_000, 4_000, 8_000];
const STREAM_AGAIN_MS = 10_000;
const TICK_MS = 1_000;
const CACHED_MAX = 60;

/** Without an answer for so long, the page says how old it is; after the second, that the connection is lost. */
export const OLD_MS = 5_000;
const LOST_MS = 15_000;

export interface Live {
  /** Since when the page is frozen; null: it is live. */
  readonly frozenAt: number | null;
  /** When the last answer came, by this machine's clock. */
  readonly heardAt: number;
  /** Since when no request succeeds; null: the connection works. */
  readonly failingSince: number | null;
  readonly tryAt: number | null;
  /** When the connection came back, for a short note. */
  readonly backAt: number | null;
}

export const live = new Store<Live>({
  frozenAt: null,
  heardAt: Date.now(),
  failingSince: null,
  tryAt: null,
  backAt: null,
});

/** "out": a token is needed. "unnamed": the application around it did not say who this is. */
type SignedOut = "out" | "unnamed";

/** Null: not known yet. */
export const session = new Store<Session | SignedOut | null>(null);

/** The session of who looks at this page has ended: it stays, and nothing is asked until there is a new one. */
export const ended = new Store<SignedOut | null>(null);

/** How far the server's clock is ahead of ours. */
let skewMs = 0;

/** The server's clock: times are told against it. */
export function serverNow(): number {
  return (live.value.frozenAt ?? Date.now()) + skewMs;
}

/** Draws relative times again, once a second. */
const tick = new Store(0);
setInterval(() => {
  if (live.value.frozenAt === null && !document.hidden) tick.set(tick.value + 1);
}, TICK_MS);

export function useNow(): number {
  useStore(tick);
  useStore(live, ({ frozenAt }) => frozenAt);
  return serverNow();
}

interface Entry {
  readonly path: string;
  readonly everyMs: number;
  users: number;
  known: Known | null;
  error: unknown;
  /** When its data came; 0: never. */
  at: number;
  askedAt: number;
  asking: AbortController | null;
  timer: ReturnType<typeof setTimeout> | null;
  readonly changed: Store<number>;
}

const entries = new Map<string, Entry>();

function entryOf(path: string, everyMs: number): Entry {
  const known = entries.get(path);
  if (known !== undefined) return known;
  const entry: Entry = {
    path,
    everyMs,
    users: 0,
    known: null,
    error: null,
    at: 0,
    askedAt: 0,
    asking: null,
    timer: null,
    changed: new Store(0),
  };
  entries.set(path, entry);
  for (const [old, { users }] of entries) {
    if (entries.size <= CACHED_MAX) break;
    if (users === 0) entries.delete(old);
  }
  return entry;
}

async function ask(entry: Entry): Promise<void> {
  if (entry.asking !== null) return;
  plan(entry, null);
  const asking = new AbortController();
  entry.asking = asking;
  entry.askedAt = Date.now();
  try {
    entry.known = await readAgain(entry.path, entry.known, asking.signal);
    entry.error = null;
    entry.at = Date.now();
    heard();
  } catch (error) {
    if (asking.signal.aborted) return;
    failed(entry, error);
  } finally {
    entry.asking = null;
    entry.changed.set(entry.changed.value + 1);
    if (entry.users > 0) plan(entry, entry.everyMs);
  }
}

function failed(entry: Entry, error: unknown): void {
  if (error instanceof Unreachable || isDown(error)) {
    unheard();
    // What was shown stays; the bar on top says how old it is.
    if (entry.at === 0) entry.error = error;
    return;
  }
  heard();
  if (error instanceof Refused && error.status === 401) return;
  entry.error = error;
}

/** The server or its database is away; a single request that took too long is no sign of that. */
function isDown(error: unknown): boolean {
  return error instanceof Refused && error.status === 503 && error.code !== "TOOK_TOO_LONG";
}

/** What does not exist is not asked for again, until a person does. */
function isMissing({ error }: Entry): boolean {
  return error instanceof Refused && error.status === 404;
}

function plan(entry: Entry, inMs: number | null): void {
  if (entry.timer !== null) clearTimeout(entry.timer);
  entry.timer = null;
  if (isMissing(entry) || ended.value !== null) return;
  if (inMs === null || live.value.frozenAt !== null || live.value.failingSince !== null) return;
  entry.timer = setTimeout(() => {
    if (document.hidden) plan(entry, entry.everyMs);
    else void ask(entry);
  }, inMs);
}

/** Reads everything on screen again, after an action; and once more, because the server shares answers for a second. */
export function refresh(): void {
  if (live.value.frozenAt !== null || ended.value !== null) return;
  for (const entry of entries.values()) {
    if (entry.users > 0) void ask(entry).then(() => entry.users > 0 && plan(entry, AGAIN_MS));
    else entry.at = 0;
  }
}

/** Something happened: read again, but no sooner than a second after the last time. */
function stir(): void {
  if (document.hidden) return;
  for (const entry of entries.values()) {
    if (entry.users === 0 || entry.everyMs > EVERY_MS) continue;
    plan(entry, Math.max(0, entry.askedAt + FRESH_MS - Date.now()));
  }
}

export interface Data<T> {
  readonly data: T | undefined;
  readonly error: unknown;
  /** When the data came, by this machine's clock; 0: it did not. */
  readonly at: number;
  readonly reload: () => void;
}

/** What may be left out is, if every field may. */
type Given<I> =
  Partial<I> extends I ? [input?: I | null, everyMs?: number] : [input: I | null, everyMs?: number];

/** The answer to a GET, kept fresh while the component is on screen. An input that is null: nothing is asked. */
export function useRead<P extends keyof Reads>(
  what: P,
  ...[input, everyMs = EVERY_MS]: Given<Input<P>>
): Data<Result<P>> {
  const path = input === null ? null : addressOf(what, input ?? {});
  const entry = useMemo(() => (path === null ? null : entryOf(path, everyMs)), [path]);
  const [, draw] = useState(0);
  useEffect(() => {
    if (entry === null) return undefined;
    entry.users += 1;
    const leave = entry.changed.follow(() => draw((times) => times + 1));
    if (Date.now() - entry.at > FRESH_MS || entry.error !== null) void ask(entry);
    else plan(entry, entry.everyMs);
    return () => {
      leave();
      entry.users -= 1;
      if (entry.users > 0) return;
      plan(entry, null);
      entry.asking?.abort();
      entry.at = 0; // An action may have changed it: the next user asks, however soon.
    };
  }, [entry]);
  return {
    data: entry?.known?.data as Result<P> | undefined,
    error: entry?.error ?? null,
    at: entry?.at ?? 0,
    reload: () => void (entry !== null && ask(entry)),
  };
}

// The connection.

function heard(): void {
  const { failingSince } = live.value;
  const now = Date.now();
  if (failingSince === null) return live.patch({ heardAt: now });
  const wasLost = now - failingSince > OLD_MS;
  live.patch({ heardAt: now, failingSince: null, tryAt: null, backAt: wasLost ? now : null });
  tries = 0;
  openStream();
  refresh();
  if (wasLost) setTimeout(() => live.patch({ backAt: null }), 3_000);
}

let tries = 0;
let trying: ReturnType<typeof setTimeout> | null = null;

function unheard(): void {
  const { failingSince, heardAt } = live.value;
  if (failingSince === null) live.patch({ failingSince: heardAt });
  if (trying !== null) return;
  const waitMs = RETRY_MS[Math.min(tries, RETRY_MS.length - 1)] ?? 0;
  tries += 1;
  live.patch({ tryAt: Date.now() + waitMs });
  trying = setTimeout(tryNow, waitMs);
}

export function tryNow(): void {
  if (trying !== null) clearTimeout(trying);
  trying = null;
  void readSession();
}

/** A page that is open stays as it is, with what was typed. */
function signedOut({ code }: Refused): void {
  closeStream();
  const state = code === "NO_PRINCIPAL" ? "unnamed" : "out";
  if (isIn(session.value) && session.value !== null) ended.set(state);
  else session.set(state);
}

onUnauthorized(signedOut);

function isIn(who: Session | string | null): boolean {
  return typeof who !== "string";
}

/** Who is signed in. It is also the request that finds out whether the server is back. */
export async function readSession(): Promise<void> {
  const sentAt = Date.now();
  try {
    const answer = await get("session", {});
    skewMs = answer.now - (sentAt + Date.now()) / 2;
    // A second of difference is not worth a jump of all times.
    if (Math.abs(skewMs) < TICK_MS) skewMs = 0;
    session.set(answer);
    heard();
    if (ended.value !== null) goOn();
  } catch (error) {
    if (error instanceof Refused && error.status === 401) heard();
    else unheard();
  }
}

function goOn(): void {
  ended.set(null);
  openStream();
  refresh();
}

let stream: EventSource | null = null;

/** These only show that the connection works. */
const SAYS_NOTHING: ReadonlySet<StreamEventName> = new Set(["hello", "tick"]);

/** The events tell only that something happened: what it was is read from the API. */
export function openStream(): void {
  if (!isIn(session.value) || ended.value !== null) return;
  if (stream !== null && stream.readyState !== EventSource.CLOSED) return;
  stream = new EventSource(apiUrl("stream?tick=true"));
  for (const name of streamEventNameValues) {
    stream.addEventListener(name, () => {
      live.patch({ heardAt: Date.now() });
      if (!SAYS_NOTHING.has(name)) stir();
    });
  }
  // The browser connects again by itself unless it was refused; the requests find out whether the server answers.
  const opened = stream;
  stream.addEventListener("error", () => {
    if (!isIn(session.value) || ended.value !== null) return;
    void readSession();
    if (opened.readyState === EventSource.CLOSED) setTimeout(openStream, STREAM_AGAIN_MS);
  });
}

export function closeStream(): void {
  stream?.close();
  stream = null;
}

export function freeze(on = live.value.frozenAt === null): void {
  live.patch({ frozenAt: on ? Date.now() : null });
  if (!on) refresh();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) stir();
});

export function isLost({ failingSince }: Live, now: number): boolean {
  return failingSince !== null && now - failingSince > LOST_MS;
}

/** Whether changes can be made: the person may, and there is a connection. */
export function useMay(): { readonly operator: boolean; readonly why: string | null } {
  const who = useStore(session);
  const failing = useStore(live, ({ failingSince }) => failingSince !== null);
  const operator = who !== null && typeof who !== "string" && who.principal.role === "operator";
  return { operator, why: failing ? "No connection" : null };
}
