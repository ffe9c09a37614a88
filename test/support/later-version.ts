import type { Engine, Migration } from "../../src/database/engine.ts";

/** The same engine, as a later version of the library has it. */
export function withMigrations(engine: Engine, migrations: readonly Migration[]): Engine {
  return new Proxy(engine, {
    get(target, name) {
      if (name === "migrations") return migrations;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function" ? (member.bind(target) as unknown) : member;
    },
  });
}
