/** Every promise of the store contract, for one engine in one mode. */
import { describe } from "node:test";
import type { Group, Open } from "../support/bundle.ts";
import { actions } from "./actions.ts";
import { alerts } from "./alerts.ts";
import { access } from "./access.ts";
import { audit } from "./audit.ts";
import { bulk } from "./bulk.ts";
import { cancelling } from "./cancelling.ts";
import { charts } from "./charts.ts";
import { claiming } from "./claiming.ts";
import { closing } from "./closing.ts";
import { completing } from "./completing.ts";
import { enqueueing } from "./enqueueing.ts";
import { errorsByKind } from "./errors-by-kind.ts";
import { events } from "./events.ts";
import { explanations } from "./explanations.ts";
import { fencing } from "./fencing.ts";
import { filtering } from "./filtering.ts";
import { figures } from "./figures.ts";
import { findings } from "./findings.ts";
import { flows } from "./flows.ts";
import { hints } from "./hints.ts";
import { history } from "./history.ts";
import { itemRules } from "./item-rules.ts";
import { itemUpkeep } from "./item-upkeep.ts";
import { items } from "./items.ts";
import { keptKeys } from "./kept-keys.ts";
import { keyConflicts } from "./key-conflicts.ts";
import { keys } from "./keys.ts";
import { leases } from "./leases.ts";
import { lostAnswers } from "./lost-answers.ts";
import { limits } from "./limits.ts";
import { listing } from "./listing.ts";
import { load } from "./load.ts";
import { isLong, notDrawn } from "../support/scale.ts";
import { locks } from "./locks.ts";
import { migrations } from "./migrations.ts";
import { pacing } from "./pacing.ts";
import { outages } from "./outages.ts";
import { promoting } from "./promoting.ts";
import { pruning } from "./pruning.ts";
import { registry } from "./registry.ts";
import { reopening } from "./reopening.ts";
import { reports } from "./reports.ts";
import { reruns } from "./reruns.ts";
import { retrying } from "./retrying.ts";
import { schedules } from "./schedules.ts";
import { searching } from "./searching.ts";
import { settling } from "./settling.ts";
import { steps } from "./steps.ts";
import { tags } from "./tags.ts";
import { traces } from "./traces.ts";
import { versions } from "./versions.ts";
import { views } from "./views.ts";
import { workflows } from "./workflows.ts";

const groups: Record<string, Group> = {
  migrations,
  enqueueing,
  keys,
  "kept keys": keptKeys,
  "key conflicts": keyConflicts,
  pacing,
  claiming,
  limits,
  explanations,
  fencing,
  leases,
  settling,
  completing,
  retrying,
  outages,
  reopening,
  cancelling,
  "actions on one job": actions,
  "many at once": bulk,
  reruns,
  promoting,
  pruning,
  listing,
  history,
  registry,
  versions,
  steps,
  events,
  flows,
  reports,
  locks,
  figures,
  charts,
  searching,
  filtering,
  "errors by kind": errorsByKind,
  traces,
  tags,
  views,
  load,
  workflows,
  items,
  "item rules": itemRules,
  "item upkeep": itemUpkeep,
  audit,
  alerts,
  schedules,
  access,
  findings,
  hints,
  "lost answers": lostAnswers,
  closing,
};

/** Promises that depend on who makes the call; with LONG=1, all are tried in every way. */
const BETWEEN = new Set([
  "claiming",
  "keys",
  "kept keys",
  "key conflicts",
  "pacing",
  "leases",
  "cancelling",
  "promoting",
  "registry",
  "locks",
  "alerts",
  "schedules",
  "hints",
  "closing",
]);

/** Promises about what takes functions, which do not travel: another process cannot be asked for it. */
const HERE = new Set([
  "items",
  "item rules",
  "item upkeep",
  "findings",
  "load",
  "searching",
  "filtering",
]);
/** Where push cannot work, the doctor says so, and these expect that it finds nothing. */
const WITH_PUSH = new Set(["findings"]);

/** Features beside the jobs, which hardly depend on the engine: a sample tries them on SQLite and on one server. */
const BESIDE = new Set(["access", "alerts", "charts", "errors by kind", "figures", "searching"]);

/** On the server whose turn it is not, a sample tries half of what does not depend on who makes the call. */
function isLeftOut(name: string): boolean {
  return !BETWEEN.has(name) && notDrawn(2, name) !== false;
}

export interface Wanted {
  readonly which?: "all" | "between";
  readonly apart?: boolean;
  readonly noPush?: boolean;
  readonly besideToo?: boolean;
}

export function conformance(
  open: Open,
  { which = "all", apart = false, noPush = false, besideToo = true }: Wanted = {},
): void {
  const isWanted = (name: string): boolean => {
    if (!besideToo && (BESIDE.has(name) || isLeftOut(name))) return false;
    if ((apart && HERE.has(name)) || (noPush && WITH_PUSH.has(name))) return false;
    return which === "all" || isLong || BETWEEN.has(name);
  };
  for (const [name, group] of Object.entries(groups)) {
    if (isWanted(name)) describe(name, () => group(open));
  }
}
