/** What the dashboard draws, before it is drawn: scales, lines, marks, columns of a graph, the time of a job. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as chart from "../../page/chart-math.ts";
import { durationOf, durationText } from "../../page/duration.ts";
import { layered } from "../../page/layers.ts";
import { BOX, boxAt, type Cell, type Point, routesOf, sizeOf } from "../../page/routes.ts";
import { lanesOf, timelineOf } from "../../page/pages/timeline.ts";

describe("charts", () => {
  test("a scale of counts has four round lines from zero, and no halves", () => {
    for (const [most, texts] of [
      [0, "0 1 2 3"],
      [7, "0 3 6 9"],
      [3_500, "0 1.2k 2.4k 3.6k"],
      [10_000_000, "0 4M 8M 12M"],
    ] as const) {
      const scale = chart.linear(most);
      assert.equal(scale.lines.map(({ text }) => text).join(" "), texts);
      assert.ok(scale.share(most) <= 1);
    }
  });

  test("a scale of latencies is logarithmic, from 1 ms, and goes as far as it must", () => {
    assert.equal(
      chart
        .logarithmic(400)
        .lines.map(({ text }) => text)
        .join(" "),
      "1 ms 10 100 1 s",
    );
    assert.equal(chart.logarithmic(90_000).lines.at(-1)?.text, "16 min");
    assert.equal(chart.logarithmic(400).share(0.2), 0);
  });

  test("what is missing is a gap in the line, not a zero", () => {
    const points = [0, 0.5, null, 1].map((share, at) => ({ x: at / 3, share }));
    assert.equal(chart.line(points, 100), "M0 100L200 50M600 0");
  });

  test("marks that would overlap are one, and a deploy does not hide a crash", () => {
    const mark = (at: number, kind: "deploy" | "crash", text: string) => ({
      at,
      kind,
      text,
      detail: null,
    });
    const marks = [mark(0, "deploy", "a"), mark(1, "crash", "crash"), mark(500, "deploy", "b")];
    const joined = chart.joined(marks, { from: 0, to: 1_000, px: 600 });
    assert.deepEqual(
      joined.map(({ kind, text }) => [kind, text]),
      [
        ["crash", "crash"],
        ["deploy", "b"],
      ],
    );
  });
});

describe("a graph in columns", () => {
  test("each node stands to the right of what leads to it, and a circle does not hang", () => {
    const edges = [
      ["a", "b"],
      ["b", "c"],
      ["a", "c"],
      ["c", "a"],
    ] as const;
    const placed = layered(["a", "b", "c"], (id) => id, edges.slice(0, 3));
    assert.deepEqual(
      placed.map(({ node, column }) => [node, column]),
      [
        ["a", 0],
        ["b", 1],
        ["c", 2],
      ],
    );
    assert.deepEqual(
      layered(["a", "b", "c"], (id) => id, edges),
      placed,
      "a circle is cut where it closes",
    );
  });
});

describe("the life of a job", () => {
  const attempt = (
    epoch: number,
    startedAt: number,
    endedAt: number | null,
    outcome: string,
  ): any => {
    return {
      epoch,
      attempt: epoch,
      worker: "w",
      outcome,
      startedAt,
      endedAt,
      traceId: "",
      error: null,
    };
  };
  const job: any = { enqueuedAt: 1_000, finishedAt: 700_000, status: "failed" };

  test("it is in order, fills the width, and folds a long wait", () => {
    const attempts = [attempt(1, 1_500, 2_000, "retry"), attempt(2, 602_000, 700_000, "failed")];
    const { stretches, share } = timelineOf(job, attempts, 800_000);
    assert.deepEqual(
      stretches.map(({ kind }) => kind),
      ["pending", "running", "retry", "running"],
    );
    assert.deepEqual(
      stretches.map(({ folded }) => folded),
      [false, false, true, false],
    );
    const shares = [1_000, 1_600, 2_000, 300_000, 602_000, 699_000].map(share);
    assert.deepEqual(
      shares,
      shares.toSorted((a, b) => a - b),
    );
    assert.ok(shares[0] === 0 && share(700_000) <= 1);
  });

  test("of a job with many attempts the newest are drawn, without what the others did", () => {
    const attempts = [attempt(7, 500_000, 510_000, "retry"), attempt(8, 520_000, 530_000, "retry")];
    const { stretches, from } = timelineOf(job, attempts, 800_000);
    assert.deepEqual([from, stretches[0]?.kind], [500_000, "running"]);
    const step = (name: string, begunAt: number): any => {
      return { name, begunAt, endedAt: begunAt + 1, epoch: 1, position: 1, kind: "step" };
    };
    const lanes = lanesOf(attempts, [step("old", 2_000), step("new", 500_500)], 800_000);
    assert.deepEqual(
      lanes.map(({ steps }) => steps.map(({ step: { name } }) => name)),
      [["new"], []],
    );
  });

  test("a step stands in the attempt in whose time it began", () => {
    const attempts = [attempt(1, 0, 10, "suspended"), attempt(2, 100, null, "running")];
    const step = (name: string, begunAt: number): any => ({
      name,
      begunAt,
      endedAt: null,
      epoch: 2,
      position: 0,
      kind: "step",
    });
    const lanes = lanesOf(attempts, [step("a", 5), step("b", 120)], 200);
    assert.deepEqual(
      lanes.map(({ steps }) => steps.map(({ step: { name } }) => name)),
      [["a"], ["b"]],
    );
  });

  test("the step that failed is drawn at the end of its attempt, as long as it took", () => {
    const failed = {
      epoch: 1,
      attempt: 1,
      worker: "w",
      outcome: "failed" as const,
      startedAt: 0,
      endedAt: 100,
      traceId: "",
      error: {
        name: "Error",
        message: "no answer",
        step: { name: "label", occurrence: 1, tookMs: 40 },
      },
    };
    const quote = {
      name: "quote",
      occurrence: 1,
      kind: "step",
      position: 1,
      status: "done",
      epoch: 1,
      begunAt: 10,
      endedAt: 50,
    } as const;
    // An effect that began has a row; it is drawn once, as failed.
    const label = {
      ...quote,
      name: "label",
      kind: "effect",
      status: "begun",
      begunAt: 60,
    } as const;
    for (const [steps, kind] of [
      [[quote], "step"],
      [[quote, { ...label, endedAt: null }], "effect"],
    ] as const) {
      const [lane] = lanesOf([failed], steps, 200);
      assert.deepEqual(
        lane?.steps.map(({ step, from, to }) => [step.name, step.kind, step.status, from, to]),
        [
          ["quote", "step", "done", 10, 50],
          ["label", kind, "failed", 60, 100],
        ],
      );
    }
  });
});

const SIDE = 4;
const CELLS: readonly Cell[] = Array.from({ length: SIDE * SIDE }, (_, at) => ({
  column: at % SIDE,
  row: Math.floor(at / SIDE),
}));

/** Whether a line that is upright or level runs through the inside of the box. */
function crosses(a: Point, b: Point, cell: Cell): boolean {
  const { x, y } = boxAt(cell);
  const [left, right] = [Math.min(a.x, b.x), Math.max(a.x, b.x)];
  const [top, bottom] = [Math.min(a.y, b.y), Math.max(a.y, b.y)];
  return left < x + BOX.width && right > x && top < y + BOX.height && bottom > y;
}

