/** The verbs about alerts. A change carries a name, by which it is found again when its answer was lost. */
import { isId } from "../core/id.ts";
import * as deliveries from "./alert-deliveries.ts";
import * as rows from "./alert-rows.ts";
import type {
  AlertFilter,
  AlertRecord,
  AlertRows,
  Cleared,
  Clearing,
  Delivery,
  DeliveryOutcome,
  Noted,
  OpenAlerts,
  Sighting,
  WantedDeliveries,
} from "./alerts.ts";
import { SqlFigures } from "./sql-figures.ts";
import { writeOrLookUp } from "./unknown.ts";

export class SqlAlerts extends SqlFigures implements AlertRows {
  noteAlert(sighting: Sighting): Promise<Noted> {
    return this.#twice(() => rows.noteAlert(this.engine, sighting));
  }

  clearAlert(clearing: Clearing): Promise<Cleared | null> {
    return this.#twice(() => rows.clearAlert(this.engine, clearing));
  }

  openAlerts(limit: number): Promise<OpenAlerts> {
    return rows.openAlerts(this.engine, limit);
  }

  async alerts(filter: AlertFilter): Promise<AlertRecord[]> {
    const { before } = filter;
    if (before !== undefined && !isId(before)) return [];
    return rows.listAlerts(this.engine, filter);
  }

  pruneAlerts(chore: { forMs: number; limit: number }): Promise<number> {
    return rows.pruneAlerts(this.engine, chore);
  }

  takeDeliveries(wanted: WantedDeliveries): Promise<Delivery[]> {
    return deliveries.takeDeliveries(this.engine, wanted);
  }

  settleDelivery(delivery: Delivery, outcome: DeliveryOutcome): Promise<void> {
    return this.#twice(() => deliveries.settleDelivery(this.engine, delivery, outcome));
  }

  #twice<T>(write: () => Promise<T>): Promise<T> {
    return writeOrLookUp(this.engine, write, write);
  }
}
