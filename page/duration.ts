/** Durations as people write and read them: "1 h 30 min". Nothing is rounded, so what is shown can be typed again. */

const UNITS = [
  ["d", 86_400_000, /^d(ays?)?$/],
  ["h", 3_600_000, /^h((ou)?rs?)?$/],
  ["min", 60_000, /^m(in(ute)?s?)?$/],
  ["s", 1_000, /^s(ec(ond)?s?)?$/],
  ["ms", 1, /^ms$/],
] as const;

/** "10 s", "1 h 30 min". */
export function durationText(ms: number): string {
  let left = ms;
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(left / size);
    if (count > 0) parts.push(`${count} ${unit}`);
    left -= count * size;
  }
  return parts.length === 0 ? "0 s" : parts.join(" ");
}

/** Of "10 s", "90 minutes", "1h30m" or "1.5 h"; null: it is none. */
export function durationOf(text: string): number | null {
  const parts = [
    ...text
      .trim()
      .toLowerCase()
      .matchAll(/(\d+(?:\.\d+)?)\s*([a-z]+)[\s,]*/g),
  ];
  const length = parts.reduce((sum, [part]) => sum + part.length, 0);
  if (parts.length === 0 || length !== text.trim().length) return null;
  let ms = 0;
  for (const [, count = "", unit = ""] of parts) {
    const known = UNITS.find(([, , words]) => words.test(unit));
    if (known === undefined) return null;
    ms += Number(count) * known[1];
  }
  return Math.round(ms);
}
