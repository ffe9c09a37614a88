/** When a schedule runs: published vectors, the calendar, changes of the clock, a second library, and hostile text. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { CronExpressionParser } from "cron-parser";
import * as fc from "fast-check";
import { InvalidArgumentError } from "../../src/core/errors.ts";
import { CRON_LENGTH_MAX, parseCron } from "../../src/schedules/cron.ts";
import { checkTiming, nextTicks, type Timing, timingOf } from "../../src/schedules/timing.ts";
import { inWords } from "../../src/schedules/words.ts";
import { runSeed, sized } from "../support/scale.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

function timing(cron: string, timeZone = "UTC"): Timing {
  return timingOf({ cron, timeZone, everyMs: null, offsetMs: null });
}

function at(text: string): number {
  return Date.parse(`${text.replace(" ", "T")}Z`);
}

function isTick(cron: string, instant: number): boolean {
  return timing(cron).next(instant - 1) === instant;
}

/** As an ISO text without the parts that are always the same. */
function shown(ticks: readonly number[]): string[] {
  return ticks.map((tick) =>
    new Date(tick).toISOString().replace(":00.000Z", "").replace("T", " "),
  );
}

/** What the Open Cron Pattern Specification 1.0 to 1.4 lists: expression, times that match, times that do not. */
const VECTORS: readonly [cron: string, matches: readonly string[], others: readonly string[]][] = [
  ["15 10 * * *", ["2025-03-10 10:15:00"], ["2025-03-10 10:14", "2025-03-10 10:15:30"]],
  ["30 8 * jan Mon", ["2025-01-06 08:30"], ["2025-02-03 08:30"]],
  [
    "5-59/15 9 * * *",
    ["2025-03-10 09:05", "2025-03-10 09:20", "2025-03-10 09:50"],
    ["2025-03-10 09:15"],
  ],
  [
    "0 12 1 * MON",
    ["2025-09-01 12:00", "2025-09-08 12:00", "2025-10-01 12:00", "2025-10-06 12:00"],
    ["2025-10-07 12:00"],
  ],
  ["0 12 * * MON", ["2025-10-06 12:00"], ["2025-10-07 12:00"]],
  ["0 12 1-31 * MON", ["2025-10-06 12:00", "2025-10-07 12:00"], ["2025-10-08 11:00"]],
  ["0 12 1 * +MON", ["2025-09-01 12:00"], ["2025-09-08 12:00", "2025-10-01 12:00"]],
  ["@yearly", ["2026-01-01 00:00"], ["2026-01-02 00:00"]],
  ["@monthly", ["2026-02-01 00:00"], ["2026-02-02 00:00"]],
  ["@weekly", ["2025-10-05 00:00"], ["2025-10-06 00:00"]],
  ["@daily", ["2025-10-07 00:00"], ["2025-10-07 00:01"]],
  ["@hourly", ["2025-10-07 10:00"], ["2025-10-07 10:01"]],
  ["30 15 10 * * *", ["2025-03-10 10:15:30"], ["2025-03-10 10:15:29"]],
  ["0 0 L * *", ["2025-02-28 00:00"], ["2025-02-27 00:00"]],
  ["0 0 * * FRI#L", ["2025-02-28 00:00"], ["2025-02-21 00:00"]],
  ["0 0 * * 5L", ["2025-02-28 00:00"], ["2025-02-21 00:00"]],
  ["0 0 * * TUE#3", ["2025-06-17 00:00"], ["2025-06-10 00:00"]],
  ["0 12 15W * *", ["2025-06-16 12:00"], ["2025-06-15 12:00"]],
  ["0 12 1W * *", ["2025-02-03 12:00"], ["2025-02-01 12:00"]],
];

/** It lists these as errors, too; fields for years and @reboot are ours. */
const REFUSED = [
  "60 0 * * *",
  "0 0 10-5 * *",
  "0 0 /30 * *",
  "@Daily",
  "@daily 0 0 * * *",
  "0 12 1-15W * *",
  "0 12 +1 * MON",
  "? 12 * * *",
  "0 15 10 * * * 2025",
  "@reboot",
];

