import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { openHoldfast } from "../../src/index.ts";
import { Desk } from "./command.ts";

suite("holdfast leases", () => {
  test("lists leased jobs with their workers, and expired leases", async () => {
    await using desk = new Desk();
    await using holdfast = await openHoldfast(desk.url);
    assert.match((await desk.holdfast(["leases"])).stdout, /No active leases\./);
    const job = await holdfast.enqueue("mail.send", null);
    await holdfast.leases.acquire({ worker: "py-1", tasks: ["mail.send"], lease: "1h" });
    const { stdout } = await desk.holdfast(["leases"]);
    assert.match(stdout, /^JOB +TASK +WORKER +ATTEMPT +CLAIMED +HEARTBEAT +EXPIRES$/m);
    assert.match(stdout, /mail\.send +py-1 +1 .* in (?:59m|1h)/);
    assert.match(stdout, /1 lease$/m);
    const { leases } = await desk.json(["leases", "--worker", "py-1"]);
    assert.deepEqual([leases.length, leases[0].id], [1, job.id]);
    const none = { leases: [], next: null };
    assert.deepEqual(await desk.json(["leases", "--worker", "py-2"]), none);
    assert.match((await desk.holdfast(["leases", "--expired"])).stdout, /No expired leases\./);
  });
});
