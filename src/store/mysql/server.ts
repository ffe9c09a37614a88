/** Which server answers, and what differs between the two. */
import { StoreUnavailable } from "../../core/errors.ts";

export interface Flavour {
  readonly name: string;
  /** Compares texts as bytes, and a blank at the end counts. */
  readonly collation: string;
  readonly oldest: readonly [number, number, number];
}

const MARIADB: Flavour = { name: "MariaDB", collation: "utf8mb4_nopad_bin", oldest: [10, 11, 0] };
const MYSQL: Flavour = { name: "MySQL", collation: "utf8mb4_0900_bin", oldest: [8, 0, 17] };

export function flavourOf(version: string, store: string): Flavour {
  const flavour = /mariadb/i.test(version) ? MARIADB : MYSQL;
  const parts = version.split(/[.-]/, 3).map(Number);
  const first = flavour.oldest.findIndex((oldest, index) => parts[index] !== oldest);
  if (first === -1 || (parts[first] ?? 0) > (flavour.oldest[first] ?? 0)) return flavour;
  throw new StoreUnavailable({
    problem: `${store} runs ${flavour.name} ${version}.`,
    remedy: `Holdfast needs ${flavour.name} ${flavour.oldest.join(".")} or later.`,
  });
}
