/** deploy/compose.yaml: what Compose and Swarm both take, and what the program can do. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { parse } from "yaml";
import { isBearer, isGuessable } from "../../src/config/kind.ts";
import { tempFolder } from "../support/folder.ts";
import {
  AFTER_SHUTDOWN_MS,
  commands,
  DEFAULT_PORT,
  METRICS_PATH,
  ROOT,
  SETTINGS,
  spanMs,
} from "./settings.ts";

/** What `docker stack deploy` knows of a service and does not ignore or refuse; security_opt it ignores. */
const SWARM_KEYS = new Set(
  `image command entrypoint environment env_file configs secrets deploy healthcheck logging networks
   volumes read_only cap_drop cap_add stop_signal stop_grace_period init user working_dir
   security_opt`.split(/\s+/),
);

interface Service {
  readonly image?: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly stop_grace_period?: string;
  readonly cap_drop?: readonly string[];
  readonly cap_add?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly secrets?: readonly (string | { source: string; target: string })[];
  readonly configs?: readonly { source: string; target: string }[];
  readonly volumes?: readonly (string | { type: string })[];
  readonly healthcheck?: { disable?: boolean };
  readonly ports?: readonly string[];
  readonly build?: { context: string; dockerfile: string; args: Record<string, string> };
  readonly depends_on?: Readonly<Record<string, { condition: string }>>;
  readonly deploy?: {
    readonly replicas?: number;
    readonly mode?: string;
    readonly endpoint_mode?: string;
    readonly update_config?: { order: string; failure_action?: string };
    readonly resources: { limits: { memory: string } };
  };
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly configs: Readonly<Record<string, { file: string }>>;
  readonly secrets: Readonly<Record<string, { file: string }>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

const base: Compose = read("compose.yaml");
const local: Compose = read("compose.local.yaml");
const services = Object.entries(base.services);
const ours = services.filter(([, { image }]) => image?.includes("HOLDFAST_IMAGE"));
const folder = tempFolder();

describe("deploy/compose.yaml", () => {
  test("has the parts of a whole", () => {
    assert.deepEqual(Object.keys(base.services), [
      "postgres",
      "migrate",
      "worker",
      "server",
      "prometheus",
      "grafana",
    ]);
    assert.equal(base.services["worker"]?.deploy?.replicas, 3);
  });

  test("Swarm accepts it: no other key that it ignores or refuses, no port published by accident", () => {
    for (const [name, service] of services) {
      const strange = Object.keys(service).filter((key) => !SWARM_KEYS.has(key));
      assert.deepEqual(strange, [], name);
    }
    const tops = Object.keys(base).filter((key) => !key.startsWith("x-"));
    assert.deepEqual(tops, ["services", "networks", "volumes", "configs", "secrets"]);
  });

  test("every image is pinned, and every service has a memory limit", () => {
    for (const [name, { image = "", deploy }] of services) {
      assert.match(image, /:(?!latest)[\w.-]*\d[\w.-]*\}?$/, name);
      assert.match(deploy?.resources.limits.memory ?? "", /^\d+[MG]$/, name);
    }
  });

  test("no service keeps a capability that it does not need", () => {
    for (const [name, { cap_drop: dropped, cap_add: added = [] }] of services) {
      assert.deepEqual(dropped, ["ALL"], name);
      const needed = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"];
      assert.deepEqual(added, name === "postgres" ? needed : [], name);
    }
  });

  test("no service gains privileges, also without compose.local.yaml", () => {
    for (const [name, { security_opt: options }] of services) {
      assert.deepEqual(options, ["no-new-privileges:true"], name);
    }
  });

  test("our image's default tag is this version", () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    for (const [, { image }] of ours)
      assert.equal(image, `\${HOLDFAST_IMAGE:-holdfast:${version}}`);
  });

  test("our services run commands and have settings that there are", () => {
    assert.equal(ours.length, 3);
    for (const [name, { command = [], environment = {} }] of ours) {
      assert.ok(commands().has(command[0] ?? ""), `${name} runs ${command.join(" ")}`);
      const strange = Object.keys(environment).filter((key) => !SETTINGS.has(key));
      assert.deepEqual(strange, [], name);
    }
  });

  test("no process is killed before the shutdown limit is over", () => {
    for (const [name, { environment = {}, stop_grace_period: grace = "10s" }] of ours) {
      const limitMs = Number(environment["SHUTDOWN_TIMEOUT_MS"]);
      assert.ok(spanMs(grace) >= limitMs + AFTER_SHUTDOWN_MS, `${name}: ${grace}`);
    }
  });

  test("workers are replaced new one first, the database never", () => {
    assert.equal(base.services["worker"]?.deploy?.update_config?.order, "start-first");
    assert.equal(base.services["worker"]?.deploy?.update_config?.failure_action, "rollback");
    for (const [name, { volumes = [], deploy }] of services) {
      const keeps = volumes.some((volume) => typeof volume === "string");
      if (keeps) assert.equal(deploy?.update_config?.order, "stop-first", name);
    }
    const { deploy, healthcheck } = base.services["migrate"] ?? {};
    assert.deepEqual([deploy?.mode, healthcheck?.disable], ["replicated-job", true]);
  });

