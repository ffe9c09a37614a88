/** Every job of a flow starts after all that it waits for are done, and a flow exists whole or not at all: I11. */
import type { History, Violation, Witnessed } from "./history.ts";

/** What each job of a flow waits for, repeated here so that a mistake in the workload is noticed. */
const AFTER: Readonly<Record<string, readonly string[]>> = {
  first: [],
  left: ["first"],
  middle: ["first"],
  right: ["first"],
  last: ["left", "middle", "right"],
};

const SIZE = Object.keys(AFTER).length;

interface Member {
  readonly n: number;
  readonly part: string;
}

/** How many jobs lead to this one, along all ways, with itself: what it must return. */
export function waysTo(part: string): number {
  return (AFTER[part] ?? []).reduce((sum, on) => sum + waysTo(on), 1);
}

export class FlowsCheck {
  readonly violations: Violation[] = [];
  readonly #members = new Map<string, Member>();
  readonly #ids = new Map<string, string>();
  readonly #done = new Set<string>();

  constructor({ rows }: Pick<History, "rows">) {
    for (const { id, task, payload } of rows.jobs) {
      if (task !== "flow") continue;
      const { n, part } = JSON.parse(payload) as Member;
      this.#members.set(id, { n, part });
      this.#ids.set(`${n} ${part}`, id);
    }
  }

  /** How many flows there are. */
  get flows(): number {
    return this.#sizes.size;
  }

  see({ table, before, after }: Witnessed): void {
    const id = String(after?.["id"]);
    if (table === "finished" && after?.["status"] === "done") this.#done.add(id);
    const member = this.#members.get(id);
    if (member === undefined || table !== "lease" || before !== null) return;
    for (const on of AFTER[member.part] ?? []) {
      if (this.#done.has(this.#ids.get(`${member.n} ${on}`) ?? "")) continue;
      this.#violate(`started as '${member.part}' before '${on}' was done`, id);
    }
  }

  /** Called after the last change. */
  end(): void {
    for (const [n, size] of this.#sizes)
      if (size !== SIZE) this.#violate(`flow ${n} has ${size} of its ${SIZE} jobs`);
  }

  get #sizes(): Map<number, number> {
    const flows = Map.groupBy(this.#members.values(), ({ n }) => n);
    return new Map([...flows].map(([n, members]) => [n, members.length]));
  }

  #violate(sentence: string, job?: string): void {
    this.violations.push({ invariant: "I11", sentence, ...(job === undefined ? {} : { job }) });
  }
}
