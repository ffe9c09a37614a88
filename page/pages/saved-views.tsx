/** Lists of jobs under names of a person's own. They stay in this browser; their addresses can be given to others. */
import type { JSX } from "preact";
import { Icon } from "../icons.tsx";
import { ask, toast } from "../notices.ts";
import { Btn } from "../parts.tsx";
import { to } from "../router.ts";
import { Store, useStore } from "../store.ts";

interface View {
  readonly name: string;
  /** The address without the page. */
  readonly query: string;
}

const SETTING = "holdfast.views";
const VIEWS_MAX = 30;
const NAME_LENGTH_MAX = 60;

function isView(one: unknown): one is View {
  const { name, query } = (one ?? {}) as Partial<View>;
  return typeof name === "string" && typeof query === "string";
}

/** Another program of this origin may have written anything. */
function stored(): readonly View[] {
  try {
    const all: unknown = JSON.parse(localStorage.getItem(SETTING) ?? "[]");
    return Array.isArray(all) ? all.filter(isView).slice(0, VIEWS_MAX) : [];
  } catch {
    return [];
  }
}

const views = new Store<readonly View[]>(stored());

function keep(all: readonly View[]): void {
  views.set(all);
  localStorage.setItem(SETTING, JSON.stringify(all));
}

/** Tabs of the same browser have the same views. */
globalThis.addEventListener("storage", ({ key }) => {
  if (key === SETTING) views.set(stored());
});

/** The same list has the same text, in whatever order its fields were given. */
function textOf(query: URLSearchParams): string {
  const filter = new URLSearchParams(query);
  filter.delete("before");
  filter.sort();
  return filter.toString();
}

export function SaveView({ query }: { readonly query: URLSearchParams }): JSX.Element | null {
  const text = textOf(query);
  const isSaved = useStore(views).some((one) => one.query === text);
  if (text === "" || isSaved) return null;
  return <Btn onClick={() => askName(text)}>Save view…</Btn>;
}

function askName(query: string): void {
  ask({
    title: "Save this view?",
    body: <p>It stays in this browser. To give it to others, copy its link.</p>,
    fields: [{ name: "name", label: "Name", required: true }],
    confirm: "Save it",
    run: async (answers) => {
      const name = String(answers["name"]).trim().slice(0, NAME_LENGTH_MAX);
      if (name === "") throw new Error("A view needs a name.");
      const others = views.value.filter((one) => one.name !== name);
      if (others.length >= VIEWS_MAX)
        throw new Error(`There are ${VIEWS_MAX} views. Remove one first.`);
      keep([...others, { name, query }]);
    },
  });
}

function remove(view: View): void {
  const before = views.value;
  keep(before.filter((one) => one !== view));
  toast(`Removed the view “${view.name}”.`, { undo: async () => keep(before) });
}

export function SavedViews({ query }: { readonly query: URLSearchParams }): JSX.Element | null {
  const all = useStore(views);
  const text = textOf(query);
  if (all.length === 0) return null;
  return (
    <nav class="line wrap views" aria-label="Saved views">
      {all.map((view) => (
        <span class="chip" key={view.name}>
          <a
            class="clip"
            title={view.name}
            href={to("jobs", new URLSearchParams(view.query))}
            aria-current={view.query === text ? "page" : undefined}
          >
            {view.name}
          </a>
          <button type="button" title="Remove" onClick={() => remove(view)}>
            <Icon name="close" />
            <span class="sr">Remove the view {view.name}</span>
          </button>
        </span>
      ))}
    </nav>
  );
}
