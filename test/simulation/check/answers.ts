/** What callers were told, held against what the witness saw: every yes was true when it was said, and every no too. */
import type {
  CancelCall,
  EnqueueCall,
  ExtendCall,
  Fence,
  OutageCall,
  SettleCall,
} from "../history.ts";
import { fenceKey, type Evidence, type Findings } from "./evidence.ts";
import type { LeaseEnd, Life, Lives } from "./life.ts";

export function checkAnswers(
  { history, coverage }: Evidence,
  lives: Lives,
  findings: Findings,
): void {
  const claims = new Map<string, string>();
  for (const call of history.calls) {
    if (call.f === "enqueue") checkEnqueue(call, lives, findings);
    if (call.f === "settle") {
      checkSettled(call, lives, findings);
      checkClaimed(call, { lives, findings, claims });
      if (call.answer === "ok")
        coverage.hit("refused: a settlement", call.settlements.length - call.told.length);
    }
    if (call.f === "extend") {
      checkExtended(call, lives, findings);
      if (call.answer === "ok")
        coverage.hit("refused: an extension", call.fences.length - call.told.length);
    }
    if (call.f === "outage") checkOutage(call, lives, findings);
    if (call.f === "cancel") checkCancelled(call, lives, findings);
  }
}

function checkEnqueue(call: EnqueueCall, lives: Lives, findings: Findings): void {
  if (call.answer === "failed") {
    for (const { id } of call.jobs) {
      const isElsewhere =
        lives.jobs.has(id) &&
        (lives.jobs.get(id) as Life).addedTx > call.from &&
        isBefore(lives, id, call);
      if (isElsewhere)
        findings.add("I2 no phantom, no duplicate", `${id} was refused, and is there`);
    }
  }
  if (call.answer !== "ok") return;
  call.told.forEach(({ id, added }, index) => {
    const asked = call.jobs[index];
    const life = lives.jobs.get(id);
    if (life === undefined || !isBefore(lives, id, call)) {
      return findings.add("I1 no lost job", `${id} was accepted, and is not there`);
    }
    if (added && asked?.id !== id)
      findings.add("I2 no phantom, no duplicate", `${asked?.id} was added as ${id}`);
    if (!added && asked?.id !== id) checkHolder(call, { life, key: asked?.key ?? null }, findings);
  });
}

/** It was there when the caller was told. */
function isBefore(lives: Lives, id: string, { to }: EnqueueCall): boolean {
  const life = lives.jobs.get(id);
  return life !== undefined && life.addedTx <= (to ?? Number.POSITIVE_INFINITY);
}

/** A caller that is told of another job with the key is told of one that was alive meanwhile, and had it. */
function checkHolder(
  { from, to }: EnqueueCall,
  { life, key }: { life: Life; key: string | null },
  findings: Findings,
): void {
  if (life.key !== key)
    findings.add("I2 no phantom, no duplicate", `${life.id} has the key ${life.key}, not ${key}`);
  const until = to ?? Number.POSITIVE_INFINITY;
  const wasLive = livesOf(life).some((alive) => alive.from <= until && alive.to > from);
  if (!wasLive)
    findings.add(
      "I2 no phantom, no duplicate",
      `${life.id} is said to hold the key ${key}, and had ended before`,
    );
}

/** The spans of transactions in which a job had not ended. */
export function livesOf({ addedTx, finishedTx, reopenedTx }: Life): { from: number; to: number }[] {
  return [addedTx, ...reopenedTx].map((from, index) => ({
    from,
    to: finishedTx[index] ?? Number.POSITIVE_INFINITY,
  }));
}

function checkSettled(call: SettleCall, lives: Lives, findings: Findings): void {
  if (call.answer !== "ok") return;
  const told = new Set(call.told.map(keyOf));
  for (const fence of call.settlements) {
    const key = keyOf(fence);
    const end = lives.leaseEnds.get(key);
    const isOurs = end?.by === "settled" && end.tx <= (call.to ?? Number.POSITIVE_INFINITY);
    const isSame = end !== undefined && cannotBeTold(fence, end, lives.jobs.get(fence.id));
    if (told.has(key)) {
      findings.expect(
        isOurs || isSame,
        "I5 the fence",
        () => `${call.who} was told that it settled ${key}, and did not`,
      );
    } else if (isOurs && end.tx > call.from) {
      findings.add("I5 the fence", `${call.who} settled ${key} and was told that it did not`);
    }
  }
}

