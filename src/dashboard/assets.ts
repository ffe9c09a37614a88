/**
 * The files of the dashboard: the HTML page, its script, its style sheet and its icon.
 *
 * They are read once into memory and found by their whole name, so no path of a request reaches the file system. In the
 * package they are files beside the modules; in a checkout they are built when they are first asked for.
 */
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { codeFile, isCheckout, packageFile } from "../core/version.ts";
import type { PageAnswer, PageRequest, Pages } from "../http-kernel/app.ts";

const SHELL = "index.html";

/** In the page, it stands for the path that the dashboard is served below. */
const BASE = "__BASE__";

/** Everything is from this origin, nothing is inline, and no page may frame this one. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const TYPES: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
  png: "image/png",
  woff2: "font/woff2",
};

const IMMUTABLE = "public, max-age=31536000, immutable";

/** Paths that are never pages. */
const NOT_PAGES = /^\/(?:api|assets|health|live|mcp|ready|metrics)(?:\/|$)/;

interface Asset {
  readonly type: string;
  readonly tag: string;
  readonly plain: Uint8Array;
  readonly packed: { readonly br: Uint8Array; readonly gzip: Uint8Array };
}

interface Loaded {
  readonly shell: string;
  /** By name, with the hash of the content in it and without. */
  readonly assets: ReadonlyMap<string, Asset & { readonly isHashed: boolean }>;
}

export type Files = ReadonlyMap<string, Uint8Array>;

export class Assets implements Pages {
  readonly #read: () => Promise<Files>;
  #loading: Promise<Loaded> | null = null;
  readonly #shells = new Map<string, Asset>();

  constructor(read: () => Promise<Files> = readFiles) {
    this.#read = read;
  }

  async answer(asked: PageRequest): Promise<PageAnswer | null> {
    const { path } = asked;
    const name = /^\/assets\/([\w.-]{1,100})$/.exec(path)?.[1];
    const isPage = !NOT_PAGES.test(path) && isHtmlWanted(path, asked.header("accept"));
    if (name === undefined && !isPage) return null;
    const { assets } = await this.#loaded();
    if (name === undefined) return this.#page(asked);
    const asset = assets.get(name);
    if (asset === undefined) return null;
    const cached = asset.isHashed ? IMMUTABLE : "no-cache";
    return sent(asset, asked, { "Cache-Control": cached });
  }

  /** A failed attempt is tried again with the next request. */
  #loaded(): Promise<Loaded> {
    this.#loading ??= load(this.#read).catch((error: unknown) => {
      this.#loading = null;
      throw error;
    });
    return this.#loading;
  }

  async #page(asked: PageRequest): Promise<PageAnswer> {
    const { shell } = await this.#loaded();
    const { basePath } = asked;
    const page = this.#shells.get(basePath) ?? (await packed("html", withBase(shell, basePath)));
    this.#shells.set(basePath, page); // one base path for each handler
    return sent(page, asked, { "Content-Security-Policy": POLICY });
  }
}

function withBase(shell: string, basePath: string): Uint8Array {
  return Buffer.from(shell.replaceAll(BASE, escaped(`${basePath}/`)));
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);
}

/** A browser that opens a page asks for HTML. The first page is also for those that accept anything, such as curl. */
function isHtmlWanted(path: string, accept = ""): boolean {
  return accept.includes("text/html") || (path === "/" && !accept.includes("json"));
}

function sent(
  { type, tag, plain, packed: { br, gzip: zipped } }: Asset,
  asked: PageRequest,
  more: Record<string, string>,
): PageAnswer {
  const headers = { ...more, ETag: tag, Vary: "Accept-Encoding, Accept" };
  if (asked.header("if-none-match") === tag) return { status: 304, headers, bytes: null };
  const accepted = new Set(
    (asked.header("accept-encoding") ?? "").split(",").map((one) => one.trim()),
  );
  const [encoding, bytes] = accepted.has("br")
    ? (["br", br] as const)
    : accepted.has("gzip")
      ? (["gzip", zipped] as const)
      : ([null, plain] as const);
  return {
    status: 200,
    headers: {
      ...headers,
      "Content-Type": type,
      "Content-Length": String(bytes.length),
      ...(encoding === null ? {} : { "Content-Encoding": encoding }),
    },
    bytes,
  };
}

async function load(read: () => Promise<Files>): Promise<Loaded> {
  const files = await read();
  const assets = new Map<string, Asset & { isHashed: boolean }>();
  let shell = Buffer.from(files.get(SHELL) ?? new Uint8Array()).toString();
  for (const [name, bytes] of files) {
    if (name === SHELL) continue;
    const asset = await packed(name.split(".").at(-1) ?? "", bytes);
    const hashed = withHash(name, asset.tag);
    assets.set(name, { ...asset, isHashed: false });
    assets.set(hashed, { ...asset, isHashed: true });
    shell = shell.replaceAll(`assets/${name}`, `assets/${hashed}`);
  }
  return { shell, assets };
}

function withHash(name: string, tag: string): string {
  const dot = name.lastIndexOf(".");
  return `${name.slice(0, dot)}-${tag.replaceAll('"', "")}${name.slice(dot)}`;
}

const HASH_LENGTH = 16;

/** The best takes ten times as long for a twentieth less, and the first visitor waits for it. */
const BROTLI_QUALITY = 9;

async function packed(extension: string, bytes: Uint8Array): Promise<Asset> {
  const hash = createHash("sha256").update(bytes).digest("hex").slice(0, HASH_LENGTH);
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  return {
    type: TYPES[extension] ?? "application/octet-stream",
    tag: `"${hash}"`,
    plain: bytes,
    packed: {
      br: await promisify(brotliCompress)(bytes, { params }),
      gzip: await promisify(gzip)(bytes, { level: constants.Z_BEST_COMPRESSION }),
    },
  };
}

/** The built files, or in a checkout a fresh build of the sources. */
async function readFiles(): Promise<Files> {
  if (isCheckout) {
    const builder = packageFile("scripts/dashboard.ts").href;
    const { bundleDashboard } = (await import(builder)) as {
      bundleDashboard: () => Promise<Files>;
    };
    return bundleDashboard();
  }
  const folder = codeFile("dashboard");
  const names = await readdir(folder);
  const read = names.map(async (name) => [name, await readFile(join(folder, name))] as const);
  return new Map(await Promise.all(read));
}
