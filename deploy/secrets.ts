/**
 * Makes the secrets of deploy/compose.yaml, those that are not there yet: `node deploy/secrets.ts`.
 *
 * The folder is closed to other users of this machine; the files in it are not, because Compose mounts them as they are
 * and the programs in the containers run as users of their own.
 */
import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const BYTES = 24;
const folder = process.argv[2] ?? join(import.meta.dirname, "secrets");

/** What stands in the file, made if there is none. Without a newline at the end: programs take the whole of it. */
function secret(name: string, make: () => string): string {
  const file = join(folder, name);
  if (existsSync(file)) return readFileSync(file, "utf8");
  const text = make();
  writeFileSync(file, text, { flag: "wx" });
  chmodSync(file, 0o644); // whatever the umask is
  console.log(`Made ${file}.`);
  return text;
}

function password(): string {
  return randomBytes(BYTES).toString("hex");
}

mkdirSync(folder, { recursive: true });
chmodSync(folder, 0o700); // also one that was there before, whatever its mode
const database = secret("postgres-password", password);
const token = secret("holdfast-token", password);
secret("grafana-password", password);
secret("holdfast.env", () => {
  const url = `postgres://app:${database}@postgres:5432/holdfast`;
  return `HOLDFAST_URL=${url}\nHOLDFAST_TOKEN=${token}\n`;
});
