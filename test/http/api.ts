/** What the API does, on whichever database: each answer is compared with the document by the client. */
import assert from "node:assert/strict";
import { before, after, describe, test } from "node:test";
import { sighting } from "../support/alerts.ts";
import { until } from "../worker/observe.ts";
import { TestServer } from "./client.ts";
import { order, part, ship } from "./shop.ts";

const MISSING = "018f2c5e-9b3a-700c-91f2-4c7d9be03a58";

export function apiSuite(name: string, url: () => Promise<string>): void {
  describe(`the API on ${name}`, () => {
    let api: TestServer;
    before(async () => {
      api = await TestServer.open(await url(), { tasks: [ship], workflows: [order, part(order)] });
    });
    after(() => api[Symbol.asyncDispose]());

    test("an accepted job is returned with its input, and listed without", async () => {
      const input = { order: "42", "\u0000": ["ü", "\u{1F600}", 1e21, null] };
      const options = { queue: "mail", priority: 7, maxAttempts: 2, key: "k-1", delay: "1h" };
      const { id, added } = await api.post(
        "/api/v1/jobs",
        { task: "mail.send", input, options },
        201,
      );
      assert.equal(added, true);
      const { job, attempts, steps } = await api.get(`/api/v1/jobs/${id}`);
      assert.deepEqual(job.input, input);
      assert.deepEqual(
        [job.queue, job.priority, job.maxAttempts, job.key, job.status],
        ["mail", 7, 2, "k-1", "scheduled"],
      );
      assert.deepEqual([attempts, steps], [[], []]);
      const { jobs } = await api.get("/api/v1/jobs?queue=mail&status=scheduled&task=mail.send");
      assert.deepEqual(
        jobs.map((one: any) => one.id),
        [id],
      );
      assert.equal("input" in jobs[0], false);
      const again = await api.post("/api/v1/jobs", { task: "mail.send", input, options });
      assert.deepEqual(again, { id, task: "mail.send", added: false });
      const taken = { ...options, onConflict: "reject" };
      const refused = await api.post(
        "/api/v1/jobs",
        { task: "mail.send", input, options: taken },
        409,
      );
      assert.equal(refused.code, "KEY_TAKEN");
    });

    test("a task that the server knows brings its queue and attempts, and checks the input", async () => {
      const { id } = await api.post(
        "/api/v1/jobs",
        { task: "order.ship", input: { order: "1" } },
        201,
      );
      const { job } = await api.get(`/api/v1/jobs/${id}`);
      assert.deepEqual([job.queue, job.maxAttempts], ["orders", 5]);
      const refused = await api.post(
        "/api/v1/jobs",
        { task: "order.ship", input: { order: 1 } },
        422,
      );
      assert.equal(refused.code, "INPUT_REJECTED");
      await api.post(`/api/v1/jobs/${id}/cancel`);
    });

    test("a task that neither the server nor a worker knows is accepted with a warning", async () => {
      const job = { task: "order.shp", input: {} };
      const lone = await api.post("/api/v1/jobs", job, 201);
      assert.match(lone.warning, /No worker is running/);
      const worker = await api.holdfast.startWorker({ tasks: [ship], name: "warner" });
      const beside = await api.post("/api/v1/jobs", job, 201);
      assert.match(beside.warning, /No live worker knows the task 'order\.shp'.*order\.ship\?/);
      const known = { task: "order.ship", input: { order: "1" }, options: { delay: "1h" } };
      const { jobs } = await api.post("/api/v1/jobs/bulk", { jobs: [known, job] }, 201);
      assert.deepEqual(
        jobs.map((one: any) => "warning" in one),
        [false, true],
      );
      await worker.stop();
      const ids = [lone.id, beside.id, ...jobs.map((one: any) => one.id)];
      for (const id of ids) await api.post(`/api/v1/jobs/${id}/cancel`);
    });

    test("the problem names the invalid field", async () => {
      const wrong: [object, string][] = [
        [{}, "task"],
        [{ task: 1 }, "task"],
        [{ task: "a", extra: 1 }, "extra"],
        [{ task: "a", options: { priority: 1.5 } }, "options.priority"],
        [{ task: "a", options: { delay: "soon" } }, "delay"],
        [{ task: " a" }, "task"],
        [{ task: "a", options: { runAt: 1, delay: 1 } }, "delay"],
        [{ task: "a", options: { keyFor: 1 } }, "keyFor"],
      ];
      for (const [body, field] of wrong) {
        const problem = await api.post("/api/v1/jobs", body, 422);
        assert.equal(problem.field, field, JSON.stringify(problem));
      }
    });

    test("many jobs are accepted, or none", async () => {
      const jobs = Array.from({ length: 50 }, (_, index) => ({
        task: "bulk.one",
        input: index,
        options: { queue: "bulk" },
      }));
      const answer = await api.post("/api/v1/jobs/bulk", { jobs }, 201);
      assert.equal(new Set(answer.jobs.map((one: any) => one.id)).size, 50);
      const bad = [...jobs, { task: "bulk.one", options: { queue: " " } }];
      await api.post("/api/v1/jobs/bulk", { jobs: bad }, 422);
      const seen = await pages(api, "/api/v1/jobs?queue=bulk&limit=20", "jobs");
      assert.equal(new Set(seen.map(({ id }) => id)).size, 50);
    });

    test("a payload that is too large is refused before it reaches the database", async () => {
      const body = { task: "a.b", input: "x".repeat(300_000) };
      assert.equal((await api.post("/api/v1/jobs", body, 413)).code, "TOO_LARGE");
    });

    test("a client cancels and retries a job, and the audit log records it", async () => {
      const { id } = await api.post(
        "/api/v1/jobs",
        { task: "a.b", options: { queue: "acts" } },
        201,
      );
      const cancelled = await api.post(`/api/v1/jobs/${id}/cancel`, { reason: "ordered twice" });
      assert.deepEqual(cancelled, { id, status: "cancelled" });
      assert.equal((await api.post(`/api/v1/jobs/${id}/retry`)).status, "pending");
      assert.equal((await api.post(`/api/v1/jobs/${id}/retry`, {}, 409)).code, "ILLEGAL_MOVE");
      const { lines } = await api.get(`/api/v1/audit?subject=${encodeURIComponent(`job ${id}`)}`);
      assert.deepEqual(
        lines.map(({ actor, action, reason }: any) => [actor, action, reason]),
        [
          ["local", "job.cancel", "ordered twice"],
          ["local", "job.retry", null],
        ],
      );
      assert.deepEqual((await api.get(`/api/v1/audit?actor=local&limit=1`)).lines.length, 1);
      await api.post(`/api/v1/jobs/${id}/cancel`);
    });

    test("jobs are found by key, and cancelled and tried again by what they have in common", async () => {
      const options = { queue: "in-common", key: "order 42" };
      const { id } = await api.post("/api/v1/jobs", { task: "a.b", options }, 201);
      const found = await api.get("/api/v1/jobs?key=order%2042");
      assert.deepEqual(
        found.jobs.map((job: any) => [job.id, job.key]),
        [[id, "order 42"]],
      );
      const short = id.slice(0, 30).toUpperCase();
      assert.equal((await api.get(`/api/v1/jobs?id=${short}`)).jobs[0].id, id);

      const filter: { queue: string; status?: string } = { queue: "in-common" };
      const all = async (action: string, terms: object = {}) => {
        const body = { action, filter, ...terms };
        const started = await api.post("/api/v1/bulk", body, 201);
        return until(`${action} has ended`, async () => {
          const now = await api.get(`/api/v1/bulk/${started.id}`);
          return now.status === "running" ? undefined : [now.matched, now.changed];
        });
      };
      assert.deepEqual(await all("cancel", { dryRun: true }), [1, 0]);
      assert.deepEqual(await all("move", { queue: "in-common-2" }), [1, 1]);
      assert.equal((await api.get(`/api/v1/jobs/${id}`)).job.queue, "in-common-2");
      filter.queue = "in-common-2";
      assert.deepEqual(await all("cancel", { reason: "ordered twice" }), [1, 1]);
      assert.deepEqual(await all("retry"), [0, 0]);
      filter.status = "cancelled";
      assert.deepEqual(await all("retry", { attempts: 1 }), [1, 1]);
      filter.status = "pending";
      assert.deepEqual(await all("priority", { priority: 3 }), [1, 1]);
      assert.deepEqual(await all("cancel"), [1, 1]);
      filter.status = "cancelled";
      assert.deepEqual(await all("delete"), [1, 1]);
      await api.get(`/api/v1/jobs/${id}`, 404);
      const [newest] = (await api.get("/api/v1/bulk?limit=1")).actions;
      assert.deepEqual([newest.action, newest.actor], ["delete", "local"]);
      assert.equal((await api.post(`/api/v1/bulk/${newest.id}/stop`)).status, "done");
      await api.post(`/api/v1/bulk/${newest.id}/resume`, {}, 409);
      await api.get(`/api/v1/bulk/${MISSING}`, 404);
      const unnamed = { action: "retry", filter: {} };
      assert.equal((await api.post("/api/v1/bulk", unnamed, 422)).code, "INVALID_ARGUMENT");
      await api.post("/api/v1/bulk", { action: "move", filter }, 422);
      const byInput = { action: "retry", filter: { payload: "ada" } };
      assert.equal((await api.post("/api/v1/bulk", byInput, 422)).field, "filter.payload");
      const keyed = { action: "retry", filter: { key: "order 42", worker: "w", build: "b" } };
      assert.equal((await api.post("/api/v1/bulk", keyed, 201)).filter.build, "b");
    });

    test("unknown ids and names are not found", async () => {
      for (const path of ["", "/events"]) await api.get(`/api/v1/jobs/${MISSING}${path}`, 404);
      const short = await api.get(`/api/v1/jobs/${MISSING.slice(0, 13)}`, 404);
      assert.match(short.detail, /no job with this id.*\?id=/);
      for (const verb of ["cancel", "retry"])
        await api.post(`/api/v1/jobs/${MISSING}/${verb}`, {}, 404);
      for (const id of ["1", "..%2f..", "%00", "a%20b", "'--"])
        await api.get(`/api/v1/jobs/${id}`, 404);
      await api.get(`/api/v1/items/${MISSING}`, 404);
      await api.post(`/api/v1/items/${MISSING}/moves`, { move: "pay" }, 404);
      await api.get("/api/v1/workers/nobody-1", 404);
      for (const verb of ["pause", "resume", "drain", "stop"]) {
        await api.post(`/api/v1/workers/nobody-1/${verb}`, {}, 404);
      }
      await api.get("/api/v1/queues/nowhere", 404);
      await api.get("/api/v1/workflows/nothing", 404);
      await api.post("/api/v1/locks/release", { key: "nobody:1" }, 404);
      const fence = { worker: "w-1", epoch: 1 };
      await api.post(`/api/v1/leases/${MISSING}/extend`, fence, 409);
      await api.post(`/api/v1/leases/${MISSING}/settle`, { ...fence, as: "done" }, 409);
      await api.get("/api/v1/nothing", 404);
      assert.equal(
        (await api.ask("/api/v1/jobs", { method: "DELETE" })).headers["allow"],
        "POST, GET",
      );
    });

    test("a lease is acquired, extended and settled once, under its fence", async () => {
      const { id } = await api.post(
        "/api/v1/jobs",
        { task: "l.1", input: { a: 1 }, options: { queue: "l" } },
        201,
      );
      const wanted = { worker: "py-1", queues: ["l"], tasks: ["l.1"], limit: 5, lease: "20s" };
      const { leases } = await api.post("/api/v1/leases/acquire", wanted);
      assert.deepEqual([leases.length, leases[0].id, leases[0].input], [1, id, { a: 1 }]);
      assert.deepEqual((await api.post("/api/v1/leases/acquire", wanted)).leases, []);
      const { epoch } = leases[0];
      const held = await api.get("/api/v1/leases?worker=py-1");
      assert.deepEqual([held.leases[0].id, held.next], [id, null]);
      assert.deepEqual((await api.get("/api/v1/leases?state=expired")).leases, []);
      const fence = { worker: "py-1", epoch };
      const extended = await api.post(`/api/v1/leases/${id}/extend`, { ...fence, lease: "60s" });
      assert.ok(extended.lockedUntil > leases[0].lockedUntil);
      assert.equal(extended.cancelRequested, false);
      assert.equal((await api.post(`/api/v1/jobs/${id}/cancel`)).status, "processing");
      assert.equal((await api.post(`/api/v1/leases/${id}/extend`, fence)).cancelRequested, true);
      const stale = { ...fence, epoch: epoch + 1, as: "done" };
      assert.equal((await api.post(`/api/v1/leases/${id}/settle`, stale, 409)).code, "LEASE_LOST");
      const other = { worker: "py-2", epoch, as: "done" };
      assert.equal((await api.post(`/api/v1/leases/${id}/settle`, other, 409)).code, "LEASE_LOST");
      const settled = await api.post(`/api/v1/leases/${id}/settle`, {
        ...fence,
        as: "done",
        result: 1,
      });
      assert.equal(settled.status, "cancelled");
      await api.post(`/api/v1/leases/${id}/settle`, { ...fence, as: "done" }, 409);
    });

    test("a failed attempt is retried while attempts remain; suspending and releasing use up none", async () => {
      const options = { queue: "f", maxAttempts: 2 };
      const { id } = await api.post("/api/v1/jobs", { task: "f.1", options }, 201);
      const take = async (): Promise<any> =>
        (await api.post("/api/v1/leases/acquire", { worker: "py-1", queues: ["f"] })).leases[0];
      const settle = async ({ epoch }: any, how: object): Promise<any> =>
        api.post(`/api/v1/leases/${id}/settle`, { worker: "py-1", epoch, ...how });
      assert.equal((await settle(await take(), { as: "released" })).status, "pending");
      assert.equal((await settle(await take(), { as: "suspended", for: 0 })).status, "waiting");
      await api.holdfast.store.jobs.promoteDue({ limit: 10 });
      const failed = await settle(await take(), { as: "failed", error: "no", retryIn: 0 });
      assert.deepEqual([failed.status, failed.attempts], ["retry", 1]);
      assert.equal(typeof failed.retryAt, "number");
      await api.holdfast.store.jobs.promoteDue({ limit: 10 });
      const error = { name: "TypeError", message: "still no", stack: "at line 1" };
      assert.equal(
        (await settle(await take(), { as: "failed", error, attempt: 2 })).status,
        "failed",
      );
      const { job, attempts } = await api.get(`/api/v1/jobs/${id}`);
      assert.deepEqual([job.lastError.name, job.lastError.message], ["TypeError", "still no"]);
      assert.equal(attempts.at(-1).outcome, "failed");
    });

    test("expired leases are reclaimed, and returned with their former status", async () => {
      const { id } = await api.post("/api/v1/jobs", { task: "x.1", options: { queue: "x" } }, 201);
      const wanted = { worker: "py-9", queues: ["x"], lease: 100 };
      const { leases } = await api.post("/api/v1/leases/acquire", wanted);
      assert.equal(leases[0].id, id);
      for (;;) {
        const { jobs } = await api.post("/api/v1/leases/reset-expired", { grace: 0, limit: 10 });
        if (jobs.length === 0) continue;
        assert.deepEqual(jobs, [{ id, worker: "py-9", epoch: 1, status: "retry" }]);
        break;
      }
      const late = { worker: "py-9", epoch: 1, as: "done" };
      await api.post(`/api/v1/leases/${id}/settle`, late, 409);
    });

    test("alerts are listed: raised ones, or all", async () => {
      assert.deepEqual(await api.get("/api/v1/alerts"), {
        alerts: [],
        open: { raised: 0, pending: 0, silenced: 0 },
      });
      await api.holdfast.store.alerts.note(sighting({ rule: "api.test", subject: "mail" }));
      const { alerts } = await api.get("/api/v1/alerts?which=open&limit=5");
      assert.deepEqual([alerts[0].rule, alerts[0].subject], ["api.test", "mail"]);
      assert.equal((await api.ask("/api/v1/alerts?which=loud")).status, 400);
    });

    test("an effect that is in doubt is shown, and a person says what became of it", async () => {
      const { id } = await api.post("/api/v1/jobs", { task: "d.1", options: { queue: "d" } }, 201);
      const { leases } = await api.post("/api/v1/leases/acquire", {
        worker: "py-1",
        queues: ["d"],
      });
      const fence = { id, worker: "py-1", epoch: leases[0].epoch };
      const step = { name: "charge", occurrence: 1, kind: "effect", position: 1 } as const;
      const { store } = api.holdfast;
      await store.steps.put(fence, { ...step, status: "doubt", result: null, isNew: true });
      await store.jobs.settle([{ ...fence, outcome: { kind: "suspended", delayMs: null } }]);
      const { effects: doubts } = await api.get("/api/v1/effects?limit=5");
      assert.deepEqual([doubts[0].job, doubts[0].name], [id, "charge"]);
      const said = { name: "charge", done: true, result: { paid: 5 }, reason: "asked the bank" };
      assert.deepEqual(await api.post(`/api/v1/jobs/${id}/resolve`, said), { id, done: true });
      await api.post(`/api/v1/jobs/${id}/resolve`, said, 404);
      assert.deepEqual((await api.get(`/api/v1/jobs/${id}`)).steps[0].result, { paid: 5 });
    });

    test("a worker is listed and controlled, and its jobs report what they did", async () => {
      const worker = await api.holdfast.startWorker({ tasks: [ship], name: "shipper" });
      const { id } = await api.post(
        "/api/v1/jobs",
        { task: "order.ship", input: { order: "7" } },
        201,
      );
      assert.deepEqual(await api.holdfast.jobs.result(id, { timeout: "20s" }), {
        tracking: "T-7",
      });
      const { job, attempts, steps } = await api.get(`/api/v1/jobs/${id}`);
      assert.deepEqual(
        [job.status, job.result, attempts.length, steps[0].name],
        ["done", { tracking: "T-7" }, 1, "quote"],
      );
      const { reports } = await api.get(`/api/v1/jobs/${id}/events?kind=log&after=0&newest=true`);
      assert.deepEqual([reports[0].text, reports[0].data], ["shipping", { order: "7" }]);
      const { workers } = await api.get("/api/v1/workers?type=shipper&all=true");
      const [{ id: workerId }] = workers;
      assert.equal((await api.get(`/api/v1/workers/${workerId}`)).worker.type, "shipper");
      for (const [verb, desiredState] of [
        ["pause", "pause"],
        ["resume", "run"],
        ["stop", "stop"],
      ]) {
        const told = await api.post(`/api/v1/workers/${workerId}/${verb}`, { reason: "a test" });
        assert.deepEqual(told, { id: workerId, desiredState });
      }
      await worker.stop();
      // Another one: an idle worker that drains stops at once, and is told nothing more.
      const other = await api.holdfast.startWorker({ tasks: [ship], name: "drainer" });
      const drained = await api.post(`/api/v1/workers/${other.id}/drain`, { reason: "a test" });
      assert.deepEqual(drained, { id: other.id, desiredState: "drain" });
      await other.stop();
      const { lines } = await api.get(
        `/api/v1/audit?subject=${encodeURIComponent(`worker ${workerId}`)}`,
      );
      assert.deepEqual(
        lines.map(({ actor, action }: any) => [actor, action]),
        ["pause", "run", "stop"].map((desiredState) => ["local", `worker.${desiredState}`]),
      );
    });

    test("a worker over HTTP is seen, also while it has nothing to do", async () => {
      const wanted = { worker: "py-7", queues: ["nothing-here"], tasks: ["py.add"] };
      assert.deepEqual((await api.post("/api/v1/leases/acquire", wanted)).leases, []);
      const { unregistered } = await api.get("/api/v1/workers");
      const { kind, queues, tasks, leases } = unregistered.find(({ id }: any) => id === "py-7");
      assert.deepEqual(
        { kind, queues, tasks, leases },
        { kind: "leases", queues: ["nothing-here"], tasks: ["py.add"], leases: 0 },
      );
      assert.equal((await api.get("/api/v1/workers/py-7")).unregistered.kind, "leases");
    });

    test("builds that differ are told", async () => {
      const start = (version: string) =>
        api.holdfast.startWorker({ tasks: [ship], name: "packer", version });
      const workers = [await start("abc1234"), await start("def5678")];
      await api.holdfast.store.workers.noteEnqueuer("fed9999");
      const { workers: types, enqueuers } = await api.get("/api/v1/drift");
      const packer = types.find(({ type }: any) => type === "packer");
      assert.deepEqual(packer?.versions.toSorted(), ["abc1234", "def5678"]);
      assert.ok(enqueuers.map(({ version }: any) => version).includes("fed9999") === true);
      for (const worker of workers) await worker.stop();
    });

    test("the limit of a type of workers is shown and changed", async () => {
      const worker = await api.holdfast.startWorker({ tasks: [ship], name: "clerk", slots: 1 });
      const { types } = await api.get("/api/v1/worker-types");
      const clerk = types.find(({ type }: any) => type === "clerk");
      assert.deepEqual(clerk, { type: "clerk", slots: 1, active: 1 });
      const path = "/api/v1/worker-types/clerk/limit";
      const changed = await api.post(path, { slots: 2, reason: "a test" });
      assert.deepEqual(changed, { type: "clerk", from: 1, to: 2 });
      const { code } = await api.post(path, { slots: null }, 409);
      assert.equal(code, "WORKER_LIMIT_IN_USE");
      await api.post(path, { slots: 0 }, 422);
      await api.post("/api/v1/worker-types/nobody/limit", { slots: 2 }, 404);
      await worker.stop();
      const { lines } = await api.get("/api/v1/audit?subject=type%20clerk");
      assert.deepEqual(
        lines.map(({ actor, action, reason }: any) => [actor, action, reason]),
        [["local", "worker.limit", "a test"]],
      );
    });

    test("queues and figures are told", async () => {
      const { queues, countedAt } = await api.get("/api/v1/queues");
      assert.ok(queues.map(({ queue }: any) => queue).includes("bulk") === true);
      assert.ok(countedAt > 0);
      const { queue, unclaimable } = await api.get("/api/v1/queues/bulk");
      assert.equal(queue.counts.pending, 50);
      assert.equal(unclaimable[0].task, "bulk.one");
      // A count may be renewed between the two.
      const [listed, stats] = await until("both are of one count", async () => {
        const both = [await api.get("/api/v1/queues"), await api.get("/api/v1/stats")];
        return both[0].countedAt === both[1].countedAt && both;
      });
      const queueCounts = listed.queues.map(({ settings: _settings, ...counts }: any) => counts);
      assert.deepEqual([stats.queues, stats.minutes], [queueCounts, []]);
    });

    test("flows and batches are enqueued, seen, added to, cancelled and retried", async () => {
      const jobs = [
        { name: "merge", task: "report.merge", after: ["eu", "us"] },
        { name: "eu", task: "report.fetch", input: { region: "eu" } },
        { name: "us", task: "report.fetch", options: { queue: "far", maxAttempts: 1 } },
      ];
      const made = await api.post("/api/v1/flows", { name: "report", jobs }, 201);
      assert.equal(made.jobs.length, 3);
      const path = `/api/v1/flows/${made.id}`;
      const { flows } = await api.get("/api/v1/flows?kind=flow&limit=5");
      assert.deepEqual([flows[0].id, flows[0].name], [made.id, "report"]);
      const flow = await api.get(path);
      assert.deepEqual([flow.status, flow.total, flow.live], ["running", 3, 3]);
      const listed = (await api.get(`${path}/jobs?limit=10`)).jobs as any[];
      const merge = listed.find((one) => one.name === "merge");
      assert.deepEqual([merge.status, merge.missing], ["waiting", 2]);
      const about = await api.get(`/api/v1/jobs/${merge.id}/dependencies`);
      assert.deepEqual(
        [about.flow, about.dependencies.map((one: any) => one.name), about.dependents],
        [made.id, ["eu", "us"], []],
      );
      const more = { jobs: [{ name: "mail", task: "report.mail", after: ["merge"] }] };
      await api.post(`${path}/jobs`, more, 201);
      assert.equal((await api.get(path)).total, 4);
      const circle = [
        { name: "a", task: "t", after: ["b"] },
        { name: "b", task: "t", after: ["a"] },
      ];
      const post = (body: object, status: number): Promise<any> =>
        api.post("/api/v1/flows", body, status);
      assert.equal((await post({ name: "c", jobs: circle }, 422)).code, "CIRCLE");
      const nobody = [{ name: "a", task: "t", after: [made.id] }];
      assert.equal((await post({ name: "c", jobs: nobody }, 422)).code, "DEPENDENCY_NOT_FOUND");
      const cancelled = await api.post(`${path}/cancel`, { reason: "not now" });
      assert.deepEqual(cancelled, { id: made.id, cancelled: 4 });
      assert.equal((await api.get(path)).status, "cancelled");
      assert.equal(
        (await api.post(`/api/v1/jobs/${merge.id}/retry`, {}, 409)).code,
        "DEPENDENCY_UNMET",
      );
      assert.equal((await api.post(`${path}/retry`, { attempts: 1 })).retried, 4);
      assert.equal((await api.get(path)).live, 4);
      const batch = { name: "all", jobs: [{ task: "a" }, { task: "b" }], callback: { task: "c" } };
      const { id, jobs: three } = await api.post("/api/v1/batches", batch, 201);
      const found = await api.get(`/api/v1/flows/${id}`);
      assert.deepEqual([found.kind, found.total, found.callback], ["batch", 2, three[2].id]);
      await api.get(`/api/v1/flows/${three[2].id}`, 404);
    });

    test("locks are seen, counted and taken away", async () => {
      const { locks } = api.holdfast;
      await using lock = await locks.acquire("order:42", { trace: "a test" });
      const listed = await api.get("/api/v1/locks?type=order&limit=5");
      assert.deepEqual([listed.locks[0].key, listed.locks[0].token], ["order:42", lock.token]);
      const released = await api.post("/api/v1/locks/release", {
        key: "order:42",
        reason: "stuck",
      });
      assert.equal(released.lock.trace, "a test");
      assert.deepEqual((await api.get("/api/v1/locks")).locks, []);
      const stats = await api.get("/api/v1/locks/stats?last=10m&type=order");
      assert.equal(stats.types[0].acquisitions, 1);
    });

    test("items are listed, shown with their history, and moved by their rules", async () => {
      const { workflows } = api.holdfast;
      const item = await workflows.start(order, {
        data: { cents: 5 },
        identifier: "A-1",
        actor: "shop",
      });
      assert.equal((await api.get("/api/v1/workflows")).workflows[0].movable, true);
      assert.equal((await api.get("/api/v1/workflows/order")).workflow.states.length, 3);
      const listed = await api.get(
        "/api/v1/items?workflow=order&status=open&tenant=default&limit=5",
      );
      assert.deepEqual([listed.items[0].id, "data" in listed.items[0]], [item.id, false]);
      assert.equal((await api.get("/api/v1/items?identifier=A-1")).items.length, 1);
      await api.get("/api/v1/items?status=open", 400);
      const move = (body: object, status: number): Promise<any> =>
        api.post(`/api/v1/items/${item.id}/moves`, body, status);
      const open = await api.get(`/api/v1/items/${item.id}`);
      assert.deepEqual(open.moves, [
        { name: "pay", to: "paid", allowed: false, why: "say who paid" },
      ]);
      assert.equal((await move({ move: "pay" }, 409)).code, "MOVE_REFUSED");
      assert.equal((await move({ move: "ship" }, 409)).code, "INVALID_MOVE");
      const patch = { paidBy: "ada" };
      assert.equal((await move({ move: "pay", patch, expect: 9 }, 409)).code, "ITEM_CHANGED");
      const paid = await move({ move: "pay", patch, expect: 1, reason: "cash" }, 200);
      assert.deepEqual([paid.item.status, paid.item.data], ["paid", { cents: 5, paidBy: "ada" }]);
      const shown = await api.get(`/api/v1/items/${item.id}`);
      assert.deepEqual(
        shown.history.map(({ actor, newStatus, reason }: any) => [actor, newStatus, reason]),
        [
          ["shop", "open", null],
          ["local", "paid", "cash"],
        ],
      );
      assert.deepEqual(shown.progress, []);
      assert.deepEqual(
        [shown.moves, shown.movable],
        [[{ name: "ship", to: "shipped", allowed: true, why: null }], true],
      );
      const { history, next } = await api.get(`/api/v1/items/${item.id}/history?after=1&limit=1`);
      assert.deepEqual([history.length, history[0].seq, next], [1, 2, 2]);
    });

    test("items are started, updated and changed together", async () => {
      const items = "/api/v1/workflows/order/items";
      const headers = { "idempotency-key": "start-1" };
      const body = { data: { cents: 7 }, identifier: "H-1", tenant: "acme", reason: "by phone" };
      const { item } = await api.post(items, body, 201, { headers });
      assert.deepEqual([item.status, item.identifier, item.revision], ["open", "H-1", 1]);
      assert.equal((await api.post(items, body, 201, { headers })).item.id, item.id);
      assert.equal((await api.get("/api/v1/items?identifier=H-1")).items.length, 1);
      const update = `/api/v1/items/${item.id}/update`;
      const updated = await api.post(update, { patch: { cents: 8 }, expect: 1 });
      assert.deepEqual([updated.item.data, updated.item.status], [{ cents: 8 }, "open"]);
      const stale = await api.post(update, { patch: { cents: 9 }, expect: 1 }, 409);
      assert.equal(stale.code, "ITEM_CHANGED");
      const parts = [{ sku: "a" }, { sku: "b" }].map((data) => ({ data, parent: item.id }));
      const bulk = "/api/v1/workflows/part/items/bulk";
      const { items: started } = await api.post(bulk, { items: parts }, 201);
      assert.deepEqual(
        started.map(({ data, tenant }: any) => [data.sku, tenant]),
        [
          ["a", "acme"],
          ["b", "acme"],
        ],
      );
      const alone = await api.post("/api/v1/workflows/part/items", { data: { sku: "d" } }, 422);
      assert.deepEqual([alone.code, alone.field], ["INVALID_ARGUMENT", "parent"]);
      const [first, second] = started.map(({ id }: any) => id);
      const children = `/api/v1/items/${item.id}/children`;
      const bad = {
        changes: [
          { id: first, move: "pack" },
          { id: second, move: "fold" },
        ],
      };
      assert.equal((await api.post(children, bad, 409)).code, "INVALID_MOVE");
      assert.equal((await api.get(`/api/v1/items/${first}`)).item.status, "open");
      const good = {
        changes: [
          { id: second, move: "pack" },
          { id: first, patch: { sku: "c" } },
        ],
      };
      const changed = await api.post(children, { ...good, reason: "packed at night" });
      assert.deepEqual(
        changed.items.map(({ status, data }: any) => [status, data.sku]),
        [
          ["packed", "b"],
          ["open", "c"],
        ],
      );
      const { history } = await api.get(`/api/v1/items/${second}`);
      assert.deepEqual([history[1].actor, history[1].reason], ["local", "packed at night"]);
      const unknown = await api.post("/api/v1/workflows/nothing/items", { data: {} }, 409);
      assert.equal(unknown.code, "UNKNOWN_WORKFLOW");
      assert.equal((await api.post(items, { data: [] }, 422)).field, "data");
    });

    test("an event that is emitted is there for the jobs that wait for it, and the first stands", async () => {
      const event = { name: "order.paid", key: "H-1", payload: { cents: 7 } };
      assert.deepEqual(await api.post("/api/v1/events", event), { first: true, woken: 0 });
      const again = { ...event, payload: { cents: 9 } };
      assert.deepEqual(await api.post("/api/v1/events", again), { first: false, woken: 0 });
      const { payload } = (await api.holdfast.store.steps.findEvent("order.paid", "H-1")) ?? {};
      assert.equal(payload, '{"cents":7}');
      assert.equal(
        (await api.post("/api/v1/events", { name: "@job", key: "1" }, 422)).field,
        "name",
      );
    });

    test("a request that is sent again is made once, and answered the same", async () => {
      const headers = { "idempotency-key": "order-42" };
      const body = { task: "once.1", input: 1, options: { queue: "once" } };
      const first = await api.ask("/api/v1/jobs", { body, headers });
      const again = await api.ask("/api/v1/jobs", { body, headers });
      assert.deepEqual([first.status, again.status, again.text], [201, 201, first.text]);
      assert.equal(again.headers["idempotency-replayed"], "true");
      const location = `/api/v1/jobs/${first.json.id}`;
      assert.deepEqual([first.headers.location, again.headers.location], [location, location]);
      const plain = await api.ask("/api/v1/jobs", {
        body: { ...body, options: { queue: "plain" } },
      });
      assert.equal(plain.headers.location, `/api/v1/jobs/${plain.json.id}`);
      const other = await api.ask("/api/v1/jobs", { body: { ...body, input: 2 }, headers });
      assert.deepEqual([other.status, other.json.code], [422, "KEY_REUSED"]);
      const elsewhere = await api.ask("/api/v1/jobs/bulk", { body: { jobs: [body] }, headers });
      assert.equal(elsewhere.status, 422);
      assert.equal((await api.get("/api/v1/jobs?queue=once")).jobs.length, 1);
      const path = `/api/v1/jobs/${first.json.id}/retry`;
      const problems = [0, 1].map(() =>
        api.post(path, {}, 409, { headers: { "idempotency-key": "r" } }),
      );
      for (const problem of await Promise.all(problems)) assert.equal(problem.code, "ILLEGAL_MOVE");
    });

    test("clients that use one key at the same time all get the same job", async () => {
      const headers = { "idempotency-key": "at-once" };
      const body = { task: "once.2", options: { queue: "once-2" } };
      const replies = await Promise.all(
        Array.from({ length: 8 }, () => api.ask("/api/v1/jobs", { body, headers })),
      );
      assert.deepEqual(new Set(replies.map(({ status }) => status)), new Set([201]));
      assert.equal(new Set(replies.map(({ json }) => json.id)).size, 1);
      assert.equal((await api.get("/api/v1/jobs?queue=once-2")).jobs.length, 1);
    });

    test("no request of these tests caused an internal error", () => {
      assert.deepEqual(
        api.log.filter((line) => line.startsWith("error")),
        [],
      );
    });
  });
}

async function pages(api: TestServer, path: string, field: string): Promise<any[]> {
  const all: any[] = [];
  for (let rest = ""; ;) {
    const page = await api.get(path + rest);
    all.push(...page[field]);
    if (page.next === null) return all;
    rest = `&before=${page.next}`;
  }
}
