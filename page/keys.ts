/**
 * Single keys. The newest registration that knows a key answers it; nothing is answered while a person writes or a question
 * is open. They can be turned off, because some people's machines type by voice (WCAG 2.1.4).
 */
import { useEffect, useRef } from "preact/hooks";
import { Store } from "./store.ts";

const PREFIX_MS = 1_500;
const SETTING = "holdfast.keys";

export type KeyMap = Readonly<Record<string, (() => unknown) | undefined>>;

const maps: { current: KeyMap }[] = [];

export const keysOn = new Store(localStorage.getItem(SETTING) !== "off");

export function setKeysOn(on: boolean): void {
  localStorage.setItem(SETTING, on ? "on" : "off");
  keysOn.set(on);
}

/** Keys for as long as the component is on screen: "r", "X" with shift, "g o" for one after the other. */
export function useKeys(map: KeyMap): void {
  const held = useRef(map);
  held.current = map;
  useEffect(() => {
    maps.push(held);
    return () => void maps.splice(maps.indexOf(held), 1);
  }, []);
}

let prefix = "";
let prefixAt = 0;

function isWriting(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLTextAreaElement ||
    target instanceof HTMLSelectElement ||
    (target instanceof HTMLInputElement && target.type !== "checkbox" && target.type !== "radio")
  );
}

function answer(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const isEscape = event.key === "Escape";
  if (document.querySelector("dialog[open]") !== null) return;
  if (isWriting(event.target) && !isEscape) return;
  if (!keysOn.value && !isEscape && event.key !== "?") return;
  const isSecond = prefix !== "" && event.timeStamp - prefixAt < PREFIX_MS;
  const key = isSecond ? `${prefix} ${event.key}` : event.key;
  prefix = "";
  for (const { current } of maps.toReversed()) {
    const act = current[key];
    if (act === undefined) continue;
    event.preventDefault();
    act();
    return;
  }
  const begins = maps.some(({ current }) =>
    Object.keys(current).some((one) => one.startsWith(`${event.key} `)),
  );
  if (!begins) return;
  prefix = event.key;
  prefixAt = event.timeStamp;
}

export function startKeys(): void {
  addEventListener("keydown", answer);
}
