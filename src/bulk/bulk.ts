/** Bulk actions: retry, cancel, delete, move or reprioritise all jobs that match a filter, as an object with progress. */
import { anyOperator, type OperatorOptions, operatorOptions } from "../audit/entry.ts";
import type { Logger } from "../core/log.ts";
import { by, checkFunction, checkText, choice, optionsOf, passed, whole } from "../core/options.ts";
import type { Runtime } from "../core/runtime.ts";
import { BulkCarrier, type CarrierParts } from "./carrier.ts";
import { type BulkRequest, checkRequest } from "./request.ts";
import { type BulkRecord, type BulkRow, type BulkStatus, bulkStatuses } from "./store.ts";

/** Which bulk actions to list, and how many. */
export interface BulkListFilter {
  /** Actions with this status. */
  readonly status?: BulkStatus;
  /** The last id of the previous page. */
  readonly before?: string;
  /** The most actions of the page. Default 50, at most 1,000. */
  readonly limit?: number;
}

/** What follows a bulk action while it runs, and what ends it. */
export interface BulkRunOptions {
  /** Stops carrying it out here, after the current page of jobs. The action stays as it is, and other processes carry it on. */
  readonly signal?: AbortSignal;
  /** Called when some jobs were changed. */
  readonly onProgress?: (action: BulkRecord) => void;
}

interface BulkParts {
  readonly store: CarrierParts["store"];
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly newId: () => string;
}

const listOptions = optionsOf<BulkListFilter>()({
  status: choice(bulkStatuses),
  before: by(checkText),
  limit: whole(1, 1_000, 50),
});

const runOptions = optionsOf<BulkRunOptions>()({ signal: passed(), onProgress: by(checkFunction) });

/** No database has this many jobs: beyond it, the loop must be a bug. */
const PAGES_MAX = 10_000_000;

/** Changes all jobs that match a filter: `holdfast.bulk`. */
export class BulkActions {
  readonly #parts: BulkParts;
  /** @internal */
  readonly carrier: BulkCarrier;

  /** @internal Applications get it from a Holdfast. */
  constructor(parts: BulkParts) {
    this.#parts = parts;
    this.carrier = new BulkCarrier({ ...parts, name: `client ${parts.newId()}` });
  }

  /**
   * Stores an action and returns it at once. Workers and servers carry it out in the background, or call `run`. With
   * `dryRun` it only counts. The action, and every job that it changes, is audited.
   */
  async start(
    request: BulkRequest,
    options: OperatorOptions = {},
    /** The id of the action: a second call with the same id changes nothing. Default: a new id. */
    once?: string,
  ): Promise<BulkRecord> {
    const checked = checkRequest(request);
    const operator = anyOperator(
      operatorOptions.read(options),
      once === undefined ? this.#parts.newId : () => once,
    );
    return record(await this.#parts.store.bulk.create(checked, operator));
  }

  /** Carries out an action here until it has ended. Other processes may do so at the same time. */
  async run(
    action: string | Pick<BulkRecord, "id">,
    options: BulkRunOptions = {},
  ): Promise<BulkRecord> {
    const { signal, onProgress } = runOptions.read(options);
    const id = checkText("id", typeof action === "string" ? action : action?.id);
    let row = await this.#parts.store.bulk.get(id);
    for (let pages = 0; pages < PAGES_MAX; pages += 1) {
      if (row.status !== "running") break;
      row = await this.carrier.page(id);
      onProgress?.(record(row));
      // SQLite never yields to the event loop: without a pause, no signal would be received.
      await new Promise<void>((resolve) => this.#parts.runtime.afterIo(resolve));
      if (signal?.aborted === true) break;
    }
    return record(row);
  }

  /** One action with its progress; null: there is none. */
  async get(id: string): Promise<BulkRecord> {
    return record(await this.#parts.store.bulk.get(checkText("id", id)));
  }

  /** A page of actions, newest first. */
  async list(filter: BulkListFilter = {}): Promise<BulkRecord[]> {
    return (await this.#parts.store.bulk.list(listOptions.read(filter))).map(record);
  }

  /** Stops an action between two chunks. What it has changed stays changed. */
  async stop(id: string, options: OperatorOptions = {}, once?: string): Promise<BulkRecord> {
    return record(await this.#parts.store.bulk.stop(...this.#turn(id, options, once)));
  }

  /** Continues an action that was stopped or failed. */
  async resume(id: string, options: OperatorOptions = {}, once?: string): Promise<BulkRecord> {
    return record(await this.#parts.store.bulk.resume(...this.#turn(id, options, once)));
  }

  #turn(id: string, options: OperatorOptions, once: string | undefined) {
    const newId = once === undefined ? this.#parts.newId : () => once;
    return [checkText("id", id), anyOperator(operatorOptions.read(options), newId)] as const;
  }
}

function record({ position: _position, traceId: _traceId, ...row }: BulkRow): BulkRecord {
  return row;
}
