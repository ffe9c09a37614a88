/**
 * An operation: one verb of the product, declared once.
 *
 * From it come the route with its part of the OpenAPI document, and the command. This file and those that declare operations
 * load neither zod nor commander.
 */
import type { Terminal } from "../terminal/terminal.ts";
import type { Fields, Infer, Shape } from "./shape.ts";

/** Who asks, and what the surface adds to the input. */
export interface Caller {
  /** For the audit log: who, why, and in which request. */
  readonly by: { readonly actor: string; readonly trace?: string; readonly reason?: string };
  /** Ids for the rows it writes: a repeated request has the same. Empty: the library makes them. */
  readonly ids: readonly string[];
  /** The trace of the request. */
  readonly headers?: {
    readonly traceparent: string | undefined;
    readonly tracestate: string | undefined;
  };
}

export interface HttpSpec<Input, Result> {
  readonly method: "GET" | "POST";
  /** In OpenAPI notation. Fields named in it travel there; the others in the query (GET) or the body (POST). */
  readonly path: string;
  /** Default 200. */
  readonly status?: number;
  /** Another status for some results, with its description. */
  readonly other?: {
    readonly status: number;
    readonly returns: string;
    readonly when: (result: Result) => boolean;
  };
  /** Further statuses of problems. */
  readonly problems?: readonly number[];
  readonly repeatable?: boolean;
  readonly isWhole?: boolean;
  readonly restores?: boolean;
  /** The path of what it created. */
  readonly location?: (result: Result) => string;
  /** How many ids it needs. Default 1. */
  readonly idCount?: (input: Input) => number;
}

export interface FlagSpec {
  /** The option, if it is not the name of the field. */
  readonly flag?: string;
  /** A switch: what the field is with it. */
  readonly means?: unknown;
  /** Reads the value instead of the kind of the field. What it throws says what to write. */
  readonly read?: (text: string) => unknown;
  /** `<name>`, where the kind of the field does not say it. */
  readonly value?: string;
  /** Default: what the field says about itself. */
  readonly about?: string;
  readonly initial?: string | number;
  readonly isRequired?: boolean;
}

export interface CliSpec<App, Input, Result> {
  /** `locks list`. */
  readonly command: string;
  /** Default: the summary. */
  readonly about?: string;
  /** Fields that are arguments, in this order, with what the help says about them. An optional field may be left out. */
  readonly arguments?: Readonly<Record<string, string>>;
  /** Fields that are options, in this order. */
  readonly flags?: Readonly<Record<string, FlagSpec>>;
  /** Command lines for the help, without `holdfast`. */
  readonly examples: readonly [string, ...string[]];
  /** What the help says after the options. */
  readonly after?: string;
  /** Fields that may be typed as the prefix of an id, with the look-up of the whole one. */
  readonly ids?: Readonly<Record<string, (app: App, typed: string) => Promise<string>>>;
  /** Fields of the command line alone. */
  readonly typed?: Fields;
  /** What is typed, as an input. Runs before the database is opened. */
  readonly inputOf?: (typed: never) => Input;
  /** What the input needs of the database. */
  readonly complete?: (app: App, input: Input) => Promise<Input>;
  /** Creates a missing database that was named, and migrates an old one. */
  readonly opensForWork?: boolean;
  /** It works without a database. */
  readonly opensNothing?: boolean;
  /** What `--json` prints. Default: the result. */
  readonly json?: (result: Result, input: Input, app: App) => unknown;
  /** The lines to print. */
  readonly show: Show<Input, Result, App>;
  /** Whether the exit code is 1 although the result was printed. */
  readonly fails?: (result: Result) => boolean;
}

export type Show<Input, Result, App = unknown> = (
  result: Result,
  shown: {
    readonly app: App;
    readonly terminal: Terminal;
    readonly input: Input;
    readonly notes: readonly string[];
  },
) => readonly string[] | Promise<readonly string[]>;

export interface OperationSpec<App, F extends Fields, Result> {
  /** Its id in the API: `listLocks`. */
  readonly name: string;
  readonly summary: string;
  readonly access: "viewer" | "operator";
  readonly input?: F;
  /** Takes a reason, and is recorded in the audit log. */
  readonly isAudited?: boolean;
  /** A sentence about the result. */
  readonly returns: string;
  readonly result: Shape<Result>;
  readonly run: (app: App, input: Infer<F>, caller: Caller) => Promise<NoInfer<Result>>;
  readonly http?: HttpSpec<Infer<F>, Result>;
  readonly cli?: CliSpec<App, Infer<F>, Result>;
  /** It is a tool for agents, with what to tell them. */
  readonly agent?: string;
}

/** An operation with its types erased; `App` is what it needs of Holdfast. */
export interface Operation<in App> extends Omit<
  OperationSpec<never, Fields, unknown>,
  "input" | "run" | "http" | "cli"
> {
  readonly tag: string;
  readonly input: Fields;
  readonly http?: HttpSpec<unknown, unknown>;
  readonly cli?: CliSpec<App, object, unknown>;
  run(app: App, input: unknown, caller: Caller): Promise<unknown>;
}

/** The operations of a feature share its tag and what they need of Holdfast. */
export function operationsOf<App>(tag: string) {
  return <const F extends Fields, Result>(spec: OperationSpec<App, F, Result>): Operation<App> =>
    ({ tag, input: {}, ...spec }) as Operation<App>;
}
