/** Data folders that were set up once and are copied for each server: setting one up takes seconds. */
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const SECRET_FILE = "secret";
const SECRET_BYTES = 18;

export class Templates {
  readonly folder: string;
  /** The administrator's password in every one of them. */
  readonly secret: string;
  readonly #lent: string | null;
  readonly #made = new Map<string, Promise<string>>();

  /** Uses those that another process lends, as long as they are there. */
  constructor(folder: string, lent: string | undefined) {
    this.folder = folder;
    this.#lent = lent !== undefined && existsSync(join(lent, SECRET_FILE)) ? lent : null;
    this.secret =
      this.#lent === null
        ? randomBytes(SECRET_BYTES).toString("hex")
        : readFileSync(join(this.#lent, SECRET_FILE), "utf8");
    mkdirSync(folder);
    writeFileSync(join(folder, SECRET_FILE), this.secret, { mode: 0o600 });
  }

  /** The finished folder of this name, which `make` fills unless it is filled already. */
  async get(name: string, make: (folder: string) => Promise<void>): Promise<string> {
    if (this.#lent !== null && existsSync(join(this.#lent, name))) return join(this.#lent, name);
    const made = this.#made.get(name) ?? this.#make(name, make);
    this.#made.set(name, made);
    return made;
  }

  async #make(name: string, make: (folder: string) => Promise<void>): Promise<string> {
    const unfinished = join(this.folder, `${name}.unfinished`);
    await make(unfinished);
    // Under its own name it is complete: others may copy it.
    renameSync(unfinished, join(this.folder, name));
    return join(this.folder, name);
  }
}
