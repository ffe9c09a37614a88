/**
 * What a container's health check runs: asks the process beside it whether it is alive, and exits with 0 or 1.
 *
 * It asks for /live, not for /health: whoever is unhealthy is restarted (by Swarm, for one), and a restart helps a process
 * that hangs. It does not help when the database is away; then all workers would be restarted at once, again and again.
 */

/** Less than the health check's own limit of 5 s, so that it can still say what is wrong. */
const TIMEOUT_MS = 4_000;
const PORTS = ["HEALTH_CHECK_PORT", "HOLDFAST_PORT", "PORT"];
const DEFAULT_PORT = "8080";

/** Empty counts as not set. */
function portFrom(env: NodeJS.ProcessEnv): string {
  return PORTS.map((name) => env[name] ?? "").find((port) => port !== "") ?? DEFAULT_PORT;
}

async function isAlive(): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const answer = await fetch(`http://127.0.0.1:${portFrom(process.env)}/live`, { signal });
    console.log(`/live: ${answer.status}`);
    return answer.ok;
  } catch (error) {
    const { message, cause } = error as Error;
    console.log(`/live: ${cause instanceof Error ? cause.message : message}`);
    return false;
  }
}

process.exitCode = (await isAlive()) ? 0 : 1;
