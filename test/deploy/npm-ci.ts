/**
 * Stands in for `npm ci` while a Dockerfile is carried out: the same packages, from the repository's own node_modules.
 *
 * Which packages are needed when the program runs is read off the lock file, and those alone are copied, so a package
 * that the program needs and that is not among its dependencies is missed as it would be in the image. The real npm is
 * asked with LONG=1, and its folder is compared with this one's.
 */
import { cpSync, existsSync, readFileSync, symlinkSync } from "node:fs";
import { join, sep } from "node:path";

interface Listed {
  readonly version?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { optional?: boolean }>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

type Lock = Readonly<Record<string, Listed>>;

/** The folders of all packages that those of package.json need, and they in turn. */
export function neededToRun(manifest: Listed, lock: Lock): string[] {
  const found = new Set<string>();
  const visit = (name: string, from: string): void => {
    const place = placeOf(name, from, lock);
    if (place === null || found.has(place)) return;
    found.add(place);
    for (const next of namesIn(lock[place] ?? {})) visit(next, place);
  };
  for (const name of Object.keys(manifest.dependencies ?? {})) visit(name, "");
  return [...found].toSorted();
}

function namesIn(listed: Listed): string[] {
  const optional = listed.peerDependenciesMeta ?? {};
  const peers = Object.keys(listed.peerDependencies ?? {});
  return [
    ...Object.keys(listed.dependencies ?? {}),
    ...Object.keys(listed.optionalDependencies ?? {}),
    ...peers.filter((name) => optional[name]?.optional !== true),
  ];
}

/** As Node resolves it: beside the importing package, then further up. */
function placeOf(name: string, from: string, lock: Lock): string | null {
  const place = `${from === "" ? "" : `${from}/`}node_modules/${name}`;
  if (place in lock) return place;
  if (from === "") return null;
  return placeOf(name, from.slice(0, Math.max(0, from.lastIndexOf("/node_modules/"))), lock);
}

/** As npm does: what package.json asks for must be what the lock file has. */
function refuseDifference(manifest: Listed, lock: Lock): void {
  const asked = { ...manifest.dependencies, ...manifest.devDependencies };
  const listed = { ...lock[""]?.dependencies, ...lock[""]?.devDependencies };
  for (const [name, version] of Object.entries(asked)) {
    if (listed[name] === version) continue;
    throw new Error(`package-lock.json has ${name} ${listed[name]}, package.json ${version}`);
  }
}

function install(args: readonly string[], repository: string): void {
  const strange = args.filter((arg) => !["--ignore-scripts", "--omit=dev"].includes(arg));
  if (strange.length > 0) throw new Error(`npm ci ${strange.join(" ")}: the stand-in cannot`);
  const manifest = read("package.json") as Listed;
  const lock = (read("package-lock.json") as { packages: Lock }).packages;
  refuseDifference(manifest, lock);
  if (!args.includes("--omit=dev")) {
    return symlinkSync(join(repository, "node_modules"), "node_modules");
  }
  for (const place of neededToRun(manifest, lock)) copyPackage(repository, place);
}

/** Without the packages inside of it: those come by themselves, if they are needed. */
function copyPackage(repository: string, place: string): void {
  const from = join(repository, place);
  if (!existsSync(from)) return; // meant for another platform
  const inside = `${from}${sep}node_modules`;
  cpSync(from, place, { recursive: true, filter: (path) => !path.startsWith(inside) });
}

function read(file: string): unknown {
  return JSON.parse(readFileSync(file, "utf8"));
}

if (import.meta.main) {
  const [repository = "", ...args] = process.argv.slice(2);
  install(args, repository);
}
