/**
 * Carries out a Dockerfile without a container engine: every stage is a folder, COPY copies what a builder would be sent,
 * RUN runs in a shell there. Paths of the image are read as paths in the stage's folder.
 *
 * This machine stands in for the base image. What this cannot show: the base image itself, file owners, and what an engine
 * does around a container.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, delimiter, dirname, join, posix } from "node:path";
import { buildContext } from "./context.ts";
import {
  assignments,
  execForm,
  finalStage,
  instruction,
  putIn,
  readDockerfile,
  type Instruction,
  type Stage,
} from "./dockerfile.ts";

const RUN_MS_MAX = 180_000;

/** Folders that a RUN may name by their path in the image; any other would be this machine's. */
const OWN_FOLDERS = ["/app", "/build", "/data", "/usr/local/bin"];
/** Of the base image: read on this machine. */
const BASE_FOLDERS = ["/usr/share/doc"];
const PATH_IN_IMAGE = /(?<=^|[\s"'=])\/[\w./-]+/g;

export interface Orders {
  readonly repository: string;
  /** Where the stages' folders are made. */
  readonly folder: string;
  /** As `--build-arg` gives them. */
  readonly args?: Readonly<Record<string, string>>;
  /** Fetch packages as the builder does, instead of taking the repository's. */
  readonly realNpm?: boolean;
}

export interface Image {
  /** The folder that stands for `/` of the image. */
  readonly root: string;
  readonly env: Readonly<Record<string, string>>;
  readonly workdir: string;
  /** ENTRYPOINT and CMD, with the paths of this machine. */
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  readonly healthCheck: readonly string[];
}

export function replay(orders: Orders): Image {
  const text = readFileSync(join(orders.repository, "deploy/Dockerfile"), "utf8");
  const stages = readDockerfile(text);
  const builder = new Builder(orders);
  for (const [index, stage] of stages.entries()) builder.build(stage, index);
  return builder.image(finalStage(stages));
}

class Builder {
  readonly #orders: Orders;
  readonly #context: readonly string[];
  readonly #tools: string;
  readonly #roots = new Map<string, string>();
  #root = "";
  #workdir = "/";
  #variables = new Map<string, string>();
  #env = new Map<string, string>();

  constructor(orders: Orders) {
    this.#orders = orders;
    this.#context = buildContext(orders.repository);
    this.#tools = makeTools(orders);
  }

  build(stage: Stage, index: number): void {
    this.#root = join(this.#orders.folder, stage.name ?? `stage-${index}`);
    this.#workdir = "/";
    this.#variables = new Map();
    this.#env = new Map();
    mkdirSync(join(this.#root, "usr/local/bin"), { recursive: true }); // as the base image has it
    for (const each of stage.instructions) this.#carryOut(each);
    this.#roots.set(stage.name ?? String(index), this.#root);
  }

  image(stage: Stage): Image {
    const command = (name: string): string[] =>
      execForm(instruction(stage, name).rest).map((part) => this.#mapped(part));
    const health = instruction(stage, "HEALTHCHECK").rest.replace(/^CMD\s+/, "");
    return {
      root: this.#root,
      env: Object.fromEntries(this.#env),
      workdir: this.#path(this.#workdir),
      entrypoint: command("ENTRYPOINT"),
      cmd: command("CMD"),
      healthCheck: execForm(health).map((part) => this.#mapped(part)),
    };
  }

  #carryOut(order: Instruction): void {
    switch (order.name) {
      case "ARG":
        return this.#declare(order.rest);
      case "ENV":
        for (const [name, value] of assignments(order.rest, this.#variables)) {
          this.#variables.set(name, value);
          this.#env.set(name, value);
        }
        return;
      case "WORKDIR":
        this.#workdir = posix.resolve(this.#workdir, putIn(order.rest, this.#variables));
        return void mkdirSync(this.#path(this.#workdir), { recursive: true });
      case "COPY":
        return this.#copy(order);
      case "RUN":
        return this.#run(order.rest);
      default: // what tells the engine something makes no files
    }
  }

  #declare(rest: string): void {
    const [name = ""] = rest.split("=");
    const given = this.#orders.args?.[name];
    const values = assignments(rest, this.#variables);
    for (const [variable, value] of values) this.#variables.set(variable, given ?? value);
  }

  #copy({ flags, rest }: Instruction): void {
    const words = putIn(rest, this.#variables).split(/\s+/);
    const to = words.pop() ?? "";
    const target = this.#path(posix.resolve(this.#workdir, to));
    const into = to.endsWith("/") || words.length > 1;
    const from = flags.get("from");
    for (const source of words) {
      if (from === undefined) this.#copyFromContext(source, target, into);
      else copyPath(join(this.#roots.get(from) ?? "", source), target, into);
    }
  }

  /** Only what the builder was sent is there to be copied. */
  #copyFromContext(source: string, target: string, into: boolean): void {
    const { repository } = this.#orders;
    const prefix = `${source.replace(/\/$/, "")}/`;
    const files = this.#context.filter((file) => file === source || file.startsWith(prefix));
    if (files.length === 0) throw new Error(`COPY ${source}: the builder has no such file`);
    for (const file of files) {
      const inside = file === source ? (into ? basename(file) : "") : file.slice(prefix.length);
      const place = join(target, inside);
      mkdirSync(dirname(place), { recursive: true });
      cpSync(join(repository, file), place);
    }
  }

  #run(command: string): void {
    execFileSync("sh", ["-euc", this.#mapped(command)], {
      cwd: this.#path(this.#workdir),
      timeout: RUN_MS_MAX,
      stdio: ["ignore", "ignore", "inherit"],
      env: {
        ...wayToTheRegistry(),
        npm_config_prefer_offline: "true",
        npm_config_update_notifier: "false",
        ...Object.fromEntries(this.#variables),
        PATH: [this.#tools, dirname(process.execPath), process.env["PATH"]].join(delimiter),
      },
    });
  }

  #mapped(text: string): string {
    return text.replaceAll(PATH_IN_IMAGE, (path) => {
      const isIn = (folder: string): boolean => path === folder || path.startsWith(`${folder}/`);
      if (BASE_FOLDERS.some(isIn)) return path;
      if (!OWN_FOLDERS.some(isIn))
        throw new Error(`${path}: add it to OWN_FOLDERS if it belongs to the image`);
      return this.#path(path);
    });
  }

  #path(path: string): string {
    return join(this.#root, path);
  }
}

/** What this machine has to say about where packages come from; nothing else of its environment is in a builder's. */
function wayToTheRegistry(): NodeJS.ProcessEnv {
  const said = /^(?:HOME|npm_config_.*|https?_proxy|no_proxy|NODE_EXTRA_CA_CERTS|SSL_CERT_.*)$/i;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => said.test(name)));
}

/** A folder is copied as its content, a file under its name or the one it is given. */
function copyPath(source: string, target: string, into: boolean): void {
  const place = statSync(source).isDirectory() || !into ? target : join(target, basename(source));
  mkdirSync(dirname(place), { recursive: true });
  cpSync(source, place, { recursive: true, verbatimSymlinks: true });
}

/**
 * Programs that go before the machine's: `chown`, which only root may, `apt-get`, and `npm`, unless the real one is wanted. A
 * machine without `strip` keeps the symbols.
 */
function makeTools({ folder, repository, realNpm = false }: Orders): string {
  const tools = join(folder, "tools");
  mkdirSync(tools, { recursive: true });
  const tool = (name: string, script: string): void => {
    writeFileSync(join(tools, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(tools, name), 0o755);
  };
  tool("chown", "exit 0");
  tool("apt-get", "exit 0");
  if (spawnSync("strip", ["--version"]).error !== undefined) tool("strip", 'exec cp "$4" "$3"');
  if (realNpm) return tools;
  const npm = execFileSync("sh", ["-c", "command -v npm"], { encoding: "utf8" }).trim();
  const standIn = join(import.meta.dirname, "npm-ci.ts");
  tool(
    "npm",
    `if [ "$1" = ci ]; then shift; exec "${process.execPath}" "${standIn}" "${repository}" "$@"; fi\n` +
      `exec "${npm}" "$@"`,
  );
  return tools;
}
