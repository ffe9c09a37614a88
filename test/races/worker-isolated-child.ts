/** A worker whose isolated tasks block their thread or process for good. */
import { looping, waiting } from "../worker/isolated-tasks.ts";
import { openHere, say, startHere, told } from "./worker-child.ts";

const holdfast = await openHere();
await startHere(holdfast, [{ ...looping, timeoutMs: null }, waiting]);
await told("close");
await holdfast.close();
say("closed");
