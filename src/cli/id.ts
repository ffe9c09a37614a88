/** Ids on the command line: any prefix that only one id begins with, in either case. */
import { HoldfastError, JobNotFound } from "../core/errors.ts";
import { isId } from "../core/id.ts";
import { AmbiguousId, typedPrefix } from "../core/id-prefix.ts";
import { ItemNotFound } from "../core/workflow-errors.ts";
import type { Holdfast } from "../worker/holdfast.ts";

/** One of those that begin with what was typed. */
export interface Candidate {
  readonly id: string;
  /** What tells it from the others: `failed mail.send`. */
  readonly about: string;
}

export interface IdLookUp {
  /** `job`, `worker`, `item`. */
  readonly what: string;
  /** Those whose id begins with the prefix, at most `limit` of them, found by an index. */
  readonly find: (prefix: string, limit: number) => Promise<readonly Candidate[]>;
  readonly notFound: (typed: string) => Error;
}

/** So many are named when a prefix is ambiguous. */
const CANDIDATES_MAX = 10;

/** The whole id of the one whose id begins with what was typed. */
export async function wholeId(typed: string, lookUp: IdLookUp): Promise<string> {
  const prefix = typedPrefix(typed);
  const found = prefix === "" ? [] : await lookUp.find(prefix, CANDIDATES_MAX + 1);
  const exact = found.find(({ id }) => id.toLowerCase() === prefix.toLowerCase());
  const [first, ...others] = found;
  if (first === undefined) throw lookUp.notFound(typed);
  if (exact !== undefined || others.length === 0) return (exact ?? first).id;
  const candidates = found.slice(0, CANDIDATES_MAX);
  throw new AmbiguousId({
    what: lookUp.what,
    prefix,
    candidates,
    more: found.length > CANDIDATES_MAX,
  });
}

export async function jobId({ jobs }: Holdfast, typed: string): Promise<string> {
  if (isId(typed)) return typed;
  return wholeId(typed, {
    what: "job",
    find: async (prefix, limit) => {
      const found = await jobs.list({ prefix, limit });
      return found.map(({ id, status, task, key }) => ({
        id,
        about: `${status} ${task}${key === null ? "" : ` ${key}`}`,
      }));
    },
    notFound: (id) => new JobNotFound({ id }),
  });
}

/** Ids of workers begin with their type: `mailer-01a1dee7-1d06`. */
export async function workerId({ store }: Holdfast, typed: string): Promise<string> {
  return wholeId(typed, {
    what: "worker",
    find: async (prefix, limit) => {
      const exact = await store.findWorker(prefix);
      const found = exact === null ? await store.workers({ prefix, limit }) : [exact];
      const others = (await store.unregistered()).filter(({ id }) => id.startsWith(prefix));
      return [
        ...found.map(({ id, status, hostname, pid }) => ({
          id,
          about: `${status} ${hostname}:${pid}`,
        })),
        ...others.map(({ id, kind }) => ({ id, about: kind })),
      ];
    },
    notFound: (id) => new WorkerNotFound(`There is no worker ${id}. See: holdfast workers`),
  });
}

export class WorkerNotFound extends HoldfastError {
  constructor(words: string) {
    super("WORKER_NOT_FOUND", words);
  }
}

export async function itemId({ store }: Holdfast, typed: string): Promise<string> {
  if (isId(typed)) return typed;
  return wholeId(typed, {
    what: "item",
    find: async (prefix, limit) => {
      const found = await store.listItems({ prefix, limit });
      return found.map(({ id, status, workflow, identifier }) => ({
        id,
        about: `${status} ${workflow}${identifier === id ? "" : ` ${identifier}`}`,
      }));
    },
    notFound: (id) => new ItemNotFound({ id }),
  });
}
