/**
 * What the processes of one round do: every change brings a field that no other change writes, so that one that is lost is
 * seen to be missing, and one that was refused is seen if it is there all the same.
 */

/** Children are named by their place in the list that comes with the round. */
export type Op =
  /** With `expect`, only if the child has that revision. */
  | {
      readonly kind: "patch";
      readonly child: number;
      readonly key: string;
      readonly expect?: number;
    }
  | { readonly kind: "begin" | "finish"; readonly child: number; readonly key: string }
  /** The child and its parent in one step. */
  | { readonly kind: "both"; readonly child: number; readonly key: string }
  | { readonly kind: "parent"; readonly key: string }
  /** Reads a number and writes it with one added, if the child has not changed meanwhile; again until that is so. */
  | { readonly kind: "count"; readonly child: number; readonly key: string }
  | { readonly kind: "bulk"; readonly children: readonly number[]; readonly key: string }
  /** Like a bulk, but for its last child, which may not make the move. */
  | { readonly kind: "half"; readonly children: readonly number[]; readonly key: string }
  | { readonly kind: "illegal"; readonly child: number; readonly key: string };

/** What became of one. */
export interface Result {
  readonly op: Op;
  readonly process: number;
  /** On the host's monotonic clock, which all processes share, in milliseconds. */
  readonly from: number;
  readonly to: number;
  /** "accepted", or the code of the error. */
  readonly outcome: string;
  readonly message?: string;
}

type Draft = Op extends infer One ? (One extends Op ? Omit<One, "key"> : never) : never;

const FEW = 20;
/** Updates of one child, one right after the other. */
const RAPID = 10;
const COUNTS = 4;

/** What the processes are dealt in turn: what stands together goes to different ones, and meets. */
export function planRound(children: number, random: () => number): Op[] {
  const groups = children <= FEW ? manyEach(children) : oneEach(children);
  const drafts = shuffled(groups, random).flat();
  return drafts.map((draft, index) => ({ ...draft, key: `k${index}` }));
}

/** Few children, and a lot for each: the same rows are wanted all the time. */
function manyEach(children: number): Draft[][] {
  const each = numbers(children).map((child) =>
    child % 2 === 0 ? [finish(child), finish(child)] : [patch(child), finish(child)],
  );
  return [
    ...each,
    numbers(RAPID).map(() => patch(0)),
    numbers(COUNTS).map(() => ({ kind: "count", child: 1 })),
    [begin(2), begin(2)],
    [bulk([1, 2, 3]), half([3, 4, 5])],
    [{ kind: "illegal", child: 6 }],
    [parent(), both(7)],
    [parent(), both(8)],
    [parent(), parent()],
  ];
}

/** Many children, which end one after the other; the parent is in everybody's way. */
function oneEach(children: number): Draft[][] {
  return [
    ...numbers(children).map((child) => [finish(child)]),
    [finish(5), begin(5)],
    [bulk([1, 2, 3, 4]), half([4, 5])],
    [parent(), both(7)],
    [parent()],
  ];
}

const patch = (child: number): Draft => ({ kind: "patch", child });
const begin = (child: number): Draft => ({ kind: "begin", child });
const finish = (child: number): Draft => ({ kind: "finish", child });
const both = (child: number): Draft => ({ kind: "both", child });
const bulk = (children: readonly number[]): Draft => ({ kind: "bulk", children });
const half = (children: readonly number[]): Draft => ({ kind: "half", children });
const parent = (): Draft => ({ kind: "parent" });

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, number) => number);
}

function shuffled<T>(list: readonly T[], random: () => number): T[] {
  const drawn = list.map((value) => ({ value, at: random() }));
  return drawn.toSorted((a, b) => a.at - b.at).map(({ value }) => value);
}

/** The ops of one process: every so many-th. */
export function dealt(ops: readonly Op[], process: number, processes: number): Op[] {
  return ops.filter((_, index) => index % processes === process);
}