test("between any two boxes, lines and their texts run beside all boxes and within the drawing", () => {
  const lines = CELLS.flatMap((from) => CELLS.map((to) => ({ from, to })));
  const size = sizeOf(SIDE, SIDE);
  for (const [at, { points, label }] of routesOf(lines).entries()) {
    const name = JSON.stringify(lines[at]);
    for (const [index, point] of points.slice(1).entries()) {
      const before = points[index] as Point;
      assert.ok(point.x === before.x || point.y === before.y, `${name} is slanted`);
      for (const cell of CELLS)
        assert.ok(!crosses(before, point, cell), `${name} crosses ${JSON.stringify(cell)}`);
      assert.ok(point.x >= 0 && point.x <= size.width && point.y <= size.height, name);
    }
    const corner = { x: label.x + label.width, y: label.y + 10 };
    for (const cell of CELLS) assert.ok(!crosses(label, corner, cell), `the text of ${name}`);
  }
});

test("a duration that is shown can be typed again, and is read in the words of people", () => {
  for (const ms of [1, 250, 10_000, 90_000, 5_400_000, 86_400_000, 90_061_001])
    assert.equal(durationOf(durationText(ms)), ms);
  assert.equal(durationText(5_400_000), "1 h 30 min");
  for (const text of ["90 minutes", "1h30m", "1.5 h", "1 hour, 30 min"])
    assert.equal(durationOf(text), 5_400_000, text);
  for (const text of ["", "10", "ten s", "5 fortnights", "10 s!"])
    assert.equal(durationOf(text), null, text);
});
