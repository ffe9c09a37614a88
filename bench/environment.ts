/** What a bench is told by environment variables. */

/** A whole number above 0. */
export function numberFrom(name: string, otherwise: number): number {
  const text = process.env[name] ?? "";
  return text === "" ? otherwise : numberIn(name, text);
}

/** Several of them, separated by commas. */
export function numbersFrom(name: string, otherwise: readonly number[]): number[] {
  const words = wordsIn(process.env[name]);
  return words.length === 0 ? [...otherwise] : words.map((word) => numberIn(name, word));
}

/** Words out of those that are known, separated by commas; all of them unless told otherwise. */
export function wordsFrom<T extends string>(name: string, known: readonly T[]): T[] {
  const words = wordsIn(process.env[name]);
  return words.length === 0 ? [...known] : chosen(words, known);
}

export function chosen<T extends string>(words: readonly string[], known: readonly T[]): T[] {
  const unknown = words.find((word) => !known.includes(word as T));
  if (unknown === undefined) return words as T[];
  throw new Error(`'${unknown}' is not known here. Known: ${known.join(", ")}.`);
}

function wordsIn(text = ""): string[] {
  const words = text.split(",").map((word) => word.trim());
  return words.filter((word) => word !== "");
}

function numberIn(name: string, text: string): number {
  const number = Number(text.replaceAll("_", ""));
  if (Number.isInteger(number) && number > 0) return number;
  throw new Error(`${name} is '${text}', and should be a whole number above 0.`);
}
