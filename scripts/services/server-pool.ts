/** The servers of one owner process, and the temporary folder with all their files. */
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serverAccount } from "./account.ts";
import { mariadb } from "./mariadb.ts";
import { KNOWN, type ServerName } from "./names.ts";
import { pgbouncer } from "./pgbouncer.ts";
import { postgres } from "./postgres.ts";
import { findPrograms, type Programs } from "./programs.ts";
import { HOST, step, type Recipe } from "./recipe.ts";
import { redis } from "./redis.ts";
import { Server } from "./server.ts";
import { Templates } from "./templates.ts";

const RECIPES: Readonly<Record<ServerName, Recipe>> = {
  postgres,
  mysql: mariadb,
  redis,
  pgbouncer,
};

/**
 * Below the ports that systems give to outgoing connections: a client that calls a stopped server
 * must not be given the server's own port, and talk to itself.
 */
const PORTS = { first: 15_000, end: 30_000 };
const PORT_ATTEMPTS_MAX = 100;

export interface StartOptions {
  /** Settings of the server by its own names, in place of the usual ones. */
  readonly settings?: Readonly<Record<string, string>>;
  /** For PgBouncer: the URL of the PostgreSQL behind it. For a PostgreSQL that is a standby: of its primary. */
  readonly behind?: string;
}

export interface Started {
  readonly server: Server;
  readonly port: number;
  readonly folder: string;
}

export class ServerPool {
  readonly #folder = mkdtempSync(join(tmpdir(), "holdfast-servers-"));
  readonly #account = serverAccount();
  readonly #templates: Templates;
  readonly #servers = new Set<Server>();
  readonly #starting = new Set<Promise<Started>>();
  readonly #ports = new Set<number>();
  #folders = 0;
  #ending = false;

  constructor(lentTemplates: string | undefined) {
    // The account of the servers passes through; what is in here has its own locks.
    chmodSync(this.#folder, 0o711);
    this.#templates = new Templates(join(this.#folder, "templates"), lentTemplates);
  }

  get templates(): string {
    return this.#templates.folder;
  }

  async start(
    name: ServerName,
    options: StartOptions,
    onDeath: (how: string) => void,
  ): Promise<Started> {
    if (this.#ending) throw new Error("Everything is being ended.");
    const starting = this.#start(name, options, onDeath);
    this.#starting.add(starting);
    return starting.finally(() => this.#starting.delete(starting));
  }

  async discard(server: Server): Promise<void> {
    await server.discard();
    this.#servers.delete(server);
  }

  /** Ends everything that is there or about to be. */
  async end(): Promise<void> {
    this.#ending = true;
    await Promise.allSettled(this.#starting);
    await Promise.allSettled([...this.#servers].map((server) => server.discard()));
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 3 });
  }

  async #start(
    name: ServerName,
    { settings = {}, behind }: StartOptions,
    onDeath: (how: string) => void,
  ): Promise<Started> {
    const recipe = RECIPES[name];
    const { secret } = this.#templates;
    const programs = programsOf(name);
    this.#folders += 1;
    const folder = this.#newFolder(join(this.#folder, `${name}-${this.#folders}`));
    const account = this.#account;
    const place = { folder, programs, secret, settings, behind: behind ?? null, account };
    const { makeData, copyData, template = name } = recipe;
    if (behind !== undefined && copyData !== undefined) await copyData(place, behind);
    else if (makeData !== undefined) await this.#copyData(template, makeData, place);
    const port = await this.#freePort();
    const server = new Server(recipe, { ...place, port }, onDeath);
    this.#servers.add(server);
    await server.start();
    return { server, port, folder };
  }

  async #copyData(
    name: string,
    makeData: NonNullable<Recipe["makeData"]>,
    place: Parameters<typeof makeData>[0],
  ): Promise<void> {
    const template = await this.#templates.get(name, async (folder) =>
      makeData({ ...place, folder: this.#newFolder(folder), settings: {} }),
    );
    await step(place, "cp", ["-Rp", join(template, "data"), "data"]);
  }

  /** A folder for the account of the servers. */
  #newFolder(path: string): string {
    mkdirSync(path, { mode: 0o700 });
    if (this.#account !== null) chownSync(path, this.#account.uid, this.#account.gid);
    return path;
  }

  async #freePort(): Promise<number> {
    for (let attempt = 0; attempt < PORT_ATTEMPTS_MAX; attempt += 1) {
      const port = randomInt(PORTS.first, PORTS.end);
      if (this.#ports.has(port)) continue;
      this.#ports.add(port);
      if (await isFree(port)) return port;
    }
    throw new Error(`No free port among ${PORT_ATTEMPTS_MAX} that were tried.`);
  }
}

function programsOf(name: ServerName): Programs {
  const found = findPrograms(name);
  if ("programs" in found) return found.programs;
  throw new Error(`${KNOWN[name].label} cannot be started: ${found.absent} is not installed.`);
}

async function isFree(port: number): Promise<boolean> {
  const listener = createServer().listen(port, HOST);
  try {
    await once(listener, "listening");
  } catch {
    return false;
  }
  listener.close();
  await once(listener, "close");
  return true;
}