/**
 * An owner that reports an outage has not crashed: its attempt was settled or its crash is given back, unless the job had
 * ended before it came, or has met very many outages.
 */
function checkOutage(call: OutageCall, lives: Lives, findings: Findings): void {
  if (call.answer !== "ok") return;
  const told = new Set(call.told.map(keyOf));
  for (const fence of call.settlements) {
    const life = lives.jobs.get(fence.id);
    const ended = life?.attempts.find(({ epoch }) => epoch === fence.epoch);
    const isCrash = ended?.outcome === "crashed";
    if (told.has(keyOf(fence))) {
      findings.expect(!isCrash, "I5 the fence", () => `${keyOf(fence)} is a crash all the same`);
      continue;
    }
    const wasLive = life?.finishedTx.every((tx) => tx > (call.to ?? 0)) === true;
    const outages = life?.attempts.filter(({ outcome }) => outcome === "released").length ?? 0;
    findings.expect(
      !isCrash || !wasLive || outages >= FORGIVEN,
      "I7 attempts",
      () => `${keyOf(fence)} was alive and reported an outage, and a crash is counted`,
    );
  }
}

/** So many outages of one job at least count as no crash. */
const FORGIVEN = 10;

/**
 * Whether it cannot be known afterwards who ended a job: one that was to be cancelled anyway, for a worker that hands it back
 * unstarted; and one that was retried since, of whose end only an attempt's row is left.
 */
function cannotBeTold({ kind }: { kind: string }, end: LeaseEnd, life: Life | undefined): boolean {
  if (kind === "released" && end.status === "cancelled") return true;
  return life?.reopenedTx.some((tx) => tx > end.tx) === true;
}

/** One worker is told of each claim, and it is the one that has it. */
function checkClaimed(
  { claimed, who }: SettleCall,
  { lives, findings, claims }: { lives: Lives; findings: Findings; claims: Map<string, string> },
): void {
  for (const fence of claimed) {
    const at = lives.jobs.get(fence.id)?.claimedAt.get(fence.epoch);
    findings.expect(
      at?.worker === fence.worker,
      "I3 epochs",
      () => `${who} was told of a claim ${keyOf(fence)} that is not there`,
    );
    const key = keyOf(fence);
    findings.expect(
      !claims.has(key),
      "I4 one owner",
      () => `${claims.get(key)} and ${who} were told of the claim ${key}`,
    );
    claims.set(key, who);
  }
}

function checkExtended(call: ExtendCall, lives: Lives, findings: Findings): void {
  for (const fence of call.told) {
    const at = lives.extended.get(keyOf(fence)) ?? [];
    const isOurs = at.some((tx) => tx > call.from && tx <= (call.to ?? Number.POSITIVE_INFINITY));
    findings.expect(
      isOurs,
      "I5 the fence",
      () => `${call.who} was told that it extended ${keyOf(fence)}, and did not`,
    );
  }
}

/** A job that is said to be cancelled is; one that is said to be marked ends as cancelled and as nothing else. */
function checkCancelled(call: CancelCall, lives: Lives, findings: Findings): void {
  if (call.answer !== "ok") return;
  const life = lives.jobs.get(call.id);
  const until = call.to ?? Number.POSITIVE_INFINITY;
  if (life === undefined) return;
  if (call.told === "cancelled") {
    const isEnded = life.finishedTx.some((tx) => tx <= until);
    findings.expect(
      isEnded,
      "I1 no lost job",
      () => `${call.id} is said to be cancelled, and was not`,
    );
  }
  if (call.told === "processing") {
    const isMarked = (lives.marked.get(call.id) ?? []).some((tx) => tx <= until);
    findings.expect(
      isMarked,
      "I8 the moves",
      () => `${call.id} is said to be marked for cancelling, and was not`,
    );
  }
}

function keyOf({ id, worker, epoch }: Fence): string {
  return fenceKey(id, worker, epoch);
}