suite("cron expressions", () => {
  for (const [cron, matches, others] of VECTORS) {
    test(`${cron} matches as published`, () => {
      for (const one of matches) assert.ok(isTick(cron, at(one)), `${one} does not match`);
      for (const one of others) assert.ok(!isTick(cron, at(one)), `${one} matches`);
    });
  }

  test("expressions that the specification refuses are refused, with a remedy", () => {
    for (const cron of REFUSED) {
      assert.throws(() => parseCron("cron", cron), InvalidArgumentError, cron);
    }
  });

  test("leap days", () => {
    const leap = nextTicks(timing("0 0 29 2 *"), at("2027-01-01"), 3);
    assert.deepEqual(shown(leap), ["2028-02-29 00:00", "2032-02-29 00:00", "2036-02-29 00:00"]);
    const century = nextTicks(timing("0 0 29 2 *"), at("2096-03-01"), 1);
    assert.deepEqual(shown(century), ["2104-02-29 00:00"]);
    const last = nextTicks(timing("30 23 L 2 *"), at("2027-01-01"), 2);
    assert.deepEqual(shown(last), ["2027-02-28 23:30", "2028-02-29 23:30"]);
  });

  test("a day that February does not have hides no day of March", () => {
    const days = (cron: string, from: string): string[] =>
      shown(nextTicks(timing(cron), at(from), 2)).map((text) => text.slice(0, 10));
    assert.deepEqual(days("0 0 1,31 * *", "2027-02-02"), ["2027-03-01", "2027-03-31"]);
    assert.deepEqual(days("0 0 */15 * *", "2027-02-16"), ["2027-03-01", "2027-03-16"]);
    assert.deepEqual(days("0 0 1,30 * *", "2028-02-02"), ["2028-03-01", "2028-03-30"]);
    // The first of March is a Monday, or it is the first Monday and one of the days.
    assert.deepEqual(days("0 0 31 * MON", "2027-02-23"), ["2027-03-01", "2027-03-08"]);
    assert.deepEqual(days("0 0 1,31 * +MON", "2027-02-02"), ["2027-03-01", "2027-05-31"]);
  });

  test("LW in a list is refused with a remedy", () => {
    for (const day of ["1,LW", "LW,L"])
      assert.throws(() => timing(`0 0 ${day} * *`), /the day field has LW in a list\. Write/);
  });

  test("an expression that never matches has no tick", () => {
    for (const cron of ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *"]) {
      assert.equal(timing(cron).next(at("2027-01-01")), null);
    }
  });

  test("sundays, names, lists and steps", () => {
    const days = (cron: string): string[] =>
      nextTicks(timing(cron), at("2027-01-01"), 4).map((tick) =>
        new Date(tick).toUTCString().slice(0, 7),
      );
    assert.deepEqual(days("0 0 * * 7"), ["Sun, 03", "Sun, 10", "Sun, 17", "Sun, 24"]);
    assert.deepEqual(days("0 0 * * FRI-7"), ["Sat, 02", "Sun, 03", "Fri, 08", "Sat, 09"]);
    assert.deepEqual(days("0 0 * * 1-7/3"), ["Sun, 03", "Mon, 04", "Thu, 07", "Sun, 10"]);
    assert.deepEqual(days("0 0 ? * sat"), ["Sat, 02", "Sat, 09", "Sat, 16", "Sat, 23"]);
    const quarters = nextTicks(timing("5/15 0 1 1 *"), at("2026-12-31"), 4);
    assert.deepEqual(
      shown(quarters).map((text) => text.slice(11)),
      ["00:05", "00:20", "00:35", "00:50"],
    );
  });
});

