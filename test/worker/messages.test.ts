/** What the library says about mistakes that people make on their first day. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { Client } from "pg";
import { z } from "zod";
import {
  type AnyTask,
  type Context,
  defineEvent,
  defineTask,
  type EnqueueOptions,
  HoldfastError,
  openHoldfast,
  type RetryOptions,
} from "../../src/index.ts";
import { defineSchedule } from "../../src/schedules/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { alertSettings } from "../../src/alerts/options.ts";
import { openTestHoldfast, testClock } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { keepLog } from "./observe.ts";

after(assertNothingRuns);

/** For `assert.throws` and `assert.rejects`: our error, with exactly this message. */
function saying(message: string | RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof HoldfastError, `not an error of ours: ${String(error)}`);
    if (typeof message === "string") assert.equal(error.message, message);
    else assert.match(error.message, message);
    return true;
  };
}

const run = (): null => null;

/** Whatever the compiler says about it. */
const given = (value: unknown): never => value as never;

suite("an option that is not as it should be", () => {
  test("is named with the option around it, and with a suggestion", () => {
    const define = (retry: unknown) => () =>
      defineTask({ name: "mail", retry: retry as RetryOptions, run });
    const such = "must be an object such as { maxAttempts: 5 }, not";
    assert.throws(define(5), saying(`retry: ${such} 5.`));
    assert.throws(define(null), saying(`retry: ${such} null.`));
    assert.throws(define("5"), saying(`retry: ${such} string.`));
    assert.throws(define([5]), saying(`retry: ${such} an array.`));
    assert.throws(
      define({ maxAttempt: 3 }),
      saying("retry.maxAttempt: there is no such option. Did you mean maxAttempts?"),
    );
    assert.throws(
      define({ colour: 3 }),
      saying(
        "retry.colour: there is no such option. The options are: maxAttempts, backoff, maxSnoozes.",
      ),
    );
  });

  test("is named so in every function", async () => {
    const task = defineTask({ name: "mail", run });
    await using bench = await openTestHoldfast();
    const { holdfast } = bench;
    const cases: [() => unknown, RegExp][] = [
      [
        () => holdfast.enqueue(task, null, { prioritty: 1 } as EnqueueOptions),
        /^prioritty: .*mean priority\?/,
      ],
      [
        () => holdfast.startWorker({ tasks: [task], retention: { don: "1d" } as object }),
        /^retention\.don: .*mean done\?/,
      ],
      [
        () => holdfast.startWorker({ tasks: [task], concurency: 1 } as never),
        /^concurency: .*mean concurrency\?/,
      ],
      [() => holdfast.jobs.list({ statsu: "done" } as object), /^statsu: .*mean status\?/],
      [() => holdfast.jobs.list(7 as never), /^options: must be an object, not 7\.$/],
      [
        () =>
          defineWorkflow({
            name: "order",
            initial: "open",
            states: { open: { finall: true } as object },
            moves: {},
          }),
        /^states\.open\.finall: .*mean final\?/,
      ],
    ];
    for (const [call, message] of cases) {
      await assert.rejects(async () => call(), saying(message));
    }
  });
});

/** What a task is told that does this, as the error of its job. */
async function toldInTask(act: (ctx: Context) => Promise<unknown>): Promise<string | undefined> {
  const task = defineTask({
    name: "try",
    retry: { maxAttempts: 1 },
    run: (_: null, ctx) => act(ctx),
  });
  await using bench = await openTestHoldfast();
  await bench.holdfast.enqueue(task, null);
  const { jobs } = await bench.drain([task]);
  return jobs[0]?.error?.message;
}

const packed = defineEvent<number>({ name: "packed" });
const other = defineTask({ name: "other", run: (input: number) => input });

