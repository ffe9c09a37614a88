/**
 * PM2: `pm2 start deploy/pm2.config.cjs`, then `pm2 save`. Secrets come from the environment of that shell, or from `.env`.
 *
 * Fork mode, not cluster mode: workers share nothing but the database, and each has a port of its own for /health.
 */
const SHUTDOWN_TIMEOUT_MS = 30_000;
/** Tasks that did not finish are aborted and handed back; then connections are closed. */
const AFTER_SHUTDOWN_MS = 15_000;

module.exports = {
  apps: [
    {
      name: "holdfast",
      script: "bin/holdfast.js",
      args: "start",
      cwd: `${__dirname}/..`, // in an application of your own: its folder, and node_modules/holdfast/bin/holdfast.js
      exec_mode: "fork",
      instances: 2,
      increment_var: "HOLDFAST_PORT", // 8080, 8081, …
      env: {
        NODE_ENV: "production",
        HOLDFAST_PORT: 8080,
        SHUTDOWN_TIMEOUT_MS,
      },
      // PM2 sends SIGINT, then SIGKILL after this.
      kill_timeout: SHUTDOWN_TIMEOUT_MS + AFTER_SHUTDOWN_MS,
      node_args: "--max-old-space-size=384",
      max_memory_restart: "512M",
      exp_backoff_restart_delay: 200,
      // It was told to end, the command line is wrong, or another worker has the slot: starting again helps none of these.
      stop_exit_codes: [0, 2, 5],
      merge_logs: true, // one JSON object a line, with the worker in it
    },
  ],
};
