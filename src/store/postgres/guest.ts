/** Statements in a transaction that belongs to the user. */
import { askOf } from "../guest.ts";
import { translate } from "./errors.ts";
import { types, type Send } from "./session.ts";

export function sendIn(tx: unknown, store: string): Send {
  const ask = askOf("postgres", tx, { types });
  return async ({ text, values = [] }) => {
    try {
      const { rows, count } = await ask(text, values);
      return { rows, rowCount: count };
    } catch (error) {
      throw translate(error, store);
    }
  };
}
