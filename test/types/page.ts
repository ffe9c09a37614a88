/** What the page may ask of the API, and what must not compile. Part of the page's project. */
import { get, post } from "../../page/client.ts";
import { useRead } from "../../page/live.ts";

export async function right(): Promise<void> {
  const { locks } = await get("locks", { type: "order", limit: 5 });
  locks.map(({ key, expiresInMs }) => `${key} ${expiresInMs.toFixed(0)}`);
  await post("locks/release", { key: "order:1", reason: "stuck" });
  await post("jobs/{id}/retry", { id: "x", attempts: 3 });
  useRead("overview");
  useRead("drift", {}, 10_000);
  useRead("jobs/{id}/story", null);
  const { data } = useRead("jobs/{id}/story", { id: "x" });
  void (data?.job.status === "done");
  const queue: string | null | undefined = data?.schedule;
  void queue;
}

export async function wrong(): Promise<void> {
  // @ts-expect-error -- there is no such path
  await get("lokcs", {});
  // @ts-expect-error -- it is no read
  await get("locks/release", { key: "order:1" });
  // @ts-expect-error -- there is no such parameter
  await get("locks", { typo: "order" });
  // @ts-expect-error -- a limit is a number
  await get("locks", { limit: "5" });
  // @ts-expect-error -- there is no such status
  await get("jobs", { status: "dead" });
  // @ts-expect-error -- the id is missing
  useRead("jobs/{id}/story", {});
  // @ts-expect-error -- the id is missing
  useRead("jobs/{id}/story");
  // @ts-expect-error -- the key is missing
  await post("locks/release", { reason: "stuck" });
  // @ts-expect-error -- a field of a body is a number
  await post("jobs/{id}/retry", { id: "x", attempts: "3" });
  const { locks } = await get("locks", {});
  // @ts-expect-error -- there is no such field
  void locks[0]?.holder;
  const { data } = useRead("jobs/{id}/story", { id: "x" });
  // @ts-expect-error -- there is no such status
  void (data?.job.status === "dead");
  // @ts-expect-error -- there may be none
  const text: string | undefined = data?.schedule;
  void text;
}
