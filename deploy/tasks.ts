/** Tasks for trying out deploy/compose.yaml; HOLDFAST_TASKS_FILE names yours. */
import { defineTask } from "holdfast";

export const greet = defineTask({
  name: "greet",
  retry: { attempts: 5, first: "1s", most: "1m" },
  run(name: string, ctx) {
    ctx.log(`greeting ${name}`);
    return `hello ${name}`;
  },
});
