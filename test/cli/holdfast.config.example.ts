/** As somebody would write it who has the package. */
import { defineConfig } from "holdfast";

// oxlint-disable-next-line import/no-default-export -- where the command looks for it
export default defineConfig({ concurrency: 7 });
