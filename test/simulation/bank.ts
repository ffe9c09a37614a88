/** A service outside the database that charges cards. It knows idempotency keys, and can be asked what it did for one. */
import { NotDoneError } from "../../src/index.ts";
import type { Chance } from "./chance.ts";
import type { Coverage } from "./coverage.ts";
import type { Charge } from "./history.ts";
import type { Machine } from "./machine.ts";

const TRAVEL_MS = 60;

export class Bank {
  readonly charges = new Map<string, Charge>();
  readonly #chance: Chance;
  readonly #coverage: Coverage;
  /** How likely it is that a request is refused, or its answer lost. */
  readonly #faults: number;

  constructor(parts: { chance: Chance; coverage: Coverage; faults: number }) {
    this.#chance = parts.chance;
    this.#coverage = parts.coverage;
    this.#faults = parts.faults;
  }

  async charge(machine: Machine, key: string, cents: number): Promise<string> {
    await machine.work(this.#chance.between(0, TRAVEL_MS), "a charge travels");
    if (this.#chance.isHit(this.#faults)) {
      this.#coverage.hit("bank: declined");
      throw new NotDoneError("the bank declined");
    }
    const charge = this.charges.get(key) ?? this.#charge(key, cents);
    charge.requests += 1;
    await machine.work(this.#chance.between(0, TRAVEL_MS), "a receipt travels");
    if (this.#chance.isHit(this.#faults)) {
      this.#coverage.hit("bank: answer lost");
      throw new Error("the bank did not answer");
    }
    return charge.receipt;
  }

  async find(machine: Machine, key: string): Promise<string | null> {
    await machine.work(this.#chance.between(0, TRAVEL_MS), "the bank is asked");
    if (this.#chance.isHit(this.#faults)) throw new Error("the bank can not be asked");
    const found = this.charges.get(key)?.receipt ?? null;
    this.#coverage.hit(found === null ? "bank: asked, not charged" : "bank: asked, charged");
    return found;
  }

  #charge(key: string, cents: number): Charge {
    const charge = { receipt: `receipt-${this.charges.size + 1}`, cents, requests: 0 };
    this.charges.set(key, charge);
    return charge;
  }
}