  test("every config and secret that is used is declared, and is a file", () => {
    for (const [name, { configs = [], secrets = [], volumes = [] }] of services) {
      for (const { source } of configs) assert.ok(source in base.configs, `${name}: ${source}`);
      for (const secret of secrets) {
        const source = typeof secret === "string" ? secret : secret.source;
        assert.ok(source in base.secrets, `${name}: ${source}`);
      }
      for (const volume of volumes.filter((each) => typeof each === "string")) {
        assert.ok((volume.split(":")[0] ?? "") in base.volumes, `${name}: ${volume}`);
      }
    }
    for (const { file } of Object.values(base.configs)) {
      const path = file.replace(/^\$\{\w+:-(.*)\}$/, "$1");
      assert.ok(existsSync(join(ROOT, "deploy", path)), file);
    }
  });

  test("the tasks are where the worker looks for them", () => {
    const { configs = [], environment = {} } = base.services["worker"] ?? {};
    assert.equal(configs[0]?.target, environment["HOLDFAST_TASKS"]);
  });
});

describe("deploy/compose.local.yaml", () => {
  test("adds to services that there are, and publishes on loopback alone", () => {
    for (const [name, { ports = [], depends_on: needs = {} }] of Object.entries(local.services)) {
      assert.ok(name in base.services, name);
      for (const port of ports) assert.match(port, /^127\.0\.0\.1:/, `${name}: ${port}`);
      for (const need of Object.keys(needs)) assert.ok(need in base.services, `${name}: ${need}`);
    }
    assert.match(local.services["server"]?.ports?.[0] ?? "", new RegExp(`:${DEFAULT_PORT}$`));
  });

  test("builds the Dockerfile from the root of the repository, with arguments that it has", () => {
    const { context = "", dockerfile = "", args = {} } = local.services["migrate"]?.build ?? {};
    const root = join(ROOT, "deploy", context);
    const text = readFileSync(join(root, dockerfile), "utf8");
    for (const name of Object.keys(args)) assert.match(text, new RegExp(`^ARG ${name}\\b`, "m"));
  });
});

describe("deploy/secrets.ts", () => {
  const place = folder.file("");
  const make = () =>
    spawnSync(process.execPath, [join(ROOT, "deploy/secrets.ts"), place], { encoding: "utf8" });

  test("makes every secret of compose.yaml, for the database that is there", () => {
    const { status, stderr } = make();
    assert.equal(status, 0, stderr);
    for (const { file } of Object.values(base.secrets)) {
      const { size, mode } = statSync(join(place, file.replace("./secrets/", "")));
      // The programs in the containers are other users than the one that made it.
      assert.ok(size > 0 && (mode & 0o777) === 0o644, file);
    }
    assert.equal(statSync(place).mode & 0o777, 0o700, "no other user of this machine gets there");
    const env = readFileSync(join(place, "holdfast.env"), "utf8");
    const url = new URL(/^HOLDFAST_URL=(.*)$/m.exec(env)?.[1] ?? "");
    assert.ok(url.hostname in base.services);
    assert.equal(url.password, readFileSync(join(place, "postgres-password"), "utf8"));
    assert.equal(url.username, base.services["postgres"]?.environment?.["POSTGRES_USER"]);
    assert.equal(url.pathname, `/${base.services["postgres"]?.environment?.["POSTGRES_DB"]}`);
    const names = [...env.matchAll(/^(\w+)=/gm)].map(([, name = ""]) => name);
    assert.ok(names.every((name) => SETTINGS.has(name)));
  });

  test("closes a folder that was open before", () => {
    chmodSync(place, 0o755);
    assert.equal(make().status, 0);
    assert.equal(statSync(place).mode & 0o777, 0o700);
  });

  test("makes a token that the server takes", () => {
    const token = readFileSync(join(place, "holdfast-token"), "utf8");
    assert.ok(isBearer(token) && !isGuessable(token));
  });

  test("leaves existing secrets alone, and prints none", () => {
    const before = readFileSync(join(place, "holdfast.env"), "utf8");
    const { stdout } = make();
    assert.equal(readFileSync(join(place, "holdfast.env"), "utf8"), before);
    assert.equal(stdout, "");
  });
});

describe("deploy/prometheus and deploy/grafana", () => {
  interface Scrape {
    readonly metrics_path: string;
    readonly dns_sd_configs: readonly { names: string[]; port: number }[];
  }
  const prometheus: { scrape_configs: Scrape[]; rule_files: string[] } = read(
    "prometheus/prometheus.yml",
  );

  test("every service with metrics is scraped at its own port, each container separately", () => {
    const asked = prometheus.scrape_configs.flatMap(
      ({ metrics_path: path, dns_sd_configs: all }) => {
        assert.equal(path, METRICS_PATH);
        return all.flatMap(({ names, port }) => {
          assert.equal(port, DEFAULT_PORT);
          return names;
        });
      },
    );
    assert.deepEqual(asked, ["worker", "server"]);
    assert.equal(base.services["worker"]?.deploy?.endpoint_mode, "dnsrr");
  });

  test("the files they name are mounted where they look for them", () => {
    const targets = new Map(
      services.flatMap(([, { configs = [] }]) => configs.map((one) => [one.source, one.target])),
    );
    const [rules = ""] = prometheus.rule_files;
    assert.equal(targets.get("prometheus_rules"), join("/etc/prometheus", rules));
    const { providers }: { providers: { options: { path: string } }[] } = read(
      "grafana/provisioning/dashboards/holdfast.yaml",
    );
    assert.ok(targets.get("grafana_dashboard")?.startsWith(`${providers[0]?.options.path}/`));
    const { datasources }: { datasources: { url: string }[] } = read(
      "grafana/provisioning/datasources/holdfast.yaml",
    );
    assert.ok(new URL(datasources[0]?.url ?? "").hostname in base.services);
  });
});

function read(file: string): any {
  return parse(readFileSync(join(ROOT, "deploy", file), "utf8"), { merge: true });
}
