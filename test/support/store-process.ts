/**
 * A child process that has stores open and runs verbs on them for its parent.
 *
 * The other end is `remote-store.ts`. The parent's test clock comes with every call.
 */
import { openStore, type Store } from "../../src/app/store.ts";
import type { Hint, StoreAddress } from "../../src/database/engine.ts";
import { testRuntime } from "./runtime.ts";

/** About the store of this number. */
export type Request = { readonly store: number } & (
  | { readonly kind: "open"; readonly url: string; readonly now: number }
  | { readonly kind: "close" }
  | { readonly kind: "watch" }
  | { readonly kind: "unwatch" }
  | VerbRequest
);

interface VerbRequest {
  readonly kind: "verb";
  /** Such as `migrate` or `jobs.claim`. */
  readonly verb: string;
  readonly args: readonly unknown[];
  readonly now: number;
}

export type Reply =
  | { readonly kind: "value"; readonly call: number; readonly value: unknown }
  | { readonly kind: "error"; readonly call: number; readonly error: SentError }
  | { readonly kind: "hint"; readonly hint: Hint };

/** An error on its way: its class by name, and every fact it carries. */
export interface SentError {
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  readonly facts: Record<string, unknown>;
}

export interface Opened {
  readonly name: string;
  readonly database: string;
  readonly pollCycles: number;
  readonly address: StoreAddress | null;
}

const runtime = testRuntime({ seed: process.pid });
/** Also those that were closed: what they say afterwards is part of their contract. */
const stores = new Map<number, Store>();
let unwatch: (() => void) | null = null;

async function answer(request: Request): Promise<unknown> {
  if (request.kind === "open") return open(request);
  const store = stores.get(request.store);
  if (store === undefined) throw new Error("This store is not open in this process.");
  switch (request.kind) {
    case "close":
      return store.close();
    case "watch":
      unwatch = store.db.watch((hint) => send({ kind: "hint", hint }));
      return undefined;
    case "unwatch":
      unwatch?.();
      return undefined;
    case "verb":
      runtime.clock.set(request.now);
      return callVerb(store, request);
  }
}

async function open(request: Extract<Request, { kind: "open" }>): Promise<Opened> {
  runtime.clock.set(request.now);
  const store = await openStore(request.url, { runtime });
  stores.set(request.store, store);
  const { name, database, pollCycles, address } = store.db;
  return { name, database, pollCycles, address };
}

function callVerb(store: Store, { verb, args }: VerbRequest): unknown {
  const names = verb.split(".");
  const name = names.pop() as string;
  const on: unknown = names.length === 0 ? store : store[names[0] as keyof Store];
  const method = Reflect.get(on as object, name) as (...args: readonly unknown[]) => unknown;
  return Reflect.apply(method, on, args);
}

function describe(error: unknown): SentError {
  if (!(error instanceof Error)) {
    return { name: "Error", message: String(error), stack: undefined, facts: {} };
  }
  const { name, message, stack } = error;
  return { name, message, stack, facts: Object.fromEntries(Object.entries(error)) };
}

function send(reply: Reply): void {
  // The parent may be gone by now; then the answer has no reader.
  if (process.connected) process.send?.(reply);
}

process.on("message", ({ call, request }: { call: number; request: Request }) => {
  void answer(request).then(
    (value) => send({ kind: "value", call, value }),
    (error: unknown) => send({ kind: "error", call, error: describe(error) }),
  );
});
process.on("disconnect", () => process.exit());