/** Around a change of the clock: expression, zone, from when, and what follows in UTC. */
const CHANGES: readonly [
  what: string,
  cron: string,
  zone: string,
  from: string,
  ticks: readonly string[],
][] = [
  [
    "a skipped time of day runs when the clock jumps",
    "30 2 * * *",
    "America/New_York",
    "2027-03-13 12:00",
    ["2027-03-14 07:00", "2027-03-15 06:30"],
  ],
  [
    "several skipped times run once",
    "0,30 2 * * *",
    "America/New_York",
    "2027-03-13 12:00",
    ["2027-03-14 07:00", "2027-03-15 06:00"],
  ],
  [
    "a skipped time and the one it runs at are one tick",
    "0 2,3 * * *",
    "America/New_York",
    "2027-03-13 12:00",
    ["2027-03-14 07:00", "2027-03-15 06:00"],
  ],
  [
    "a repeated time of day runs once",
    "30 1 * * *",
    "America/New_York",
    "2027-11-06 12:00",
    ["2027-11-07 05:30", "2027-11-08 06:30"],
  ],
  [
    "repeated times in a list run once each",
    "0,30 1 * * *",
    "America/New_York",
    "2027-11-06 12:00",
    ["2027-11-07 05:00", "2027-11-07 05:30", "2027-11-08 06:00"],
  ],
  [
    "a repeated time is not due in the second hour",
    "30 1 * * *",
    "America/New_York",
    "2027-11-07 06:10",
    ["2027-11-08 06:30"],
  ],
  [
    "every half hour has no gap when the clock jumps",
    "*/30 * * * *",
    "America/New_York",
    "2027-03-14 06:10",
    ["2027-03-14 06:30", "2027-03-14 07:00", "2027-03-14 07:30"],
  ],
  [
    "every half hour has no gap when the clock is set back",
    "*/30 * * * *",
    "America/New_York",
    "2027-11-07 05:10",
    ["2027-11-07 05:30", "2027-11-07 06:00", "2027-11-07 06:30", "2027-11-07 07:00"],
  ],
  [
    "once an hour stays an hour apart",
    "15 * * * *",
    "Europe/Berlin",
    "2027-10-30 23:20",
    ["2027-10-31 00:15", "2027-10-31 01:15", "2027-10-31 02:15"],
  ],
  [
    "every 20 minutes of a skipped hour is left out",
    "*/20 2 * * *",
    "Europe/Berlin",
    "2027-03-27 03:00",
    ["2027-03-29 00:00", "2027-03-29 00:20"],
  ],
  [
    "half an hour is enough of a change",
    "45 1 * * *",
    "Australia/Lord_Howe",
    "2027-04-03 12:00",
    ["2027-04-03 14:45", "2027-04-04 15:15"],
  ],
  [
    "a clock that jumps at midnight",
    "0 0 * * *",
    "America/Santiago",
    "2027-09-04 12:00",
    ["2027-09-05 04:00", "2027-09-06 03:00"],
  ],
  [
    "a day that never was",
    "0 12 * * *",
    "Pacific/Apia",
    "2011-12-29 04:00",
    ["2011-12-29 22:00", "2011-12-30 10:00", "2011-12-30 22:00"],
  ],
  [
    "an offset without changes",
    "0 9 * * *",
    "Asia/Kolkata",
    "2027-01-01 00:00",
    ["2027-01-01 03:30", "2027-01-02 03:30"],
  ],
];

suite("changes of the clock", () => {
  for (const [what, cron, zone, from, ticks] of CHANGES) {
    test(`${what}: ${cron} in ${zone}`, () => {
      assert.deepEqual(shown(nextTicks(timing(cron, zone), at(from), ticks.length)), ticks);
    });
  }

  const zones = [
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Cairo",
    "Asia/Tehran",
  ];
  const spots = fc.record({
    zone: fc.constantFrom(...zones),
    hours: fc.integer({ min: 0, max: 3 * 365 * 24 }),
    minute: fc.constantFrom("*", "*/15", "0", "30", "10,40", "0-30/10"),
    hour: fc.constantFrom("*", "*/2", "0", "1", "2", "3", "1,2", "0-3", "23"),
  });

  test("every tick of three days is as the rule says, looked up minute by minute", () => {
    const property = fc.property(spots, ({ zone, hours, minute, hour }) => {
      // Half of them begin close to a change of the clock.
      const from = near(zone, Date.UTC(2025, 0, 1) + hours * HOUR);
      const cron = `${minute} ${hour} * * *`;
      const expected = byTheMinute({ minute, hour }, zone, from);
      const ticks = nextTicks(timing(cron, zone), from, expected.length);
      assert.deepEqual(
        shown(ticks),
        shown(expected),
        `${cron} in ${zone} from ${shown([from])[0]}`,
      );
    });
    fc.assert(property, { numRuns: sized(20, 500), seed: runSeed });
  });
});

const walls = new Map<string, Intl.DateTimeFormat>();