suite("an option that does not exist", () => {
  const wrong: [what: string, message: string, act: (ctx: Context) => Promise<unknown>][] = [
    [
      "of an effect",
      "verfy: there is no such option. Did you mean verify?",
      (ctx) => ctx.effect("x", run, { verfy: () => 1 } as object),
    ],
    [
      "of an effect, that is no function",
      "verify: must be a function.",
      (ctx) => ctx.effect("x", run, { verify: 1 as never }),
    ],
    [
      "of an event",
      "timout: there is no such option. Did you mean timeout?",
      (ctx) => ctx.event(packed, "1", { timout: "1s" } as object),
    ],
    [
      "of a call",
      "dealy: there is no such option. The options are: name, queue, priority, maxAttempts.",
      (ctx) => ctx.call(other, 1, { dealy: "1s" } as object),
    ],
  ];
  for (const [what, message, act] of wrong) {
    test(`is refused: ${what}`, async () => assert.equal(await toldInTask(act), message));
  }

  for (const [options, message] of [
    [{ jobId: "1" }, "jobId: there is no such option. Here it is called: key."],
    [{ singletonKey: "1" }, "singletonKey: there is no such option. Here it is called: key."],
    [{ attempts: 5 }, "attempts: there is no such option. Here it is called: maxAttempts."],
    [{ startAfter: 5 }, "startAfter: there is no such option. Here it is called: delay or runAt."],
    [{ repeat: {} }, "repeat: there is no such option. Here it is called: defineSchedule()."],
  ] as const) {
    test(`is translated from other libraries: ${Object.keys(options).join()}`, async () => {
      await using bench = await openTestHoldfast();
      const enqueued = bench.holdfast.enqueue(other, 1, options as object);
      await assert.rejects(enqueued, saying(message));
    });
  }

  test("is translated from other libraries: of a task and of a worker", async () => {
    const defined = (more: object) => () => defineTask({ name: "x", run, ...more });
    assert.throws(
      defined({ attempts: 3 }),
      saying("attempts: there is no such option. Here it is called: retry: { maxAttempts }."),
    );
    assert.throws(
      defined({ handler: run }),
      saying("handler: there is no such option. Here it is called: run."),
    );
    await using bench = await openTestHoldfast();
    const limited = bench.holdfast.startWorker({ tasks: [other], limiter: {} } as object as never);
    await assert.rejects(
      limited,
      saying(
        "limiter: there is no such option. Here it is called: holdfast.queues.set(queue, { rate }).",
      ),
    );
  });

  test("is refused with the call: of a lock, without options", async () => {
    await using bench = await openTestHoldfast();
    const call = bench.holdfast.locks.with.bind(bench.holdfast.locks) as (
      ...given: unknown[]
    ) => Promise<unknown>;
    await assert.rejects(
      call("key", run),
      saying(
        "options: must be an object such as {}: with(key, {}, async (lock) => …), not function.",
      ),
    );
  });

  test("a schedule without a time is told that neither was passed", () => {
    const message = 'cron: pass either cron ("30 2 * * *") or every ("10m"); neither was passed.';
    assert.throws(() => defineSchedule({ name: "s", task: other, input: 1 }), saying(message));
  });

  test("a client of pg is not a pool", async () => {
    const client = new Client("postgres://127.0.0.1:1/nothing");
    await assert.rejects(
      openHoldfast(client as never),
      saying("url: this is a client of `pg`, with one connection. Pass a Pool of `pg`, or a URL."),
    );
  });

  test("is refused where there are none: of emit", async () => {
    await using bench = await openTestHoldfast();
    const { holdfast } = bench;
    const message = "options: emit takes an event, a key and a payload, and no options.";
    const emit = holdfast.emit.bind(holdfast) as (...given: unknown[]) => Promise<unknown>;
    await assert.rejects(emit(packed, "1", 5, { x: 1 }), saying(message));
    const within = holdfast.within({});
    const inside = within.emit.bind(within) as (...given: unknown[]) => Promise<unknown>;
    await assert.rejects(inside(packed, "1", 5, { x: 1 }), saying(message));
    assert.equal(await holdfast.store.steps.findEvent("packed", "1"), null);
  });

  test("is refused: of a Holdfast for tests, and of its clock", async () => {
    await assert.rejects(
      openTestHoldfast({ sed: 1 } as object),
      saying("sed: there is no such option. Did you mean seed?"),
    );
    assert.throws(
      () => testClock(0, { sed: 1 } as object),
      saying("sed: there is no such option. Did you mean seed?"),
    );
  });
});

