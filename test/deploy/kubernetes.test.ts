/** deploy/kubernetes: that the manifests fit together, and fit what the program does. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { BlockList } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { parseAllDocuments } from "yaml";
import {
  AFTER_SHUTDOWN_MS,
  commands,
  DEFAULT_PORT,
  METRICS_PATH,
  PROBE_PATHS,
  ROOT,
  SETTINGS,
} from "./settings.ts";

type Labels = Readonly<Record<string, string>>;

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}

interface ContainerSpec {
  readonly name: string;
  readonly image: string;
  readonly args: readonly string[];
  readonly ports?: readonly { name: string; containerPort: number }[];
  readonly envFrom: readonly { configMapRef?: { name: string }; secretRef?: { name: string } }[];
  readonly securityContext: unknown;
  readonly resources: { requests: Labels; limits: Labels };
  readonly startupProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly lifecycle?: { preStop: { exec: { command: readonly string[] } } };
}

interface PodSpec {
  readonly terminationGracePeriodSeconds?: number;
  readonly automountServiceAccountToken: boolean;
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly containers: readonly ContainerSpec[];
}

interface Manifest {
  readonly file: string;
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Labels;
  readonly stringData?: Labels;
  readonly spec?: any;
}

/** What is in each file that kustomization.yaml applies, and the versions that clusters serve. */
const KINDS: Readonly<Record<string, string>> = {
  Namespace: "v1",
  ConfigMap: "v1",
  Secret: "v1",
  Service: "v1",
  Job: "batch/v1",
  Deployment: "apps/v1",
  PodDisruptionBudget: "policy/v1",
  NetworkPolicy: "networking.k8s.io/v1",
};

const FOLDER = join(ROOT, "deploy/kubernetes");
const kustomization = readManifests("kustomization.yaml")[0] as any;
const applied: Manifest[] = kustomization.resources.flatMap(readManifests);
const secret = readManifests("secret.example.yaml")[0];
const config = only("ConfigMap", "holdfast");
const deployments = applied.filter(({ kind }) => kind === "Deployment");
const pods = [...deployments, only("Job", "holdfast-migrate")].map((manifest) => ({
  name: manifest.metadata.name,
  labels: manifest.spec.template.metadata.labels as Labels,
  annotations: manifest.spec.template.metadata.annotations as Labels | undefined,
  spec: manifest.spec.template.spec as PodSpec,
}));

