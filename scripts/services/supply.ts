/**
 * Gets the servers that tests ask for: those that the environment names, and for the rest the programs of
 * this machine, installed first if need be, as servers that end with this process.
 */
import { randomBytes } from "node:crypto";
import { named, needPrograms, type Demand, type Missing } from "./choice.ts";
import { ServerOwner, type GuardedServer } from "./owner.ts";
import { install, thisMachine, whyNoInstall } from "./install.ts";
import {
  KNOWN,
  OWNED_VARIABLE,
  SCRATCH_VARIABLE,
  SERVERS,
  TEMPLATES_VARIABLE,
  TOOLS,
  type Need,
  type ServerName,
  type ToolName,
} from "./names.ts";
import { findPrograms } from "./programs.ts";
import { whyNoAnswer } from "./reach.ts";

const RUN_BYTES = 4;

/**
 * No test kills the servers that all tests share, and they are gone when the tests are over: they need not wait for the
 * disk. Tests that kill a server start one of their own, durable as shipped.
 */
const UNSYNCED: Partial<Record<ServerName, Readonly<Record<string, string>>>> = {
  postgres: { fsync: "off" },
  mysql: { "innodb-flush-log-at-trx-commit": "0" },
};

export interface Surroundings {
  readonly env: NodeJS.ProcessEnv;
  /** Whether the servers wait for the disk, as they are shipped. Default: they do. */
  readonly durable?: boolean;
  readonly say: (line: string) => void;
}

export class Supply implements AsyncDisposable {
  readonly #surroundings: Surroundings;
  readonly #owner = new ServerOwner();
  readonly #scratch = `holdfast_test_${randomBytes(RUN_BYTES).toString("hex")}_`;
  /** URLs, and paths of tools. */
  readonly #found = new Map<Need, string>();
  readonly #started = new Map<ServerName, GuardedServer>();
  readonly #missing = new Map<Need, string>();

  private constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings;
  }

  static async for(demand: Demand, surroundings: Surroundings): Promise<Supply> {
    const supply = new Supply(surroundings);
    await supply.#bringPrograms(needPrograms(demand, surroundings.env));
    const startedAt = performance.now();
    const direct = demand.shared.filter((need) => need !== "pgbouncer");
    await Promise.all(direct.map(async (need) => supply.#get(need)));
    // It stands before a PostgreSQL, which is known by now.
    if (demand.shared.includes("pgbouncer")) await supply.#get("pgbouncer");
    supply.#tell(performance.now() - startedAt);
    return supply;
  }

  /** What cannot be had, and why. */
  get missing(): Missing[] {
    return [...this.#missing].map(([need, reason]) => ({ need, reason }));
  }

  /** What the tests are told, by environment variables. */
  get env(): Record<string, string> {
    const told: Record<string, string> = {};
    for (const [need, reason] of this.#missing) {
      told[KNOWN[need].missingVariable] = reason;
      told[KNOWN[need].variable] = ""; // The name of one that does not answer shall not be believed.
    }
    for (const [need, where] of this.#found) told[KNOWN[need].variable] = where;
    told[OWNED_VARIABLE] = SERVERS.filter((name) => this.#isOwned(name)).join(",");
    told[SCRATCH_VARIABLE] = this.#scratch;
    const [first] = this.#started.values();
    if (first !== undefined) told[TEMPLATES_VARIABLE] = first.templates;
    return told;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owner.end();
  }

  /** Ours are those that we started, and those that `npm run services` did. */
  #isOwned(name: ServerName): boolean {
    const before = this.#surroundings.env[OWNED_VARIABLE]?.split(",") ?? [];
    return this.#started.has(name) || (this.#found.has(name) && before.includes(name));
  }

  async #bringPrograms(needs: readonly Need[]): Promise<void> {
    const absent = needs.filter((need) => "absent" in findPrograms(need));
    if (absent.length === 0) return;
    const packages = [...new Set(absent.flatMap((need) => KNOWN[need].packages))];
    const reason = await this.#install(packages);
    for (const need of absent) {
      const found = findPrograms(need);
      if ("absent" in found) this.#missing.set(need, `${found.absent} is not installed: ${reason}`);
    }
  }

  async #install(packages: readonly string[]): Promise<string> {
    const hindrance = whyNoInstall(thisMachine(), packages);
    if (hindrance !== null) return hindrance;
    this.#surroundings.say(`servers: apt-get installs ${packages.join(", ")}`);
    return (await install(packages)) ?? `${packages.join(", ")} did not bring it`;
  }

  async #get(need: Need): Promise<void> {
    const given = named(this.#surroundings.env, need);
    try {
      if (given === null && this.#missing.has(need)) return;
      if (isTool(need)) this.#found.set(need, given ?? toolPath(need));
      else if (given !== null) await this.#use(need, given);
      else await this.#start(need);
    } catch (error) {
      this.#missing.set(need, (error as Error).message);
    }
  }

  /** Takes one that others may use too. Whatever tests leave on it is removed at the end. */
  async #use(name: ServerName, url: string): Promise<void> {
    const hindrance = await whyNoAnswer(name, url);
    if (hindrance !== null) throw new Error(hindrance);
    this.#found.set(name, url);
    if (name !== "postgres" && name !== "mysql") return;
    await this.#owner.sweep({ sql: name, url, prefix: this.#scratch });
  }

  async #start(name: ServerName): Promise<void> {
    const behind = this.#found.get("postgres");
    if (name === "pgbouncer" && behind === undefined) throw new Error("There is no PostgreSQL.");
    const options = name === "pgbouncer" && behind !== undefined ? { behind } : {};
    const { durable = true } = this.#surroundings;
    const settings = durable ? {} : (UNSYNCED[name] ?? {});
    const server = await this.#owner.start(name, { settings, ...options });
    this.#started.set(name, server);
    this.#found.set(name, server.url);
  }

  #tell(ms: number): void {
    const { say } = this.#surroundings;
    const started = SERVERS.flatMap((name) => {
      const server = this.#started.get(name);
      return server === undefined ? [] : [`${KNOWN[name].label} ${server.version}`];
    });
    if (started.length === 0) return;
    say(`servers: ${started.join(", ")} started in ${(ms / 1_000).toFixed(1)} s`);
  }
}

function isTool(need: Need): need is ToolName {
  return TOOLS.some((tool) => tool === need);
}

function toolPath(need: ToolName): string {
  const found = findPrograms(need);
  if ("absent" in found) throw new Error(`${found.absent} is not installed`);
  return found.programs[need] ?? "";
}
