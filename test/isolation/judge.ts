/** What must be true after any race, whichever actor was faster. */
import type { Picture } from "./stage.ts";
import type { Race } from "./theatre.ts";
import type { Facts, Played } from "./tester.ts";
import type { Kind, Tells } from "./verbs.ts";

const STATES = ["ready", "waiting", "lease", "finished"] as const;

type Row = Readonly<Record<string, unknown>>;

/** A permutation, and the tables as they were before it. */
export type Performance = Played & { readonly before: Picture };

/** Everything that is wrong; nothing where all is well. */
export function problemsOf(race: Race, played: Performance): string[] {
  const { errors, facts, before } = played;
  return [
    ...errors,
    ...standsOnce(facts.tables),
    ...epochsNeverFall(before, facts),
    ...oneOwnerAnEpoch(before, facts),
    ...finishesOnce(facts),
    ...keysAreHeld(facts.tables),
    ...waitsCount(facts.tables),
    ...limitsHold(race, facts.tables),
    ...(errors.length > 0 ? [] : cameInOrder(race, played)),
    // An actor that an error stopped has acknowledged nothing.
    ...(errors.length > 0 ? [] : toldWhatHappened(race, facts)),
  ];
}

/** What all calls of one kind told, in the order of the actors. */
function toldBy<K extends Kind>(race: Race, facts: Facts, kind: K): Tells[K][] {
  return Object.entries(race.actors).flatMap(([name, { verbs }]) =>
    verbs.flatMap((verb, index) => {
      const told = facts.told[name] ?? [];
      return verb.kind === kind && index < told.length ? [told[index] as Tells[K]] : [];
    }),
  );
}

/** In words: what every call told, and what became of the jobs. */
export function outcomeOf(race: Race, facts: Facts): string {
  const told = Object.entries(race.actors).map(([name, { verbs }]) => {
    const words = verbs.map(({ kind }, index) => inWords(kind, facts.told[name]?.[index]));
    return `${name} ${words.join(", ")}`;
  });
  const jobs = facts.tables["job"]!.map(({ id }) => id as string).toSorted();
  const became = jobs.map((id) => statusOf(facts.tables, id));
  return `${told.join("; ")}: ${became.join(" and ")}`;
}

function inWords(kind: Kind, told: unknown): string {
  if (told === undefined) return "failed";
  const all = { kind, told } as { [K in Kind]: { kind: K; told: Tells[K] } }[Kind];
  switch (all.kind) {
    case "enqueue":
      return all.told.map(({ added }) => (added ? "added" : "found")).join(" ");
    case "turn": {
      const settled = all.told.settled.map(({ status }) => status);
      const claimed = all.told.claimed.map(({ epoch }) => `claimed at ${epoch}`);
      return [...settled, ...claimed].join(" ") || "nothing";
    }
    case "extend":
      return (
        all.told.map((one) => (one.cancelRequested ? "told to stop" : "extended")).join(" ") ||
        "nothing"
      );
    case "reclaim":
      return all.told.map(({ status }) => status).join(" ") || "nothing";
    case "promote":
      return `moved ${all.told.moved}`;
    case "cancel":
      return all.told ?? "nothing";
    case "rule":
      return all.told ? "set" : "nothing";
  }
}

function statusOf(tables: Picture, id: string): string {
  const [place] = placesOf(tables, id);
  const row = tables[place ?? "job"]!.find((one) => one["id"] === id)!;
  switch (place) {
    case undefined:
      return "gone";
    case "ready":
      return "pending";
    case "lease":
      return `${row["cancel_requested_at"] === null ? "with" : "to be cancelled by"} ${String(row["locked_by"])}`;
    default:
      return String(row["status"]);
  }
}

/** The tables in which a job stands. */
function placesOf(tables: Picture, id: unknown): string[] {
  return STATES.filter((state) => tables[state]!.some((row) => row["id"] === id));
}

function standsOnce(tables: Picture): string[] {
  return tables["job"]!.flatMap(({ id }) => {
    const places = placesOf(tables, id);
    if (places.length === 1) return [];
    return [`job ${String(id)} stands in ${places.join(" and ") || "no table"}`];
  });
}

/** The epochs that a job had, in order. */
function epochsOf(before: Picture, { entries }: Facts, id: unknown): number[] {
  const stood = STATES.flatMap((state) => before[state]!).filter((row) => row["id"] === id);
  const entered = entries.filter((row) => row["place"] !== "attempt" && row["id"] === id);
  return [...stood, ...entered].map((row) => row["epoch"] as number);
}

function epochsNeverFall(before: Picture, facts: Facts): string[] {
  return facts.tables["job"]!.flatMap(({ id }) => {
    const epochs = epochsOf(before, facts, id);
    const falls = epochs.some((epoch, index) => epoch < (epochs[index - 1] ?? 0));
    return falls ? [`the epochs of ${String(id)} were ${epochs.join(", ")}`] : [];
  });
}

