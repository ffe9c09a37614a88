/** An application that mounts the dashboard in every framework, in a process of its own: a request may end it. */
import { dashboardHandler } from "../../src/app/dashboard.ts";
import { openHoldfast } from "../../src/app/holdfast.ts";
import { BASE, frameworks, principal } from "./mounts.ts";

const holdfast = await openHoldfast("sqlite::memory:");
const ports: Record<string, number> = {};
for (const [name, serve] of Object.entries(frameworks)) {
  const { url } = await serve(dashboardHandler({ holdfast, basePath: BASE, principal }));
  ports[name] = Number(new URL(url).port);
}
process.on("disconnect", () => process.exit(0));
process.send?.(ports);
