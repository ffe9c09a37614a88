/** Tasks for the command line: `holdfast work --tasks examples/cli-tasks.ts`. */
import { defineTask } from "holdfast";
import { z } from "zod";

export const send = defineTask({
  name: "mail.send",
  input: z.object({ to: z.email(), subject: z.string().optional() }),
  retry: { maxAttempts: 5, backoff: { initial: "1s", max: "1m" } },
  run(mail) {
    return { sentTo: mail.to };
  },
});

export const add = defineTask({
  name: "numbers.add",
  input: z.array(z.number()),
  run(numbers) {
    return numbers.reduce((sum, number) => sum + number, 0);
  },
});