function oneOwnerAnEpoch(before: Picture, facts: Facts): string[] {
  const leases = [...before["lease"]!, ...facts.entries.filter(isIn("lease"))];
  const owned = leases.map(({ id, epoch }) => `${String(id)} at epoch ${String(epoch)}`);
  return twice(owned).map((lease) => `two owners of ${lease}`);
}

function finishesOnce({ entries }: Facts): string[] {
  const ids = entries.filter(isIn("finished")).map((row) => String(row["id"]));
  return twice(ids).map((id) => `job ${id} finished twice`);
}

/** By every job that has not finished, and by no other. */
function keysAreHeld(tables: Picture): string[] {
  const text = (row: Row, id: unknown) =>
    `${String(row["task"])} ${String(row["job_key"])} ${String(id)}`;
  const alive = ["ready", "waiting", "lease"].flatMap((state) => tables[state]!);
  const wanted = alive.filter((row) => row["job_key"] !== null).map((row) => text(row, row["id"]));
  const held = tables["job_key"]!.map((row) => text(row, row["job_id"]));
  return difference("keys", wanted, held);
}

/** A job waits for as many ends as it has rows, and none of these has happened. */
function waitsCount(tables: Picture): string[] {
  const deps = tables["dep"]!;
  const ended = new Set(tables["finished"]!.map(({ id }) => id));
  const wrong = tables["waiting"]!.flatMap(({ id, missing, due_at: dueAt }) => {
    const rows = deps.filter((dep) => dep["job_id"] === id).length;
    if (rows === missing && (rows > 0 || dueAt !== null)) return [];
    return [`job ${String(id)} waits for ${String(missing)} jobs and has ${rows} rows`];
  });
  const unheard = deps
    .filter((dep) => ended.has(dep["on_id"]))
    .map((dep) => `job ${String(dep["job_id"])} waits for one that has ended`);
  const waiting = new Set(tables["waiting"]!.map(({ id }) => id));
  const orphans = deps
    .filter((dep) => !waiting.has(dep["job_id"]))
    .map((dep) => `job ${String(dep["job_id"])} has a row, but does not wait`);
  return [...wrong, ...unheard, ...orphans];
}

/** What an actor had ended, the other one knew when it began. */
function cameInOrder(race: Race, { permutation, facts }: Played): string[] {
  if (race.ordered === undefined) return [];
  const [first, second] = race.ordered.actors;
  const steps = permutation.split(" ");
  const ended = steps.findLastIndex((step) => step === first || step.startsWith(`${first}_`));
  const outcome = outcomeOf(race, facts);
  if (ended > steps.indexOf(second) || outcome === race.ordered.outcome) return [];
  return [`${second} began after the end of ${first}: ${outcome}`];
}

function limitsHold({ limits = {} }: Race, tables: Picture): string[] {
  const leases = tables["lease"]!;
  const lanes = Map.groupBy(leases, ({ lane }) => lane);
  const most = Math.max(0, ...[...lanes.values()].map(({ length }) => length));
  const { queue = leases.length, lane = most } = limits;
  return [
    ...(leases.length > queue ? [`${leases.length} jobs run at once, allowed ${queue}`] : []),
    ...(most > lane ? [`${most} jobs of a lane run at once, allowed ${lane}`] : []),
  ];
}

/** Claims and ends of attempts: told is what the tables saw, and what they saw was told. */
function toldWhatHappened(race: Race, facts: Facts): string[] {
  const turns = toldBy(race, facts, "turn");
  const claimed = turns.flatMap((turn) => turn.claimed);
  const settled = [...turns.map((turn) => turn.settled), ...toldBy(race, facts, "reclaim")].flat();
  const leased = facts.entries.filter(isIn("lease"));
  // A job that was cancelled while no worker ran it ends no attempt.
  const ended = facts.entries.filter((row) => isIn("finished")(row) && row["worker"] !== null);
  const went = facts.entries.filter(isIn("attempt"));
  return [
    ...difference("claims", claimed.map(fenceText), leased.map(rowText)),
    ...difference("ends of attempts", settled.map(fenceText), [...ended, ...went].map(rowText)),
    ...Object.entries(race.actors).flatMap(([name, { verbs }]) =>
      facts.told[name]?.length === verbs.length ? [] : [`${name} did not come to its end`],
    ),
  ];
}

function fenceText({ id, worker, epoch }: { id: string; worker: string; epoch: number }): string {
  return `${id} ${worker} ${epoch}`;
}

function rowText(row: Row): string {
  const { id = row["job_id"], worker = row["locked_by"], epoch } = row;
  return `${String(id)} ${String(worker)} ${String(epoch)}`;
}

function difference(what: string, told: readonly string[], seen: readonly string[]): string[] {
  const same = told.toSorted().join("; ") === seen.toSorted().join("; ");
  return same ? [] : [`${what} should be: ${told.join("; ")}, but are: ${seen.join("; ")}`];
}

function isIn(place: string): (row: Row) => boolean {
  return (row) => row["place"] === place;
}

function twice(names: readonly string[]): string[] {
  return [...new Set(names.filter((name, index) => names.indexOf(name) !== index))];
}
