/** Every setting there is: what it is called in each source, what it may be, and what it is when nobody says. */
import { databaseSettings } from "./database-settings.ts";
import { monitoringSettings, processSettings, serverSettings } from "./service-settings.ts";
import type { Setting, Settled } from "./setting.ts";
import { workerSettings } from "./worker-settings.ts";

export const schema = {
  ...databaseSettings,
  ...workerSettings,
  ...serverSettings,
  ...monitoringSettings,
  ...processSettings,
};

export type Key = keyof typeof schema;
export const keys = Object.keys(schema) as Key[];

/** The value of every setting; null: it is not set and has no default. */
export type Settings = {
  readonly [Name in Key]: (typeof schema)[Name] extends Settled<infer Value>
    ? Value
    : (typeof schema)[Name] extends Setting<infer Value>
      ? Value | null
      : never;
};

/** For loops over all of them, where no single one's type matters. */
export function settingOf(key: Key): Setting<unknown> {
  return schema[key] as unknown as Setting<unknown>;
}