suite("a number that came as text", () => {
  const task = defineTask({ name: "mail", run });
  test("is distinguished from the number", async () => {
    await using bench = await openTestHoldfast();
    const { holdfast } = bench;
    const start = (options: object) => () => holdfast.startWorker({ tasks: [task], ...options });
    const define = (retry: RetryOptions) => () => defineTask({ name: "mail", retry, run });
    const cases: [() => unknown, string][] = [
      [
        start({ concurrency: given("5") }),
        'concurrency: must be a whole number from 1 to 1000, not the text "5".',
      ],
      [start({ extendAt: given("0.5") }), 'extendAt: must be from 0.1 to 0.8, not the text "0.5".'],
      [
        define({ maxAttempts: given("3") }),
        'retry.maxAttempts: must be a whole number from 1 to 1000, not the text "3".',
      ],
      [
        define({ backoff: { factor: given("2") } }),
        'retry.backoff.factor: must be a number from 1 to 100, not the text "2".',
      ],
      [
        define({ maxAttempts: given("three") }),
        "retry.maxAttempts: must be a whole number from 1 to 1000, not a text.",
      ],
      [
        define({ maxAttempts: 0 }),
        "retry.maxAttempts: must be a whole number from 1 to 1000, not 0.",
      ],
      [
        () => alertSettings({ failureShare: given("0.5") }),
        'alerts.failureShare: must be a number between 0 and 1, such as 0.5 for half of them, not the text "0.5".',
      ],
    ];
    for (const [call, message] of cases) await assert.rejects(async () => call(), saying(message));
  });

  test("gets an error from ctx.progress", async () => {
    const half = "For 25 of 100, pass { done: 25, total: 100 }.";
    assert.equal(
      await toldInTask(async (ctx) => ctx.progress(given("0.5"))),
      `value: must be a number from 0 to 1, not the text "0.5". ${half}`,
    );
    assert.equal(
      await toldInTask(async (ctx) => ctx.progress({ done: given("1"), total: 2 })),
      'value.done: must be a number of at least 0, not the text "1".',
    );
  });
});

suite("tasks that are not a list", () => {
  const ship = defineTask({ name: "ship", run });

  test("are refused by drain, with the correct call", async () => {
    await using bench = await openTestHoldfast();
    const message = "tasks: must be a list of tasks, such as [ship].";
    await assert.rejects(bench.drain(...([] as never[] as [never])), saying(message));
    await assert.rejects(bench.drain(given(ship)), saying(message));
    await assert.rejects(
      bench.drain(given({ ship })),
      saying("tasks: must be a list of tasks. For a module, pass Object.values(tasks)."),
    );
  });

  test("are refused by a worker, with the correct list", async () => {
    await using bench = await openTestHoldfast();
    const start = (tasks: unknown) => bench.holdfast.startWorker({ tasks: given(tasks) });
    await assert.rejects(
      start({ ship }),
      saying("tasks: must be a list of tasks. For a module, pass Object.values(tasks)."),
    );
    await assert.rejects(start(ship), saying("tasks: must be a list of tasks, such as [ship]."));
    await assert.rejects(
      start([]),
      saying("tasks: a worker needs at least one task, made with defineTask()."),
    );
  });
});

suite("an event of a worker that does not exist", () => {
  test("is refused, with a suggestion", async () => {
    const task = defineTask({ name: "mail", run });
    await using bench = await openTestHoldfast();
    const worker = await bench.holdfast.startWorker({ tasks: [task] });
    const on = (name: string) => () => worker.on(name as never, () => {});
    assert.throws(
      on("job:don"),
      saying("name: a worker has no event 'job:don'. Did you mean job:done?"),
    );
    assert.throws(on("colour"), saying(/^name: a worker has no event 'colour'\. There are: job:/));
    assert.throws(
      () => worker.on("job:failed", given(null)),
      saying("listener: must be a function."),
    );
  });
});

