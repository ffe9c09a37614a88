/** The attempts of a job: the newest with its story, earlier ones when a person asks for them. */
import { useState } from "preact/hooks";
import type { Attempt, AttemptOfBuild, JobStory } from "../api.gen.ts";
import { get } from "../client.ts";

/** How many earlier attempts one request reads. */
const PAGE = 100;

export interface Attempts {
  /** Oldest first. */
  readonly all: readonly (Attempt | AttemptOfBuild)[];
  readonly hasEarlier: boolean;
  readonly readEarlier: () => Promise<void>;
}

interface Earlier {
  readonly job: string;
  readonly attempts: readonly Attempt[];
}

export function useAttempts({ job, attempts }: JobStory): Attempts {
  const [earlier, setEarlier] = useState<Earlier>({ job: job.id, attempts: [] });
  const first = attempts[0]?.epoch ?? 0;
  const older = earlier.job === job.id ? earlier.attempts.filter(({ epoch }) => epoch < first) : [];
  const all = [...older, ...attempts];
  const begin = all[0]?.epoch ?? 0;
  return {
    all,
    hasEarlier: begin > 1,
    readEarlier: async () => {
      const page = await get("jobs/{id}/attempts", { id: job.id, before: begin, limit: PAGE });
      setEarlier({ job: job.id, attempts: [...page.attempts, ...older] });
    },
  };
}
