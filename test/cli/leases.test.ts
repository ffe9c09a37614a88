import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { openHoldfast } from "../../src/index.ts";
import { TestCli } from "./command.ts";

suite("holdfast leases", () => {
  test("lists leased jobs with their workers, and expired leases", async () => {
    await using cli = new TestCli();
    await using holdfast = await openHoldfast(cli.url);
    assert.match((await cli.holdfast(["leases"])).stdout, /No active leases\./);
    const job = await holdfast.enqueue("mail.send", null);
    await holdfast.leases.acquire({ worker: "py-1", tasks: ["mail.send"], lease: "1h" });
    const { stdout } = await cli.holdfast(["leases"]);
    assert.match(stdout, /^JOB +TASK +WORKER +ATTEMPT +CLAIMED +HEARTBEAT +EXPIRES$/m);
    assert.match(stdout, /mail\.send +py-1 +1 .* in (?:59m|1h)/);
    assert.match(stdout, /1 lease$/m);
    const { leases } = await cli.json(["leases", "--worker", "py-1"]);
    assert.deepEqual([leases.length, leases[0].id], [1, job.id]);
    const none = { leases: [], next: null };
    assert.deepEqual(await cli.json(["leases", "--worker", "py-2"]), none);
    assert.match((await cli.holdfast(["leases", "--expired"])).stdout, /No expired leases\./);
  });
});
