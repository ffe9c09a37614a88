/** Tasks for trying out deploy/compose.yaml; HOLDFAST_TASKS_FILE names yours. */
import { defineTask } from "holdfast";

export const greet = defineTask({
  name: "greet",
  retry: { maxAttempts: 5, backoff: { initial: "1s", max: "1m" } },
  run(name: string, ctx) {
    ctx.log(`greeting ${name}`);
    return `hello ${name}`;
  },
});
