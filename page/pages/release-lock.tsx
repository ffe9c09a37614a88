/** The question before a lock is released by force. */
import type { Lock } from "../api.gen.ts";
import { post } from "../client.ts";
import { ask, reasonIn } from "../notices.ts";
import { Ago } from "../parts.tsx";

export function askRelease(lock: Lock): void {
  ask({
    title: `Release ${lock.key}?`,
    body: (
      <p>
        {lock.owner} holds it since <Ago at={lock.acquiredAt} word="" />. Whether it still works is
        not known: two may then work at once, unless what they write checks the fencing token.
      </p>
    ),
    reason: true,
    danger: true,
    confirm: "Release it",
    run: (answers) => post("locks/release", { key: lock.key, ...reasonIn(answers) }),
  });
}
