import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { Histogram } from "../../src/core/histogram.ts";
import { seededRandom } from "../support/runtime.ts";

function of(spans: readonly number[]): Histogram {
  const histogram = new Histogram();
  for (const ms of spans) histogram.add(ms);
  return histogram;
}

/** As it is defined, from all that there is. */
function exact(spans: readonly number[], share: number): number {
  const inOrder = spans.toSorted((a, b) => a - b);
  return inOrder[Math.max(1, Math.ceil(spans.length * share)) - 1] ?? 0;
}

suite("histogram", () => {
  test("a duration is accurate to within a fifth, from a tenth of a millisecond to hours", () => {
    for (let ms = 0.1; ms < 3 * 3_600_000; ms *= 1.01) {
      const told = of([ms]).quantile(0.5) ?? 0;
      assert.ok(Math.abs(told - ms) / ms <= 0.2, `${ms} is told as ${told}`);
    }
  });

  test("quantiles are those of all spans together, within a fifth", () => {
    const random = seededRandom(7);
    const spans = Array.from({ length: 5_000 }, () => 0.2 * 10 ** (random() * 5));
    const histogram = of(spans);
    for (const share of [0.01, 0.5, 0.95, 0.99, 1]) {
      const [told, was] = [histogram.quantile(share) ?? 0, exact(spans, share)];
      assert.ok(Math.abs(told - was) / was <= 0.2, `${share}: ${was} is told as ${told}`);
    }
  });

  test("the counts of two processes add up to those of one", () => {
    const spans = Array.from({ length: 100 }, (_, index) => index * 3.7);
    const together = new Histogram();
    together.addText(of(spans.slice(0, 40)).toText());
    together.addText(of(spans.slice(40)).toText());
    assert.equal(together.total, 100);
    assert.deepEqual(JSON.parse(together.toText()), JSON.parse(of(spans).toText()));
  });

  test("its text stays short, whatever comes", () => {
    const histogram = of([0, -1, 1e-9, Number.MAX_VALUE]);
    for (let ms = 0.01; ms < 1e12; ms *= 1.1) histogram.add(ms);
    assert.ok(histogram.toText().length < 600);
  });

  test("its bounds are the same for all, and the last takes everything", () => {
    const bounds = of([0.05, 1, 1, 1e12]).cumulative();
    assert.deepEqual(bounds[0], { boundMs: 0.05, count: 1 });
    assert.deepEqual(bounds.at(-1), { boundMs: Number.POSITIVE_INFINITY, count: 4 });
    assert.equal(bounds.find(({ boundMs }) => boundMs > 1)?.count, 3);
    assert.ok(bounds.length < 20);
    const empty = new Histogram().cumulative();
    assert.deepEqual(
      empty.map(({ boundMs }) => boundMs),
      bounds.map(({ boundMs }) => boundMs),
    );
  });

  test("of nothing there is no quantile", () => {
    assert.equal(new Histogram().quantile(0.5), null);
    assert.equal(new Histogram().toText(), "{}");
  });
});