/** Hour and minute of the clock, and the number of the day, without any of the code under test. */
function wallOf(zone: string, instant: number): { minutes: number; hour: number; minute: number } {
  const known =
    walls.get(zone) ??
    new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "short" });
  walls.set(zone, known);
  const wall = Date.parse(`${known.format(instant).replace(" ", "T")}:00Z`) / MINUTE;
  return { minutes: wall, hour: Math.floor(wall / 60) % 24, minute: wall % 60 };
}

/** A day before the next change of the clock within 90 days; where there is none, the instant itself. */
function near(zone: string, instant: number): number {
  const offset = (when: number): number => wallOf(zone, when).minutes - when / MINUTE;
  for (let days = 0; days < 90; days += 1) {
    const when = instant + days * DAY;
    if (offset(when) !== offset(when + DAY)) return when - 12 * HOUR;
  }
  return instant;
}

function isIn(field: string, value: number, most: number): boolean {
  return field.split(",").some((entry) => {
    const [range = "", step = "1"] = entry.split("/");
    const [from = "0", to = from] = range === "*" ? ["0", String(most)] : range.split("-");
    return (
      value >= Number(from) && value <= Number(to) && (value - Number(from)) % Number(step) === 0
    );
  });
}

/** The ticks of three days, by the rule in words: real time for a star, otherwise times of day. */
function byTheMinute(
  fields: { minute: string; hour: string },
  zone: string,
  from: number,
): number[] {
  const recurs = fields.minute.startsWith("*") || fields.hour.startsWith("*");
  const isMatch = (wall: number): boolean =>
    isIn(fields.minute, wall % 60, 59) && isIn(fields.hour, Math.floor(wall / 60) % 24, 23);
  const ticks: number[] = [];
  // Far enough back that the highest time the clock has shown is known.
  let highest = wallOf(zone, from - DAY).minutes;
  for (let instant = from - DAY + MINUTE; instant <= from + 3 * DAY; instant += MINUTE) {
    const { minutes } = wallOf(zone, instant);
    let isDue = isMatch(minutes) && (recurs || minutes > highest);
    const jump = recurs ? 0 : Math.max(0, minutes - highest - 1);
    const skipped = Array.from({ length: jump }, (_, index) => highest + 1 + index);
    isDue ||= skipped.some(isMatch);
    highest = Math.max(highest, minutes);
    if (isDue && instant > from) ticks.push(instant);
  }
  return ticks;
}

suite("a second library", () => {
  const numbers = (min: number, max: number) => {
    const value = fc.integer({ min, max });
    const range = fc.tuple(value, value).map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`);
    const step = fc.integer({ min: 1, max: max - min });
    const entry = fc.oneof(
      value.map(String),
      range,
      fc.tuple(range, step).map(([some, by]) => `${some}/${by}`),
    );
    const list = fc
      .array(entry, { minLength: 1, maxLength: 3 })
      .map((entries) => entries.join(","));
    return fc.oneof(
      fc.constant("*"),
      step.map((by) => `*/${by}`),
      list,
    );
  };
  const day = fc.oneof(numbers(1, 31), fc.constant("L"), fc.constant("*"));
  const weekday = fc.oneof(
    numbers(0, 6),
    fc.constant("*"),
    fc
      .tuple(fc.integer({ min: 0, max: 6 }), fc.integer({ min: 1, max: 4 }))
      .map(([one, nth]) => `${one}#${nth}`),
    fc.integer({ min: 0, max: 6 }).map((one) => `${one}L`),
  );
  const expressions = fc.record({
    time: fc.tuple(fc.constantFrom("0", "*/10", "15,45"), numbers(0, 59), numbers(0, 23)),
    // With both, libraries differ about a star with a step.
    days: fc.oneof(fc.tuple(day, fc.constant("*")), fc.tuple(fc.constant("*"), weekday)),
    month: numbers(1, 12),
    zone: fc.constantFrom(
      "UTC",
      "Asia/Kolkata",
      "America/New_York",
      "Europe/Berlin",
      "Australia/Lord_Howe",
    ),
    from: fc.integer({ min: at("2024-01-01") / 1_000, max: at("2040-01-01") / 1_000 }),
  });

  test("has the same ticks, away from changes of the clock", () => {
    let compared = 0;
    const property = fc.property(expressions, ({ time, days, month, zone, from }) => {
      const cron = [...time, days[0], month, days[1]].join(" ");
      const start = from * 1_000;
      const theirs = parsedByTheirs(cron, { tz: zone, currentDate: new Date(start) });
      if (theirs === null) return;
      const ours = nextTicks(timing(cron, zone), start, 3);
      for (const tick of ours) {
        const expected = nextOfTheirs(theirs);
        if (expected === null) return;
        // Where the clock changes, the libraries have other rules; after that, their rows are no longer in step.
        if (nearChange(zone, start, tick) || nearChange(zone, start, expected)) return;
        compared += 1;
        assert.equal(tick, expected, `${cron} in ${zone} from ${new Date(start).toISOString()}`);
      }
    });
    fc.assert(property, { numRuns: sized(200, 4_000), seed: runSeed });
    assert.ok(compared > sized(200, 4_000) / 2, `only ${compared} ticks were compared`);
  });
});

