/** When an idle service collects its garbage, and that it does. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { IdleMemory } from "../../src/cli/service.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import { until } from "../worker/observe.ts";

const lookEveryMs = 20;

suite("the memory of an idle service", () => {
  test("is collected once after the start and once after each busy time", async () => {
    let collected = 0;
    let looks = 0;
    let status = { claimed: 0, running: 0, buffered: 0 };
    const memory = new IdleMemory({
      runtime: systemRuntime,
      lookEveryMs,
      status: () => {
        looks += 1;
        return status;
      },
      collect: async () => void (collected += 1),
    });
    const fewLooks = (): Promise<true> => {
      const aim = looks + 4;
      return until("a few looks have passed", () => looks >= aim);
    };
    await fewLooks();
    assert.equal(collected, 1);
    status = { claimed: 9, running: 1, buffered: 0 };
    await fewLooks();
    assert.equal(collected, 1, "a job is running");
    status = { claimed: 9, running: 0, buffered: 0 };
    await fewLooks();
    assert.equal(collected, 2);
    status = { claimed: 20, running: 0, buffered: 0 };
    await fewLooks();
    assert.equal(collected, 3);
    memory.stop();
  });

  test("is smaller afterwards, and the process goes on", async () => {
    const finished = new Promise<number>((resolve) => {
      const registry = new FinalizationRegistry(resolve);
      registry.register({ of: "a busy time" }, 1);
      // So that the registry itself stays.
      setTimeout(() => registry.unregister(registry), 10_000).unref();
    });
    const status = () => ({ claimed: 0, running: 0, buffered: 0 });
    const memory = new IdleMemory({ runtime: systemRuntime, lookEveryMs, status });
    const keepAlive = setInterval(() => {}, 1_000);
    assert.equal(await finished, 1);
    clearInterval(keepAlive);
    memory.stop();
  });
});
