/** Errors by kind, for applications: which there are, and what an operator decided about each. */
import {
  anyOperator,
  operatorFields,
  type OperatorOptions,
  operatorOptions,
} from "../audit/entry.ts";
import { HoldfastError } from "../core/errors.ts";
import { checkName } from "../core/name.ts";
import { by, checkText, choice, instant, optionsOf, whole } from "../core/options.ts";
import {
  type ErrorKind,
  type ErrorKindsStore,
  KINDS_LISTED_MAX,
  type ErrorKindState,
  kindStates,
} from "./store.ts";

export class ErrorKindNotFoundError extends HoldfastError {
  constructor(facts: { id: string }) {
    super(
      "ERROR_KIND_NOT_FOUND",
      `There is no kind of error ${facts.id}. It was never counted here, or it was last seen more than 90 days ago.`,
    );
  }
}

/** Which kinds of errors to list, and how many. */
export interface ErrorKindFilter {
  /** Kinds in this state. Default: open. */
  readonly state?: ErrorKindState;
  /** Of this task, without its version. */
  readonly task?: string;
  /** Seen in this build, within the last week. */
  readonly build?: string;
  /** Seen at or after this time (ms since 1970, or a Date): minutes of the last day, hours of the last week. */
  readonly since?: number | Date;
  /** Seen before this time. */
  readonly until?: number | Date;
  /** At most 200. Default 100. */
  readonly limit?: number;
}

/** Kinds of errors, the last seen first. */
export interface ErrorKinds {
  /** How many there are in each state, and how many of the open ones were first seen within a day. */
  readonly counts: Readonly<Record<ErrorKindState | "new", number>>;
  /** The kinds in the wanted state. */
  readonly groups: readonly ErrorKind[];
  /** Whether these are all in that state. */
  readonly isAll: boolean;
}

/** Who resolves a kind of error, and in which build. */
export interface ResolveErrorOptions extends OperatorOptions {
  /** It stays resolved until a build that was not known to have it has it. Default: until it is seen again. */
  readonly inBuild?: string;
}

interface Parts {
  readonly store: ErrorKindsStore;
  readonly newId: () => string;
}

const listOptions = optionsOf<ErrorKindFilter>()({
  state: choice(kindStates, "open"),
  task: by(checkName),
  build: by(checkName),
  since: instant(),
  until: instant(),
  limit: whole(1, KINDS_LISTED_MAX, 100),
});

const resolveOptions = optionsOf<ResolveErrorOptions>()({
  inBuild: by(checkName),
  ...operatorFields,
});

/** Lists kinds of errors; resolves, mutes and reopens them: `holdfast.errors`. They are counted when a minute is over. */
export class Errors {
  readonly #parts: Parts;

  /** @internal Applications get it from a Holdfast. */
  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** The kinds in one state, last seen first. */
  async list(filter: ErrorKindFilter = {}): Promise<ErrorKinds> {
    const wanted = listOptions.read(filter);
    const counts = await this.#parts.store.counts();
    const groups = await this.#parts.store.list(wanted);
    const { task, build, since, until } = wanted;
    const isNarrowed = [task, build, since, until].some((one) => one !== undefined);
    const isAll = isNarrowed ? groups.length < wanted.limit : groups.length >= counts[wanted.state];
    return { counts, groups, isAll };
  }

  /** One kind. Throws ErrorKindNotFoundError. */
  async get(id: string): Promise<ErrorKind> {
    const kind = await this.#parts.store.find(checkText("id", id));
    if (kind === null) throw new ErrorKindNotFoundError({ id });
    return kind;
  }

  /** It is open again when it comes back. False: it was resolved already. */
  resolve(
    id: string,
    options: ResolveErrorOptions = {},
    /** As of `jobs.retry`. */
    once?: string,
  ): Promise<boolean> {
    const { inBuild: resolvedIn = null, ...operator } = resolveOptions.read(options);
    return this.#change(id, { state: "resolved", resolvedIn }, operator, once);
  }

  /** It does not come back by itself. */
  mute(id: string, options: OperatorOptions = {}, once?: string): Promise<boolean> {
    return this.#change(id, { state: "muted" }, options, once);
  }

  /** It is listed among the open ones again. */
  reopen(id: string, options: OperatorOptions = {}, once?: string): Promise<boolean> {
    return this.#change(id, { state: "open" }, options, once);
  }

  /** False: it was in that state. */
  async #change(
    id: string,
    to: { readonly state: ErrorKindState; readonly resolvedIn?: string | null },
    options: OperatorOptions,
    once: string | undefined,
  ): Promise<boolean> {
    const newId = once === undefined ? this.#parts.newId : () => once;
    const operator = anyOperator(operatorOptions.read(options), newId);
    if (await this.#parts.store.change(checkText("id", id), to, operator)) return true;
    await this.get(id);
    return false;
  }
}
