/** One of the processes of bulk-carriers.test.ts: `node bulk-carrier.ts <url> <action>`. It carries the action out until it ends. */
import { openStore } from "../../src/app/store.ts";
import { BulkCarrier } from "../../src/bulk/carrier.ts";
import { makeIds } from "../../src/core/id.ts";
import { silentLogger } from "../../src/core/log.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import { listen } from "./store-crew.ts";

const [url = "", id = ""] = process.argv.slice(2);
process.once("disconnect", () => process.exit(1)); // the test is gone
const store = await openStore(url);
const carrier = new BulkCarrier({
  store,
  newId: makeIds(systemRuntime),
  logger: silentLogger,
  name: `process ${process.pid}`,
});
process.send?.("ready");
while ((await carrier.page(id)).status === "running") await listen();
await store.close();
process.removeAllListeners("disconnect");
process.disconnect?.();
