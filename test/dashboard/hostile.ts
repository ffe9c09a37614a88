/** Texts that would be scripts if anything on the page were HTML, in every field that can be shown. */
import { GiveUpError, type Holdfast } from "../../src/index.ts";
import { defineTask } from "../../src/core/task.ts";

/** Sets a mark that the test looks for. */
const SCRIPT = "globalThis.pwned=1";

export const HOSTILE: readonly string[] = [
  `<script>${SCRIPT}</script>`,
  `"><img src=x onerror=${SCRIPT}>`,
  `'"><svg/onload=${SCRIPT}>`,
  `javascript:${SCRIPT}`,
  `<iframe srcdoc="<script>${SCRIPT}</script>">`,
  `{{constructor.constructor('${SCRIPT}')()}}`,
  `</title><script>${SCRIPT}</script>`,
  `\u202Egnp.exe <a href="javascript:${SCRIPT}">x</a>`,
];

/** Jobs whose queue, task, key, tags, payload, error and log lines are hostile; each ended. */
export async function hostileShop(holdfast: Holdfast): Promise<void> {
  const ids: string[] = [];
  const names = HOSTILE;
  const tasks = names.map((name, index) =>
    defineTask({
      name: taskName(name, index),
      queue: taskName(name, index),
      retry: { maxAttempts: 1 },
      run(_: unknown, ctx): never {
        ctx.log(name, { [name]: name });
        throw new GiveUpError(name, { cause: new TypeError(name) });
      },
    }),
  );
  const worker = await holdfast.startWorker({
    tasks,
    name: "hostile-<b>worker</b>",
    version: "<i>build</i>",
  });
  for (const [index, task] of tasks.entries()) {
    const text = names[index] ?? "";
    const job = await holdfast.enqueue(
      task,
      { [text]: [text, { deep: text }] },
      { key: named(text), tags: ["hostile", named(text)] },
    );
    ids.push(job.id);
  }
  for (const id of ids) {
    while ((await holdfast.jobs.get(id))?.status !== "failed")
      await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const [first = ""] = names;
  await holdfast.queues.pause(taskName(first, 0), { actor: first, reason: first });
  await holdfast.locks.acquire(`${first}:1`, { ttl: "1m", trace: first });
  await worker.stop();
}

/** As hostile as a name may be: what turns the direction of a text is refused anyway. */
function named(text: string): string {
  return text.replace("\u202E", "").slice(0, 60).trim();
}

function taskName(text: string, index: number): string {
  return `${named(text)}${index}`;
}