/** Null: it refuses a value that is named twice, which is allowed here. */
function parsedByTheirs(
  cron: string,
  options: { tz: string; currentDate: Date },
): ReturnType<typeof CronExpressionParser.parse> | null {
  try {
    return CronExpressionParser.parse(cron, options);
  } catch (error) {
    assert.match(String(error), /duplicate values/);
    return null;
  }
}

/** Null: it gives up, as it does at some changes of the clock. */
function nextOfTheirs(theirs: NonNullable<ReturnType<typeof parsedByTheirs>>): number | null {
  try {
    return theirs.next().getTime();
  } catch (error) {
    assert.match(String(error), /loop limit exceeded/);
    return null;
  }
}

function nearChange(zone: string, ...instants: readonly number[]): boolean {
  return instants.some((instant) => {
    const offset = (when: number): number => wallOf(zone, when).minutes - Math.floor(when / MINUTE);
    return offset(instant - 2 * DAY) !== offset(instant + 2 * DAY);
  });
}

suite("hostile text", () => {
  const HOSTILE = [
    "1--100000000 * * * *",
    "1-100000000 * * * *",
    "*/0 * * * *",
    "*/99999999999 * * * *",
    "0/0 * * * *",
    "-1 * * * *",
    "1e9 * * * *",
    "0x10 * * * *",
    `${"1,".repeat(100)}1 * * * *`,
    "* * * * *\u0000",
    "* * * * \u00A0*",
    "＊ * * * *",
    "* * * * * * * *",
    "",
    " ",
    "@",
    "@toString",
    "__proto__",
    "a".repeat(1_000_000),
    "* ".repeat(500_000),
    "1-".repeat(120),
    "*/1/1/1 * * * *",
    "1-2-3 * * * *",
    "* * * FOO *",
    "* * * * MONDAY",
    "* * 32 * *",
    "* * 0 * *",
    "* * * * 8",
    "* * * * 1#6",
  ];

  test("is refused at once, and the message is short", () => {
    const begun = performance.now();
    for (const cron of HOSTILE) {
      assert.throws(
        () => checkTiming({ cron }),
        (error) =>
          error instanceof InvalidArgumentError &&
          error.field === "cron" &&
          error.message.length < 300,
        cron.slice(0, 50),
      );
    }
    assert.ok(performance.now() - begun < 500);
  });

  test("any text is an expression or an error of ours, and is answered soon", () => {
    const part = fc.constantFrom(..."0123456789*/-,#LW?+ @".split(""), "MON", "JAN");
    const text = fc.array(part, { maxLength: CRON_LENGTH_MAX }).map((parts) => parts.join(""));
    const property = fc.property(fc.oneof(text, fc.string()), (cron) => {
      let fields;
      try {
        fields = parseCron("cron", cron);
      } catch (error) {
        assert.ok(error instanceof InvalidArgumentError, String(error));
        return;
      }
      timing(cron).next(at("2027-01-01"));
      assert.ok(fields.text.length < 2_000);
      inWords({ cron, timeZone: "UTC", everyMs: null, offsetMs: null });
    });
    fc.assert(property, { numRuns: sized(300, 20_000), seed: runSeed });
  });

  test("a wrong time zone is refused, with a suggestion", () => {
    assert.throws(
      () => checkTiming({ cron: "* * * * *", timeZone: "Europe/Berln" }),
      /Did you mean Europe\/Berlin\?/,
    );
    for (const timeZone of ["", "Mars", "x".repeat(10_000), "UTC\u0000"]) {
      assert.throws(
        () => checkTiming({ cron: "* * * * *", timeZone }),
        /timeZone: .* is not a time zone/,
      );
    }
  });

  test("an interval has limits, and belongs to no time zone", () => {
    for (const [options, problem] of [
      [{ every: "999ms" }, /every/],
      [{ every: "1500ms" }, /whole seconds/],
      [{ every: "400d" }, /every/],
      [{ every: "1m", offset: "60s" }, /offset/],
      [{ every: "1m", timeZone: "UTC" }, /timeZone: requires cron/],
      [{ cron: "* * * * *", offset: "1s" }, /offset: requires every/],
      [{ cron: "* * * * *", every: "1m" }, /not both/],
      [{}, /pass either cron/],
    ] as const) {
      assert.throws(() => checkTiming(options), problem);
    }
  });
});