suite("something else where a task or an event belongs", () => {
  test("is refused by ctx.call", async () => {
    assert.equal(
      await toldInTask((ctx) => ctx.call("other" as unknown as AnyTask, 1)),
      "task: call needs a task made with defineTask(); a name alone is not enough.",
    );
    assert.equal(
      await toldInTask((ctx) => ctx.call(undefined as unknown as AnyTask, 1)),
      "task: call needs a task made with defineTask().",
    );
  });

  test("is refused by ctx.event", async () => {
    const message = "event: pass an event made with defineEvent().";
    assert.equal(await toldInTask((ctx) => ctx.event("packed" as never, "1")), message);
    assert.equal(await toldInTask((ctx) => ctx.event(undefined as never, "1")), message);
  });
});

suite("an invalid URL", () => {
  test("is refused with a suggestion, if there is one", async () => {
    const cases = {
      ":memory:": "url: for an in-memory database, write sqlite::memory:",
      "shop.db": "url: 'shop.db' is a file: write sqlite:shop.db",
      "./data/shop.sqlite3":
        "url: './data/shop.sqlite3' is a file: write sqlite:./data/shop.sqlite3",
      "file:shop.db": "url: 'file:shop.db' is a file: write sqlite:shop.db",
    };
    for (const [url, message] of Object.entries(cases)) {
      await assert.rejects(openHoldfast(url), saying(message));
    }
  });

  test("and is not repeated if it may contain a password", async () => {
    for (const url of ["user:secret@host/shop.db", "oracle://secret@host/shop.db", "secret"]) {
      await assert.rejects(openHoldfast(url), (error: Error) => {
        assert.doesNotMatch(error.message, /secret/);
        return saying(/Use sqlite:shop\.db, postgres:/)(error);
      });
    }
  });
});

class Order {
  readonly id = 7;
}

suite("a result that is not JSON", () => {
  const DONE = "The work was done, so the job is done, without a result.";
  const cases: [string, unknown, string][] = [
    ["an instance", new Order(), "$: is an instance of Order. Use a plain object."],
    ["one inside", { order: new Order() }, "$.order: is an instance of Order. Use a plain object."],
    [
      "a date",
      { at: new Date(0) },
      "$.at: a Date would be read back as a string. Convert it with toISOString().",
    ],
  ];
  for (const [what, value, words] of cases) {
    test(`is named as the result of its task, whose work was done: ${what}`, async () => {
      let runs = 0;
      const task = defineTask({
        name: "ret",
        retry: { maxAttempts: 5, backoff: { initial: 0 } },
        run: (): unknown => {
          runs += 1;
          return value;
        },
      });
      await using bench = await openTestHoldfast();
      await bench.holdfast.enqueue(task, null);
      const { jobs } = await bench.drain([task], { skipTime: true });
      assert.equal(
        jobs[0]?.error?.message,
        `The result of task 'ret' cannot be stored. ${words} ${DONE}`,
      );
      assert.equal(jobs[0].error.code, "RESULT_NOT_STORED");
      assert.equal(runs, 1);
    });
  }

  test("nor small enough: the message is the same", async () => {
    const task = defineTask({ name: "ret", run: () => "x".repeat(300_000) });
    await using bench = await openTestHoldfast();
    await bench.holdfast.enqueue(task, null);
    const { jobs } = await bench.drain([task]);
    assert.match(
      jobs[0]?.error?.message ?? "",
      /^The result of task 'ret' takes 300002 bytes; .* The work was done, so the job is done, without a result\.$/,
    );
  });

  test("of a step: the step and its task are named", async () => {
    const task = defineTask({
      name: "ret",
      run: (_: null, ctx) => ctx.step("quote", (): unknown => new Order()),
    });
    await using bench = await openTestHoldfast();
    await bench.holdfast.enqueue(task, null);
    const { jobs } = await bench.drain([task]);
    assert.equal(
      jobs[0]?.error?.message,
      "The result of step 'quote' cannot be stored. $: is an instance of Order. " +
        "Use a plain object. Its work was done, so the job is not retried.",
    );
  });
});

