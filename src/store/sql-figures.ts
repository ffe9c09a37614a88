/** The verbs about figures. */
import { lastCensus, takeCensus } from "./census.ts";
import type { AgedCensus, Census, Figures, MinuteFigures, MinuteFilter } from "./figures.ts";
import { foldMinutes, minutes, pruneMinutes } from "./rollups.ts";
import { SqlLocks } from "./sql-locks.ts";

export class SqlFigures extends SqlLocks implements Figures {
  takeCensus(chore: { everyMs: number }): Promise<Census | null> {
    return takeCensus(this.engine, chore);
  }

  census(): Promise<AgedCensus | null> {
    return lastCensus(this.engine);
  }

  foldMinutes(chore: { limit: number }): Promise<number> {
    return foldMinutes(this.engine, chore);
  }

  minutes(filter: MinuteFilter): Promise<MinuteFigures[]> {
    return minutes(this.engine, filter);
  }

  pruneMinutes(chore: { forMs: number; limit: number }): Promise<number> {
    return pruneMinutes(this.engine, chore);
  }
}
