/**
 * Which keeper a worker has: a thread where the store allows one, a loop on this thread otherwise.
 *
 * A worker at rest holds no lease and gives its signs of life from here: the thread costs a fifth of its memory. It is
 * started before the first job is, which may block this thread from then on.
 */
import { systemRuntime } from "../core/runtime.ts";
import type { WorkerVitals } from "../store/registry.ts";
import type { StoreAddress } from "../store/store.ts";
import { startLoop, startThread, type HostParts, type KeeperHost } from "./keeper-host.ts";
import type { LeaseList } from "./keeper.ts";

export function startKeeper(parts: HostParts): KeeperHost {
  const { store, runtime, logger } = parts;
  if (store.address !== null && runtime === systemRuntime) {
    return new LateThread(parts, store.address);
  }
  logger.info(
    { store: store.name },
    "leases are renewed on the main thread: a task that blocks the event loop for a lease will lose its job",
  );
  return startLoop(parts);
}

/** Until the thread is ready, both of them keep: to renew a lease twice is to renew it. */
class LateThread implements KeeperHost {
  readonly #parts: HostParts;
  readonly #address: StoreAddress;
  #loop: KeeperHost | null;
  #thread: KeeperHost | null = null;
  #vitals: WorkerVitals | null = null;
  /** It was started once; one that died would most likely die again. */
  #isStarted = false;
  /** The thread is ready, and the loop was told to stop. */
  #isAlone = false;

  constructor(parts: HostParts, address: StoreAddress) {
    this.#parts = parts;
    this.#address = address;
    this.#loop = startLoop(parts, "keeper at rest");
  }

  hold(leases: LeaseList, sentAt: number): void {
    if (!this.#isStarted) this.#startThread();
    for (const keeper of this.#both()) keeper.hold(leases, sentAt);
  }

  limit(id: string, stopAt: number): void {
    for (const keeper of this.#both()) keeper.limit(id, stopAt);
  }

  drop(leases: LeaseList): void {
    for (const keeper of this.#both()) keeper.drop(leases);
  }

  async rest(leases: LeaseList): Promise<void> {
    await Promise.all(this.#both().map((keeper) => keeper.rest(leases)));
  }

  progress(): void {
    this.#loop?.progress();
    this.#thread?.progress();
  }

  vitals(vitals: WorkerVitals): void {
    this.#vitals = vitals;
    for (const keeper of this.#both()) keeper.vitals(vitals);
  }

  beatNow(): void {
    (this.#loop ?? this.#thread)?.beatNow();
  }

  catchUp(): void {
    this.#thread?.catchUp();
  }

  /** While there are two, both renew: what one of them was not told, the other was not either. */
  unansweredSince(): number | null {
    const since = this.#both().map(
      (keeper) => keeper.unansweredSince() ?? Number.POSITIVE_INFINITY,
    );
    const first = Math.min(...since);
    return first === Number.POSITIVE_INFINITY ? null : first;
  }

  async stop(): Promise<void> {
    await Promise.all(this.#both().map((keeper) => keeper.stop()));
  }

  #both(): KeeperHost[] {
    return [this.#loop, this.#thread].filter((keeper) => keeper !== null);
  }

  #startThread(): void {
    this.#isStarted = true;
    const onReady = (): void => void this.#endLoop();
    const onEnd = (): void => this.#goOnWithout();
    this.#thread = startThread(this.#parts, this.#address, { onReady, onEnd });
    if (this.#vitals !== null) this.#thread.vitals(this.#vitals);
  }

  /** Whoever is about to end a lease waits for what the loop has under way, so it is one of them until it has stopped. */
  async #endLoop(): Promise<void> {
    const loop = this.#loop;
    this.#isAlone = true;
    this.#parts.logger.debug({}, "the keeper's thread is ready");
    await loop?.stop();
    if (this.#loop === loop) this.#loop = null;
  }

  #goOnWithout(): void {
    const { logger, held } = this.#parts;
    logger.warn({}, "the keeper's thread ended; leases are renewed on the main thread from now on");
    this.#thread = null;
    if (!this.#isAlone) return; // the loop has them all
    this.#loop = startLoop(this.#parts);
    this.#loop.hold(held(), 0); // sent long ago: due at once
    if (this.#vitals !== null) this.#loop.vitals(this.#vitals);
  }
}
