/** The API with its types: a path, parameter or field that does not exist does not compile. */
import type { Reads, Writes } from "./api.gen.ts";
import { read, write } from "./api.ts";

export type Input<P extends keyof Reads> = Reads[P]["input"];
export type Result<P extends keyof Reads> = Reads[P]["result"];

/** What a request needs that all may do without. */
interface How {
  readonly signal?: AbortSignal;
  readonly limitMs?: number;
}

/** Fields named in the path go there; the others are left. */
function filled(path: string, input: object): [path: string, rest: Record<string, unknown>] {
  const rest = new Map<string, unknown>(Object.entries(input));
  const whole = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(rest.get(name));
    rest.delete(name);
    return encodeURIComponent(value);
  });
  return [whole, Object.fromEntries(rest)];
}

/** The address of a read, below that of the API. */
export function addressOf<P extends keyof Reads>(path: P, input: Input<P>): string {
  const [whole, rest] = filled(path, input);
  const given = Object.entries(rest).flatMap(([name, value]) =>
    [value]
      .flat()
      .flatMap((one) => (one === undefined ? [] : [[name, `${one as string | number | boolean}`]])),
  );
  const query = new URLSearchParams(given);
  return query.size === 0 ? whole : `${whole}?${query}`;
}

export function get<P extends keyof Reads>(
  path: P,
  input: Input<P>,
  { signal, limitMs }: How = {},
): Promise<Result<P>> {
  return read(addressOf(path, input), signal, limitMs) as Promise<Result<P>>;
}

export function post<P extends keyof Writes>(
  path: P,
  input: Writes[P]["input"],
): Promise<Writes[P]["result"]> {
  const [whole, body] = filled(path, input);
  return write(whole, body) as Promise<Writes[P]["result"]>;
}
