/** As a user of the package writes it. */
import { defineConfig } from "holdfast";

// oxlint-disable-next-line import/no-default-export -- where the command looks for it
export default defineConfig({ concurrency: 7 });
