/** What the tests of workflows work with: one database for all tests of a file, and names that no other test uses. */
import { after, before, describe } from "node:test";
import { type Holdfast, openHoldfast } from "../../src/index.ts";
import { sampledEngines, type Place } from "../registry/places.ts";
import { keepLog, type KeptLog } from "../worker/observe.ts";

export interface Shop {
  readonly engine: string;
  readonly url: string;
  readonly holdfast: Holdfast;
  readonly log: KeptLog;
}

export const ada = { actor: "ada" };

let names = 0;

/** A name that no other test uses. */
export function named(what: string): string {
  names += 1;
  return `${what} ${names}`;
}

/** The same promises on every engine. */
export function onEveryEngine(title: string, promises: (shop: () => Shop) => void): void {
  for (const { name, skip, place: open } of sampledEngines) {
    describe(`${title} on ${name}`, { skip, timeout: 120_000 }, () => {
      let place: Place;
      let shop: Shop;
      before(async () => {
        place = await open();
        const log = keepLog();
        const holdfast = await openHoldfast(place.url, { version: "build-0", logger: log.logger });
        shop = { engine: name, url: place.url, holdfast, log };
      });
      after(async () => {
        await shop?.holdfast.close();
        await place?.[Symbol.asyncDispose]();
      });
      promises(() => shop);
    });
  }
}