suite("a job that failed", () => {
  test("names the attempt, and the job that it called", async () => {
    const send = defineTask({
      name: "mail.send",
      retry: { maxAttempts: 1 },
      run: () => {
        throw new Error("no such address");
      },
    });
    const greet = defineTask({ name: "greet", run: (_: null, ctx) => ctx.call(send, null) });
    await using bench = await openTestHoldfast();
    const job = await bench.holdfast.enqueue(greet, null);
    await bench.drain([send, greet]);
    await assert.rejects(
      job.result(),
      saying(
        /^Job \S+ \(greet\) failed on attempt 1: The job it called, \S+ \(mail\.send\), failed: no such address$/,
      ),
    );
  });
});

suite("a job that is not there", () => {
  test("may be one whose transaction is open", async () => {
    await using bench = await openTestHoldfast();
    await assert.rejects(
      bench.holdfast.jobs.result("01a1e35b-c449-7000-a6fd-eb0000000000"),
      saying(
        /^There is no job 01a1\S+\. It was never accepted here, or its transaction is not committed yet, or it finished and was pruned\.$/,
      ),
    );
  });
});

suite("one bad input of many", () => {
  const task = defineTask({ name: "mail", input: z.object({ to: z.string() }), run });
  const free = defineTask({ name: "free", run: (input: unknown) => input });

  test("is named by its place, and nothing is accepted", async () => {
    await using bench = await openTestHoldfast();
    const { holdfast } = bench;
    const inputs = [{ to: "ada" }, { to: 7 }] as { to: string }[];
    await assert.rejects(
      holdfast.enqueueMany(task, inputs),
      saying(/inputs\[1\]\.to: Invalid input/),
    );
    await assert.rejects(
      holdfast.enqueueMany(free, [1, { at: new Date(0) }]),
      saying(/^inputs\[1\]\.at: a Date would be read back as a string/),
    );
    await assert.rejects(
      holdfast.enqueueMany(free, ["a", "b", "x".repeat(300_000)]),
      saying(/^The payload of inputs\[2\] takes 300002 bytes/),
    );
    assert.deepEqual(await holdfast.jobs.list(), []);
  });

  test("and a single input is named without an index", async () => {
    await using bench = await openTestHoldfast();
    const wrong = { to: 7 } as unknown as { to: string };
    await assert.rejects(bench.holdfast.enqueue(task, wrong), saying(/ \$\.to: Invalid input/));
  });
});

suite("a task whose own queue its worker does not serve", () => {
  test("is named in a warning, once for each task", async () => {
    const email = defineTask({ name: "email", queue: "mail", run });
    const plain = defineTask({ name: "plain", run });
    const log = keepLog();
    await using holdfast = await openHoldfast("sqlite::memory:", { logger: log.logger });
    await holdfast.startWorker({ tasks: [email, plain], queues: ["default"] });
    await holdfast.startWorker({ tasks: [email, plain] });
    const lines = log.lines.filter(({ message }) => message.startsWith("tasks:"));
    assert.deepEqual(
      lines.map(({ level, message }) => [level, message]),
      [
        [
          "warn",
          "tasks: the jobs of 'email' go to queue 'mail', which this worker does not serve. Add 'mail' to its queues, unless another worker serves it.",
        ],
      ],
    );
  });
});

suite("a queue that none of a worker's tasks uses", () => {
  const email = defineTask({ name: "email", queue: "mail", run });

  async function warningsWith(queues: string[]): Promise<[string, string][]> {
    const log = keepLog();
    await using holdfast = await openHoldfast("sqlite::memory:", { logger: log.logger });
    await holdfast.startWorker({ tasks: [email], queues });
    return log.lines
      .filter(({ message }) => message.startsWith("queues:"))
      .map(({ level, message }) => [level, message]);
  }

  test("logs a warning if it looks like a typing error", async () => {
    assert.deepEqual(await warningsWith(["mial"]), [
      ["warn", "queues: no task of this worker uses 'mial' by default. Did you mean mail?"],
    ]);
  });

  test("is mentioned when it may be on purpose", async () => {
    assert.deepEqual(await warningsWith(["mail", "urgent"]), [
      [
        "info",
        "queues: no task of this worker uses 'urgent' by default; it gets jobs that name it.",
      ],
    ]);
    assert.deepEqual(await warningsWith(["mail"]), []);
  });
});
