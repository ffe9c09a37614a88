/** Collects the jobs of a flow before they are enqueued together. */
import { invalid } from "../core/errors.ts";
import { calledId } from "../core/id.ts";
import { checkName } from "../core/name.ts";
import { by, checkList, needed, optionsOf, passed } from "../core/options.ts";
import type { AnyTask, InputArguments, InputOf, ResultOf, Task } from "../core/task.ts";
import { type After, dependenciesOf } from "../jobs/after.ts";
import type { EnqueueCall, EnqueueOptions } from "../jobs/enqueue.ts";
import type { NewJob } from "../jobs/store.ts";
import { CircleError } from "./errors.ts";

/** Jobs in one call: they are written in one transaction. */
export const FLOW_JOBS_MAX = 20_000;

/** Options of a job of a flow: those of `enqueue()`, a name, and jobs that shall wait for it. */
export interface FlowJobOptions extends EnqueueOptions {
  /** Unique in the flow. */
  readonly name?: string;
  /** Only when jobs are added to a flow: jobs of it that still wait, and shall wait for this one, too. */
  readonly before?: readonly After[];
}

/** A job of a flow, for `after` of the jobs that follow it. */
export interface FlowJob<Result = unknown> {
  /** The id that the job will have. */
  readonly id: string;
  /** The name of its task. */
  readonly task: string;
  /** Its name within the flow; null: none. */
  readonly name: string | null;
  /** Exists for the compiler only. */
  readonly result?: Result;
}

interface Planned {
  readonly id: string;
  readonly name: string | null;
  readonly before: readonly After[];
  readonly call: EnqueueCall;
}

/** Collects the jobs of a flow, before they are enqueued together. */
export class FlowBuilder {
  readonly #newId: () => string;
  readonly #planned: Planned[] = [];
  readonly #names = new Set<string>();

  /** @internal Applications get it from a Holdfast. */
  constructor(newId: () => string) {
    this.#newId = newId;
  }

  /** Adds a job. It is enqueued with the others. */
  job<Of extends AnyTask | string>(
    task: Of,
    ...rest: InputArguments<InputOf<Of>, FlowJobOptions>
  ): FlowJob<ResultOf<Of>>;
  job(task: AnyTask | string, input?: unknown, options: FlowJobOptions = {}): FlowJob<never> {
    const { name = null, before = [], ...rest } = options;
    if (this.#planned.length === FLOW_JOBS_MAX) {
      const problem = `at most ${FLOW_JOBS_MAX} jobs are accepted together. Add the others to the running flow.`;
      throw invalid("jobs", problem);
    }
    if (name !== null && this.#names.has(checkName("name", name))) {
      throw invalid("name", `two jobs are called '${name}'.`);
    }
    if (name !== null) this.#names.add(name);
    const id = calledId(this.#newId());
    this.#planned.push({ id, name, before, call: { task, inputs: [input], options: rest } });
    return { id, task: typeof task === "string" ? task : task?.name, name };
  }

  /** @internal */
  get planned(): readonly Planned[] {
    return this.#planned;
  }
}

/** The new jobs with their places in the flow. They are in the order of the plan. */
export function asMembers(
  flow: string,
  planned: readonly Planned[],
  news: readonly NewJob[],
): NewJob[] {
  return news.map((job, index) => {
    const { name, before, call } = planned[index] as Planned;
    const { onFailed, onCancelled } = call.options as EnqueueOptions;
    const policies = { ...(onFailed && { onFailed }), ...(onCancelled && { onCancelled }) };
    const member = {
      flow,
      name,
      after: job.member?.after ?? [],
      before: dependenciesOf("before", before, policies),
    };
    return { ...job, member };
  });
}

/** A job of a flow as data: `after` has names of other jobs of the flow, or ids. */
export interface FlowJobSpec {
  /** Its name within the flow, for `after` of the others. */
  readonly name: string;
  /** The name of its task. */
  readonly task: string;
  /** What it is enqueued with. Default: null. No schema validates it here. */
  readonly input?: unknown;
  /** The jobs that it waits for. Default: none. */
  readonly after?: readonly string[];
  /** As for `enqueue()`. */
  readonly options?: Omit<EnqueueOptions, "after">;
}

const specOptions = optionsOf<FlowJobSpec>()({
  name: needed(by(checkName)),
  task: needed(passed<string>()),
  input: passed<unknown>(),
  after: passed<readonly string[]>(),
  options: passed<NonNullable<FlowJobSpec["options"]>>(),
});

interface SpecContext {
  /** The ids of other jobs of the flow, by name. */
  readonly known: ReadonlyMap<string, string>;
  /** Tasks whose schemas check inputs, by name. */
  readonly tasks: ReadonlyMap<string, Task>;
}

/** Builds a flow from data, in an order in which each job follows those that it waits for. Throws CircleError. */
export function buildFrom(
  builder: FlowBuilder,
  specs: readonly FlowJobSpec[],
  { known, tasks }: SpecContext,
): void {
  const left = new Map<string, FlowJobSpec>();
  for (const [index, spec] of checkList("jobs", specs).entries()) {
    const { name } = specOptions.read(spec, { field: `jobs[${index}]` });
    if (!left.has(name)) left.set(name, spec);
    else throw invalid("name", `two jobs are called '${name}'.`);
  }
  const ids = new Map(known);
  const waits = new Map(
    [...left].map(([name, { after = [] }]) => [name, new Set(after.filter((on) => left.has(on)))]),
  );
  const followers = new Map<string, string[]>();
  for (const [name, ons] of waits) {
    for (const on of ons) followers.set(on, [...(followers.get(on) ?? []), name]);
  }
  const free = [...waits].filter(([, ons]) => ons.size === 0).map(([name]) => name);
  for (let name = free.shift(); name !== undefined; name = free.shift()) {
    const { task, input = null, after = [], options = {} } = left.get(name) as FlowJobSpec;
    const on = after.map((one) => ids.get(one) ?? one);
    const terms = { ...options, name, ...(on.length === 0 ? {} : { after: on }) };
    const { id } = builder.job((tasks.get(task) ?? task) as string, input, terms);
    ids.set(name, id);
    left.delete(name);
    for (const follower of followers.get(name) ?? []) {
      const ons = waits.get(follower);
      ons?.delete(name);
      if (ons?.size === 0) free.push(follower);
    }
  }
  if (left.size > 0) throw new CircleError({ jobs: circleIn(left) });
}

/** Every job that is left waits for another one that is left, so following them leads around. */
function circleIn(left: ReadonlyMap<string, FlowJobSpec>): string[] {
  const path: string[] = [];
  let name = left.keys().next().value;
  while (name !== undefined && !path.includes(name)) {
    path.push(name);
    name = left.get(name)?.after?.find((on) => left.has(on));
  }
  return name === undefined ? path : path.slice(path.indexOf(name));
}
