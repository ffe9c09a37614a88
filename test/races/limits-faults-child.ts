/** A worker of queues with limits. Its tasks end at once: how fast the queues are depends on the claims alone. */
import { defineTask } from "../../src/index.ts";
import { openHere, startHere } from "./worker-child.ts";

const tasks = ["pick", "pack"].map((name) => defineTask({ name, run: (_input: null) => {} }));
await startHere(await openHere(), tasks);
