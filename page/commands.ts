/** What the box on top offers besides what it finds: pages, and actions on what is named. */
import type { Overview } from "./api.gen.ts";
import { freeze } from "./live.ts";
import { askPause, askPauseAll, askResume, askResumeAll } from "./pages/verdict.tsx";
import { pausedTogether } from "./pages/situations.ts";
import { go, to } from "./router.ts";
import { switchTheme } from "./theme.ts";

export interface Command {
  readonly kind: "page" | "action";
  readonly text: string;
  readonly run: () => unknown;
}

/** A page of the navigation. */
export interface NamedPage {
  readonly path: string;
  readonly text: string;
  readonly query?: Readonly<Record<string, string>>;
}

const OFFERED_MAX = 6;

/** Those in whose text every word that was typed begins a word; first those that begin with what was typed. */
export function commandsFor(typed: string, commands: readonly Command[]): readonly Command[] {
  const words = typed.toLowerCase().split(/\s+/);
  const fitting = commands.filter(({ text }) => {
    const own = text.toLowerCase().split(/[^\p{L}\p{N}]+/u);
    return words.every((word) => own.some((one) => one.startsWith(word)));
  });
  const [first, others] = [true, false].map((wanted) =>
    fitting.filter((one) => beginsWith(one, typed) === wanted),
  );
  return [...(first ?? []), ...(others ?? [])].slice(0, OFFERED_MAX);
}

export function beginsWith({ text }: Command, typed: string): boolean {
  return text.toLowerCase().startsWith(typed.toLowerCase());
}

export function allCommands(
  pages: readonly NamedPage[],
  { overview, operator }: { readonly overview: Overview | undefined; readonly operator: boolean },
): readonly Command[] {
  const page = ({ path, text, query }: NamedPage): Command => ({
    kind: "page",
    text,
    run: () => go(to(path, query)),
  });
  return [
    ...pages.map(page),
    page({ path: "bulk", text: "Bulk actions" }),
    ...(operator ? actionsOf(overview) : []),
    action("Freeze the page, or go live", () => freeze()),
    action("Light or dark", switchTheme),
  ];
}

const action = (text: string, run: () => unknown): Command => ({ kind: "action", text, run });

function actionsOf(overview: Overview | undefined): readonly Command[] {
  const queues = overview?.queues ?? [];
  return [
    action("Enqueue a job…", () => go(to("enqueue"))),
    ...queues.map(({ queue, paused, running, counts }) =>
      paused === null
        ? action(`Pause queue ${queue}…`, () => askPause(queue, running))
        : action(`Resume queue ${queue}…`, () => askResume(queue, counts.pending)),
    ),
    ...(queues.some(({ paused }) => paused === null)
      ? [action("Pause everything…", () => askPauseAll(queues))]
      : []),
    ...(pausedTogether(queues).length > 0
      ? [action("Resume everything…", () => askResumeAll(queues))]
      : []),
  ];
}
