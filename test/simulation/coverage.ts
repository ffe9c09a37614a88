/** How often each thing was met, over all seeds of a run. */

export class Coverage {
  readonly #times = new Map<string, number>();

  hit(what: string, times = 1): void {
    this.#times.set(what, (this.#times.get(what) ?? 0) + times);
  }

  times(what: string): number {
    return this.#times.get(what) ?? 0;
  }

  add(entries: Iterable<readonly [string, number]>): void {
    for (const [what, times] of entries) this.hit(what, times);
  }

  entries(): [string, number][] {
    return [...this.#times].toSorted(([a], [b]) => (a < b ? -1 : 1));
  }

  /** As a table of Markdown. */
  table(): string {
    const rows = this.entries().map(
      ([what, times]) => `| ${what} | ${times.toLocaleString("en")} |`,
    );
    return ["| met | times |", "|---|---|", ...rows].join("\n");
  }
}
