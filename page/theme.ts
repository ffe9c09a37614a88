/** Light, dark, or as the system has it. */
import { Store } from "./store.ts";

const SETTING = "holdfast.theme";

export type Theme = "system" | "light" | "dark";

function stored(): Theme {
  const given =
    new URLSearchParams(globalThis.location.search).get("theme") ?? localStorage.getItem(SETTING);
  return given === "light" || given === "dark" ? given : "system";
}

const theme = new Store<Theme>(stored());

export function applyTheme(): void {
  const { dataset } = document.documentElement;
  if (theme.value === "system") delete dataset["theme"];
  else dataset["theme"] = theme.value;
}

/** The other one than what is seen now, and back to the system's when they are the same. */
export function switchTheme(): void {
  const systemIsDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const seen = theme.value === "system" ? (systemIsDark ? "dark" : "light") : theme.value;
  const next = seen === "dark" ? "light" : "dark";
  const isSystems = (next === "dark") === systemIsDark;
  theme.set(isSystems ? "system" : next);
  localStorage.setItem(SETTING, theme.value);
  applyTheme();
}
