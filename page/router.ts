/**
 * Addresses. Every view is one: its path, and its filters, tab, page and range as the query.
 *
 * Links are plain anchors, relative to the base of the document; a click on one does not load the page again.
 */
import { Store, useStore } from "./store.ts";

export interface Address {
  /** The parts of the path below the base: ["jobs", "0190…"]. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
  /** The whole address below the base. */
  readonly address: string;
}

export const base = new URL(document.baseURI).pathname;

const place = new Store<Address>(read());

function read(): Address {
  const { pathname, search } = globalThis.location;
  const below = pathname.startsWith(base) ? pathname.slice(base.length) : "";
  return {
    path: below
      .split("/")
      .filter((part) => part !== "")
      .map(decoded),
    query: new URLSearchParams(search),
    address: `${below}${search}`,
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** An address below the base, made of a path and a query; empty values are left out. */
export function to(
  path: readonly string[] | string,
  query: Readonly<Record<string, string | number | null | undefined>> | URLSearchParams = {},
): string {
  const parts = typeof path === "string" ? [path] : path;
  const given = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  const kept = given.filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(kept.map(([name, value]) => [name, String(value)]));
  const text = search.size === 0 ? "" : `?${search}`;
  // A relative address without a path would keep the present one.
  const below = parts.map(encodeURIComponent).join("/");
  return `${base}${below}${text}`;
}

/** Goes to an address below the base. */
export function go(address: string, how: "push" | "replace" = "push"): void {
  const from = globalThis.location.href;
  keepScroll();
  if (how === "push" && new URL(address, from).href !== from) history.pushState({}, "", address);
  else history.replaceState(history.state, "", address);
  place.set(read());
  if (how === "push") globalThis.scrollTo(0, 0);
}

/** Changes the query of the present address. */
export function setQuery(
  change: Readonly<Record<string, string | null>>,
  how: "push" | "replace" = "push",
): void {
  const { path, query } = place.value;
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(change)) {
    if (value === null || value === "") next.delete(name);
    else next.set(name, value);
  }
  const scroll = globalThis.scrollY;
  go(to(path, next), how);
  globalThis.scrollTo(0, scroll);
}

function keepScroll(): void {
  history.replaceState({ ...(history.state as object | null), y: globalThis.scrollY }, "");
}

/** The scroll position that the present entry was left at. */
function scrollOf(state: unknown): number {
  const { y = 0 } = (state ?? {}) as { y?: number };
  return y;
}

export function startRouter(): void {
  history.scrollRestoration = "manual";
  addEventListener("popstate", ({ state }) => {
    place.set(read());
    const y = scrollOf(state);
    // What was shown is cached, so it has its height in the next frame.
    requestAnimationFrame(() => requestAnimationFrame(() => globalThis.scrollTo(0, y)));
  });
  addEventListener("pagehide", keepScroll);
  document.addEventListener("click", follow);
}

function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest("a");
  if (link === null || link === undefined || link.target !== "" || link.hasAttribute("download"))
    return;
  const { origin, pathname, href } = link;
  if (origin !== globalThis.location.origin || !pathname.startsWith(base)) return;
  if (pathname.startsWith(`${base}api/`)) return;
  event.preventDefault();
  go(href);
}

export function usePlace(): Address {
  return useStore(place);
}