suite("a schedule in words", () => {
  for (const [cron, words] of [
    ["30 2 * * *", "At 02:30 every day"],
    ["0 9 * * MON-FRI", "At 09:00 on Monday to Friday"],
    ["0 9,12,17 * * 1,3", "At 09:00, 12:00 and 17:00 on Monday and Wednesday"],
    ["15 30 2 * * *", "At 02:30:15 every day"],
    ["* * * * *", "Every minute"],
    ["*/5 * * * *", "Every 5 minutes"],
    ["*/5 9-17 * * MON-FRI", "Every 5 minutes from 09:00 to 17:59 on Monday to Friday"],
    ["* * * * * *", "Every second"],
    ["*/10 * * * * *", "Every 10 seconds"],
    ["0 * * * *", "Every hour"],
    ["15 * * * *", "Every hour at minute 15"],
    ["0 */6 * * *", "At 00:00, 06:00, 12:00 and 18:00 every day"],
    ["0 */2 * * *", "Every 2 hours"],
    ["0 0 1 * *", "At 00:00 on day 1 of the month"],
    ["0 0 1,15 * *", "At 00:00 on days 1 and 15 of the month"],
    ["0 0 L * *", "At 00:00 on the last day of the month"],
    ["0 0 15W * *", "At 00:00 on the weekday nearest to day 15 of the month"],
    ["0 0 * * FRI#2", "At 00:00 on the second Friday of the month"],
    ["0 0 * * 5L", "At 00:00 on the last Friday of the month"],
    ["0 0 1 * MON", "At 00:00 on day 1 of the month or on Monday"],
    ["0 0 13 * +FRI", "At 00:00 on day 13 of the month if it is also Friday"],
    ["0 0 1 1,7 *", "At 00:00 on day 1 of the month in January and July"],
    ["@yearly", "At 00:00 on day 1 of the month in January"],
  ] as const) {
    test(cron, () => {
      const row = checkTiming({ cron, timeZone: "Europe/Berlin" });
      assert.equal(inWords(row), `${words} (Europe/Berlin)`);
    });
  }

  for (const [every, offset, words] of [
    ["1m", 0, "Every minute"],
    ["90s", 0, "Every 1 minute and 30 seconds"],
    ["1d", "2h", "Every day, shifted by 2 hours"],
  ] as const) {
    test(`every ${every}`, () => {
      assert.equal(inWords(checkTiming({ every, offset })), words);
    });
  }
});

test("a change of the clock is told in a sentence, if it moves a run", () => {
  const from = Date.parse("2027-01-01T00:00Z");
  const told = (cron: string, timeZone = "Europe/Berlin"): string | null =>
    timingOf({ cron, timeZone, everyMs: null, offsetMs: null }).clock(from);
  assert.equal(
    told("30 2 * * *"),
    "On 2027-03-28 the clock goes forward from 02:00 to 03:00: a run in between is at 03:00.",
  );
  assert.equal(
    told("30 2 * 10 *"),
    "On 2027-10-31 the clock goes back from 03:00 to 02:00: a run in between is the first time only.",
  );
  assert.match(told("*/10 2 * * *") ?? "", /nothing runs in between\.$/);
  for (const calm of ["30 4 * * *", "*/5 * * * *"]) assert.equal(told(calm), null, calm);
  assert.equal(told("30 2 * * *", "UTC"), null);
});
