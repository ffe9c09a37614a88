/** Redis: it remembers nothing after a restart, which is what locks have to live with. */
import { HOST, pathOf, writePrivate, type Recipe } from "./recipe.ts";

const SETTINGS = { bind: HOST, "protected-mode": "yes", save: '""', appendonly: "no" };

export const redis: Recipe = {
  command(place) {
    const { folder, port, programs, secret, settings } = place;
    const all = { ...SETTINGS, dir: folder, port: String(port), requirepass: secret, ...settings };
    const lines = Object.entries(all).map(([name, value]) => `${name} ${value}\n`);
    return [pathOf(programs, "redis-server"), writePrivate(place, "redis.conf", lines.join(""))];
  },
  ready: /Redis version=(?<version>[\d.]+)[^]*Ready to accept connections/,
  url: ({ port, secret }) => `redis://:${secret}@${HOST}:${port}`,
  stopSignal: "SIGTERM",
  dropSignal: "SIGKILL",
  killSignal: "SIGKILL",
};
