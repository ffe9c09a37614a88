/** Icons of 16 and state glyphs of 12 pixels, drawn with the current colour. */
import type { ComponentChildren, JSX } from "preact";
import type { Status } from "./api.gen.ts";
import "./icons.css";

const ICONS = {
  overview: "M2 10.5 5.5 7l2.5 2.5L14 3.5M2 13.5h12",
  jobs: "M5.5 4h8.5M5.5 8h8.5M5.5 12h8.5M2.25 4h.01M2.25 8h.01M2.25 12h.01",
  warning: "M8 2.5 14.2 13H1.8L8 2.5ZM8 6.7v2.8M8 11.3h.01",
  tasks: "m2.5 4 1.2 1.2L6 2.8M8.5 4H14M2.5 9l1.2 1.2L6 7.8M8.5 9H14M8.5 13.2H14M3.6 13.2h.01",
  queues: "M8 2 14 5 8 8 2 5l6-3ZM2 8.2l6 3 6-3M2 11.2l6 3 6-3",
  clock: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM8 4.5V8l2.3 1.5",
  workflows:
    "M3 2h2a1 1 0 0 1 1 1v2a1 1 0 0 1-1 1H3a1 1 0 0 1-1-1V3a1 1 0 0 1 1-1ZM11 10h2a1 1 0 0 1 1 1v2a1 1 0 0 1-1 1h-2a1 1 0 0 1-1-1v-2a1 1 0 0 1 1-1ZM6 4h3.5A2.5 2.5 0 0 1 12 6.5V10",
  flows:
    "M3.5 5.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM12.5 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM3.5 14.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM5.4 4.2 10.7 7M5.4 11.8 10.7 9",
  workers:
    "M5.5 4h5A1.5 1.5 0 0 1 12 5.5v5a1.5 1.5 0 0 1-1.5 1.5h-5A1.5 1.5 0 0 1 4 10.5v-5A1.5 1.5 0 0 1 5.5 4ZM6.5 1.5V4M9.5 1.5V4M6.5 12v2.5M9.5 12v2.5M1.5 6.5H4M1.5 9.5H4M12 6.5h2.5M12 9.5h2.5",
  lock: "M4.5 7h7A1.5 1.5 0 0 1 13 8.5v4a1.5 1.5 0 0 1-1.5 1.5h-7A1.5 1.5 0 0 1 3 12.5v-4A1.5 1.5 0 0 1 4.5 7ZM5.5 7V4.8a2.5 2.5 0 0 1 5 0V7",
  bell: "M3.5 11.5h9l-1-2V6.8a3.5 3.5 0 0 0-7 0v2.7l-1 2ZM6.7 13.8h2.6",
  audit: "M3.5 2h6.3L12.5 4.7V14h-9V2ZM6 7h4M6 10h4",
  dead: "M3 5.5h10l-.8 8H3.8L3 5.5ZM2 2.5h12v3H2zM6.5 8.5h3",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9Zm3.5 8 3 3",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.5v9l7.5-4.5L5 3.5Z",
  theme: "M13 9.5A5.5 5.5 0 1 1 6.5 3a4.5 4.5 0 0 0 6.5 6.5Z",
  info: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM8 7.5v3.3M8 5.3h.01",
  good: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM5.5 8.2l1.7 1.7 3.3-3.6",
  copy: "M7 5.5h5A1.5 1.5 0 0 1 13.5 7v5a1.5 1.5 0 0 1-1.5 1.5H7A1.5 1.5 0 0 1 5.5 12V7A1.5 1.5 0 0 1 7 5.5ZM10.5 5.5v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2",
  close: "m5 5 6 6M11 5l-6 6",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  down: "m4.5 6.5 3.5 3.5 3.5-3.5",
  right: "m6.5 4.5 3.5 3.5-3.5 3.5",
  out: "M6.5 2.5h-3v11h3M10 5l3 3-3 3M13 8H6.5",
  plus: "M8 3.5v9M3.5 8h9",
} as const;

export type IconName = keyof typeof ICONS;

export function Icon({
  name,
  fat = false,
}: {
  readonly name: IconName;
  readonly fat?: boolean;
}): JSX.Element {
  return (
    <svg
      class={fat ? "ic fat" : "ic"}
      width="16"
      height="16"
      viewBox="0 0 16 16"
      aria-hidden="true"
    >
      <path d={ICONS[name]} />
    </svg>
  );
}

export type GlyphName = Exclude<Status, "processing"> | "running";

/** The API says `processing`; people say running. */
export function wordOf(status: string): string {
  return status === "processing" ? "running" : status;
}

/** "Running". */
export function titleOf(status: string): string {
  return wordOf(status).replace(/^./, (first) => first.toUpperCase());
}

function glyphOf(status: string): GlyphName {
  const word = wordOf(status);
  return Object.hasOwn(GLYPHS, word) ? (word as GlyphName) : "pending";
}

const GLYPHS: Readonly<Record<GlyphName, () => ComponentChildren>> = {
  pending: () => <circle cx="6" cy="6" r="4.5" />,
  running: () => (
    <>
      <circle cx="6" cy="6" r="4.5" opacity=".3" />
      <path class="turn" d="M6 1.5A4.5 4.5 0 0 1 10.5 6" />
    </>
  ),
  retry: () => <path d="M10.3 6A4.3 4.3 0 1 1 8.7 2.7M8.9 .9v2.2H6.7" />,
  waiting: () => (
    <>
      <circle cx="6" cy="6" r="4.5" />
      <path d="M6 1.5a4.5 4.5 0 0 1 0 9Z" fill="currentColor" stroke="none" />
    </>
  ),
  scheduled: () => (
    <>
      <circle cx="6" cy="6" r="4.5" />
      <path d="M6 3.7V6l1.6 1" />
    </>
  ),
  done: () => <path d="M2 6.5 4.8 9.2 10 3" />,
  failed: () => (
    <>
      <circle cx="6" cy="6" r="5.25" fill="currentColor" stroke="none" />
      <path d="m4.3 4.3 3.4 3.4M7.7 4.3 4.3 7.7" class="cutout" />
    </>
  ),
  cancelled: () => (
    <>
      <circle cx="6" cy="6" r="4.5" />
      <path d="m3 9 6-6" />
    </>
  ),
  expired: () => <path d="M3 1.5h6M3 10.5h6M3.7 1.5 8.3 10.5M8.3 1.5 3.7 10.5" />,
};

export function Glyph({
  status,
  bare = false,
}: {
  readonly status: string;
  readonly bare?: boolean;
}): JSX.Element {
  const name = glyphOf(status);
  return (
    <svg
      class={bare ? "gl" : `gl ${name}`}
      width="12"
      height="12"
      viewBox="0 0 12 12"
      aria-hidden="true"
    >
      {GLYPHS[name]()}
    </svg>
  );
}

export function Mark(): JSX.Element {
  return (
    <svg width="20" height="20" viewBox="0 0 20 20" fill="none" aria-hidden="true">
      <rect width="20" height="20" rx="5" fill="currentColor" />
      <path
        class="knot"
        d="M6.5 4.5v11M13.5 4.5v11M6.5 10h7"
        stroke-width="2"
        stroke-linecap="round"
      />
    </svg>
  );
}
