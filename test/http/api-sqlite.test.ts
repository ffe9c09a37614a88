import { after } from "node:test";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { apiSuite } from "./api.ts";

const folder = tempFolder();
apiSuite("SQLite", async () => `sqlite:${folder.file(".db")}`);

after(async () => {
  folder[Symbol.dispose]();
  await assertNothingRuns();
});
