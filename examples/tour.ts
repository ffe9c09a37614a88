/** Guards walk tours past checkpoints. Ten devices scan at once; the tour's state, counts and history are right all along. */
import { defineTask, openHoldfast } from "holdfast";
import { defineWorkflow, type EntryFacts, MoveRefusedError, unchecked } from "holdfast/workflows";

const told: string[] = [];
const report = defineTask({
  name: "tour.report",
  run: ({ tour, status }: { tour: string; status: string }) => {
    told.push(`${tour} is ${status}`);
  },
});

interface Tour {
  readonly site: string;
}

const tell = ({ item, enqueue }: EntryFacts<string, Tour, string>): void =>
  enqueue(report, { tour: item.identifier, status: item.status });

const tour = defineWorkflow({
  name: "tour",
  types: ["routine", "emergency"],
  data: unchecked<Tour>(),
  initial: "assigned",
  states: {
    assigned: { limit: { after: "2s", move: "auto-close" } },
    "in progress": { limit: { after: "8h", move: "auto-close" } },
    completed: { final: true, enter: tell },
    "partially completed": { final: true, enter: tell },
    "auto-closed": { final: true, enter: tell },
  },
  moves: {
    begin: { from: "assigned", to: "in progress" },
    complete: { from: "in progress", to: "completed" },
    "complete in part": { from: "in progress", to: "partially completed" },
    "auto-close": { from: ["assigned", "in progress"], to: "auto-closed" },
  },
  // In the transaction in which the last checkpoint ends, and only in that one.
  whenChildrenEnd: ({ progress }) =>
    progress.some(({ status }) => status === "missed") ? "complete in part" : "complete",
});

const checkpoint = defineWorkflow({
  name: "checkpoint",
  parent: tour,
  data: unchecked<{ code: string; opensUntil: number; scanned?: string }>(),
  initial: "open",
  states: { open: {}, scanned: { final: true }, missed: { final: true } },
  moves: {
    scan: {
      from: "open",
      to: "scanned",
      guard: ({ item, patch, now }) => {
        if (patch.scanned !== item.data.code) return "this is the code of another checkpoint";
        return now <= item.data.opensUntil || "the checkpoint has expired";
      },
    },
    miss: { from: "open", to: "missed" },
  },
});

await using holdfast = await openHoldfast("sqlite:tours.db");
const { workflows } = holdfast;
await holdfast.startWorker({
  tasks: [report],
  workflows: [tour, checkpoint],
  maintenanceInterval: "100ms",
  signals: true,
});

const night = await workflows.start(tour, {
  identifier: "night tour",
  type: "routine",
  data: { site: "harbour" },
  actor: "dispatcher",
});
await night.move("begin", { actor: "guard 7" });
const hour = Date.now() + 3_600_000;
const points = await workflows.startMany(
  checkpoint,
  Array.from({ length: 30 }, (_, n) => ({
    parent: night,
    data: { code: `C${n}`, opensUntil: n === 29 ? 0 : hour },
  })),
  { actor: "dispatcher" },
);
const forgotten = await workflows.start(tour, {
  identifier: "forgotten tour",
  type: "emergency",
  data: { site: "mill" },
  actor: "dispatcher",
});

/** Every device goes for every checkpoint: of ten that scan one, one does. */
async function walk(device: string): Promise<number> {
  let scans = 0;
  for (const point of points) {
    try {
      await point.move("scan", { actor: device, patch: { scanned: point.data.code } });
      scans += 1;
    } catch (error) {
      // The others were scanned already, and cannot be scanned again.
      if (error instanceof MoveRefusedError)
        await point.move("miss", { actor: device }).catch(() => {});
    }
  }
  return scans;
}
const devices = Array.from({ length: 10 }, (_, n) => `device ${n + 1}`);
const scans = await Promise.all(devices.map(walk));
console.log(`scans: ${scans.reduce((sum, count) => sum + count)}`);
const again = night.move("begin", { actor: "guard 7" });
console.log(await again.catch((error: unknown) => String(error).replace(night.id, "night")));

// Nobody begins the other one: it is closed by itself.
while (told.length < 2) await new Promise((resolve) => setTimeout(resolve, 50));
console.log(told.join("\n"));
for (const item of [night, forgotten]) {
  for (const { seq, actor, oldStatus, newStatus, reason } of await item.history()) {
    const why = reason === null ? "" : ` (${reason})`;
    console.log(`${item.identifier} ${seq}: ${actor}: ${oldStatus ?? "new"} → ${newStatus}${why}`);
  }
}
