/** The dashboard of the demo, on its database and in its process: the kills are seen there as they happen. */
import { Alerts } from "../src/alerts/alerts.ts";
import type { Holdfast } from "../src/app/holdfast.ts";
import { type Server, startServer } from "../src/app/server.ts";
import { Doctor } from "../src/doctor/doctor.ts";
import { type Monitor, startMonitor } from "../src/monitoring/monitor.ts";

/** The demo is over in seconds, so it is observed more often than a service. */
const INTERVAL = "1s";
const REST = 2;

export interface DemoDashboard extends AsyncDisposable {
  readonly url: string;
}

export async function openDashboard(holdfast: Holdfast): Promise<DemoDashboard> {
  let monitor: Monitor | null = null;
  const server = await startServer({
    holdfast,
    port: 0,
    // Its database is thrown away, and nothing beyond this machine reaches it: it asks for no token.
    production: false,
    monitor: { latest: () => monitor?.latest() ?? null },
  });
  const alerts = new Alerts({ holdfast });
  const doctor = new Doctor(holdfast);
  monitor = startMonitor(holdfast, {
    interval: INTERVAL,
    rest: REST,
    examine: () => doctor.quick(),
    onObservation: (observation) => alerts.observe(observation),
  });
  return { url: server.url, [Symbol.asyncDispose]: () => close(server, monitor, alerts) };
}

async function close(server: Server, monitor: Monitor, alerts: Alerts): Promise<void> {
  await Promise.all([server.close(), monitor.stop()]);
  await alerts.stop();
}