describe("deploy/kubernetes", () => {
  test("every file is valid YAML, of kinds and versions that clusters serve", () => {
    for (const file of readdirSync(FOLDER)) assert.ok(readManifests(file).length > 0, file);
    for (const { file, kind, apiVersion, metadata } of applied) {
      assert.equal(apiVersion, KINDS[kind], `${file}: ${kind} ${metadata.name}`);
    }
  });

  test("all applied files exist, and none is a secret", () => {
    for (const file of kustomization.resources) assert.ok(existsSync(join(FOLDER, file)), file);
    assert.deepEqual(
      applied.filter(({ kind }) => kind === "Secret"),
      [],
    );
  });

  test("workers, the server, a migration, and a budget for each that is to stay up", () => {
    assert.deepEqual(
      pods.map(({ name }) => name),
      ["holdfast-worker", "holdfast-server", "holdfast-migrate"],
    );
    for (const { metadata } of deployments) {
      const { selector } = only("PodDisruptionBudget", metadata.name).spec;
      const pod = pods.find(({ name }) => name === metadata.name);
      assert.ok(fits(selector.matchLabels, pod?.labels ?? {}), metadata.name);
    }
  });

  test("selectors find their pods", () => {
    for (const { metadata, spec } of deployments) {
      assert.ok(fits(spec.selector.matchLabels, spec.template.metadata.labels), metadata.name);
    }
    const { selector, ports } = only("Service", "holdfast-server").spec;
    const found = pods.filter(({ labels }) => fits(selector, labels));
    assert.deepEqual(
      found.map(({ name }) => name),
      ["holdfast-server"],
    );
    assert.equal(ports[0].targetPort, found[0]?.spec.containers[0]?.ports?.[0]?.name);
    for (const policy of applied.filter(({ kind }) => kind === "NetworkPolicy")) {
      const wanted = policy.spec.podSelector.matchLabels ?? {};
      assert.ok(
        pods.some(({ labels }) => fits(wanted, labels)),
        policy.metadata.name,
      );
    }
  });

  test("containers run commands that there are, from an image whose tag is set once", () => {
    assert.equal(kustomization.images.length, 1);
    assert.match(kustomization.images[0].newTag, /\d/);
    for (const { name, spec } of pods) {
      for (const { image, args } of spec.containers) {
        assert.equal(image, kustomization.images[0].name, name);
        assert.ok(commands().has(args[0] ?? ""), `${name} runs ${args.join(" ")}`);
      }
    }
  });

  test("settings are known, and those of the example secret are not in the ConfigMap", () => {
    const secrets = Object.keys(secret?.stringData ?? {});
    for (const name of [...Object.keys(config.data ?? {}), ...secrets]) {
      assert.ok(SETTINGS.has(name), name);
    }
    assert.deepEqual(
      secrets.filter((name) => name in (config.data ?? {})),
      [],
    );
    for (const { name, spec } of pods) {
      for (const { configMapRef, secretRef } of spec.containers.flatMap((each) => each.envFrom)) {
        const named = configMapRef?.name ?? secretRef?.name;
        const meant = configMapRef === undefined ? secret : config;
        assert.equal(named, meant?.metadata.name, name);
      }
    }
  });

  test("no pod is killed before the shutdown limit is over", () => {
    const limitMs = Number(config.data?.["SHUTDOWN_TIMEOUT_MS"]);
    for (const { name, spec } of pods.filter((pod) => pod.name !== "holdfast-migrate")) {
      const command = spec.containers[0]?.lifecycle?.preStop.exec.command ?? [];
      // The image has no other program, not even sleep.
      if (command.length > 0) assert.equal(command[0], "node");
      const pauseMs = Number(
        /, ([\d_]+)\)$/.exec(command.at(-1) ?? "")?.[1]?.replace("_", "") ?? 0,
      );
      const needMs = limitMs + AFTER_SHUTDOWN_MS + pauseMs;
      assert.ok((spec.terminationGracePeriodSeconds ?? 30) * 1_000 >= needMs, name);
    }
  });

  test("probes ask for what the server answers; only /live decides about a restart", () => {
    for (const { name, spec } of pods.filter((pod) => pod.name !== "holdfast-migrate")) {
      const [{ startupProbe, livenessProbe, readinessProbe, ports = [] } = {} as ContainerSpec] =
        spec.containers;
      for (const probe of [startupProbe, livenessProbe, readinessProbe]) {
        assert.ok(PROBE_PATHS.has(probe?.httpGet.path ?? ""), name);
        assert.equal(probe?.httpGet.port, ports[0]?.name);
      }
      assert.equal(livenessProbe?.httpGet.path, "/live");
      assert.equal(startupProbe?.httpGet.path, "/live");
      assert.equal(readinessProbe?.httpGet.path, "/ready");
      assert.equal(ports[0]?.containerPort, DEFAULT_PORT);
      assert.equal(config.data?.["HOLDFAST_PORT"], String(DEFAULT_PORT));
    }
  });

  test("Prometheus knows where to scrape, and is allowed to", () => {
    for (const { name, annotations } of pods.filter((pod) => pod.name !== "holdfast-migrate")) {
      assert.equal(annotations?.["prometheus.io/path"], METRICS_PATH, name);
      assert.equal(annotations?.["prometheus.io/port"], String(DEFAULT_PORT), name);
    }
    const ports = applied
      .filter(({ kind }) => kind === "NetworkPolicy")
      .flatMap(({ spec }) => spec.ingress ?? [])
      .flatMap((rule: { ports: { port: number }[] }) => rule.ports.map(({ port }) => port));
    assert.deepEqual([...new Set(ports)], [DEFAULT_PORT]);
  });

  test("alerts and tasks reach public HTTPS, and nothing inside of the cluster", () => {
    const { podSelector, egress } = only("NetworkPolicy", "holdfast-https").spec;
    const names: string[] = podSelector.matchExpressions[0].values;
    for (const { labels, name } of pods.filter((pod) => pod.name !== "holdfast-migrate")) {
      assert.ok(names.includes(labels["app.kubernetes.io/name"] ?? ""), name);
    }
    const { cidr, except } = egress[0].to[0].ipBlock;
    assert.equal(cidr, "0.0.0.0/0");
    const blocked = new BlockList();
    for (const net of except as string[]) {
      const [address = "", bits] = net.split("/");
      blocked.addSubnet(address, Number(bits));
    }
    const inside = ["10.96.0.1", "169.254.169.254", "172.20.0.1", "192.168.1.1", "100.100.100.200"];
    for (const address of inside) assert.ok(blocked.check(address), address);
    assert.ok(!blocked.check("8.8.8.8"));
  });

  test("every container is held to the restricted standard, with a memory limit and no CPU limit", () => {
    for (const { name, spec } of pods) {
      assert.equal(spec.automountServiceAccountToken, false, name);
      assert.equal(spec.securityContext["runAsNonRoot"], true, name);
      assert.equal(spec.securityContext["runAsUser"], userOfImage(), name);
      assert.deepEqual(spec.securityContext["seccompProfile"], { type: "RuntimeDefault" }, name);
      for (const { securityContext, resources } of spec.containers) {
        assert.deepEqual(securityContext, {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
        assert.match(resources.limits["memory"] ?? "", /^\d+Mi$/, name);
        assert.equal(resources.limits["cpu"], undefined, name);
      }
    }
  });
});

function readManifests(file: string): Manifest[] {
  const documents = parseAllDocuments(readFileSync(join(FOLDER, file), "utf8"));
  return documents.map((document) => {
    assert.deepEqual(document.errors, [], file);
    return { file, ...document.toJS() };
  });
}

function only(kind: string, name: string): Manifest {
  const found = applied.filter((each) => each.kind === kind && each.metadata.name === name);
  assert.equal(found.length, 1, `${kind} ${name}`);
  return found[0] as Manifest;
}

function fits(wanted: Labels, labels: Labels): boolean {
  return Object.entries(wanted).every(([name, value]) => labels[name] === value);
}

function userOfImage(): number {
  const text = readFileSync(join(ROOT, "deploy/Dockerfile"), "utf8");
  return Number(/^USER (\d+)/m.exec(text)?.[1]);
}
