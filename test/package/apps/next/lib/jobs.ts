import { defineTask, type Holdfast, openHoldfast } from "holdfast";

export const greet = defineTask({
  name: "greet",
  run: (input: { name: string }) => `hello ${input.name}`,
});

const kept = globalThis as { holdfast?: Promise<Holdfast> };

/** Opened by the first request: `next build` imports this module too. */
export function jobs(): Promise<Holdfast> {
  kept.holdfast ??= openHoldfast("sqlite:next.db").catch((error: unknown) => {
    delete kept.holdfast; // the next request tries again
    throw error;
  });
  return kept.holdfast;
}
