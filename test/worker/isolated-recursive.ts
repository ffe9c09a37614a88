/** What not to do: this module starts a worker when it is imported. */
import { defineTask, openHoldfast } from "../../src/index.ts";

const here = { in: "thread", module: import.meta.url } as const;
export const recursive = defineTask({ name: "recursive", isolation: here, run: () => null });

await using holdfast = await openHoldfast("sqlite::memory:");
await holdfast.startWorker({ tasks: [recursive] });
