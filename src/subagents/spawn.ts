// Sending runs out: one, or several in one transaction, all or none, with what they come after and the group they are (GR1). A call's
// key makes a repeated call of a resumed turn find the same runs instead of others (SP2). → accepted → the lane.
import { isStorageError, publicErrorText } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import { safeParse } from "../core/safe-parse.ts";
import { visibleText } from "../core/visible-text.ts";
import type { Tx } from "../stores/database.ts";
import { type LockKey, lock } from "../stores/lock-keys.ts";
import { resolveAfter, type Sibling } from "./dependencies.ts";
import { type BriefParams, briefRequestSchema } from "./documents/brief-params.ts";
import { labelOf } from "./draft.ts";
import { oneLine } from "./quoting.ts";
import { accepted, admission, type Repeated, type SpawnDeps, spawnOne } from "./spawn-one.ts";
import type { Accepted, GroupRequest, Refused, Requester, SpawnAnswer, SpawnRequest } from "./spawn-request.ts";

export interface Spawn {
  /** What a spawn needs to lock, so that what it checks stays so until it is on record. */
  locks(requester: Requester): Promise<readonly LockKey[]>;
  /** In the caller's transaction, under those locks. */
  in(tx: Tx, requester: Requester, request: SpawnRequest, repeated?: Repeated): Promise<SpawnAnswer>;
  /** As a transaction of its own; says so when the disk refuses. */
  now(requester: Requester, request: SpawnRequest): Promise<SpawnAnswer>;
  /** Several at once, all or none, with what they wait for and, where it is asked for, as a group. */
  all(requester: Requester, requests: readonly SpawnRequest[], group?: GroupRequest): Promise<AllAnswer>;
}

export type AllAnswer =
  | { readonly status: "accepted"; readonly group?: string; readonly runs: readonly Omit<Accepted, "status">[] }
  | Refused;

export function createSpawn(deps: SpawnDeps): Spawn {
  // All of it in one: counted outside, twenty calls at once would each see four of five children and all be accepted.
  const spawnIn: Spawn["in"] = async (tx, requester, request, repeated) => {
    // A turn that lost its process repeats the calls it has no result of: without the key each would be a second run.
    const known = await deps.runs.findBySpawnKey(requester.spawnKey);
    if (known !== null) return accepted(known);
    const id = newId();
    const resolved = await resolveAfter(deps.runs, requester.sessionKey, [siblingOf(id, request)]);
    if ("refused" in resolved) return { status: "error", error: resolved.refused };
    return spawnOne(deps, tx, requester, { request, repeated, id, before: resolved.before.get(id) ?? [], groupId: null });
  };
  const locks: Spawn["locks"] = async (requester) => [lock.tree(await rootOf(deps, requester)), lock.chat(requester.address)];
  /** Refused when the disk does; nothing was started then. */
  const record = async <T>(requester: Requester, act: (tx: Tx) => Promise<T>): Promise<T | Refused> => {
    try {
      return await deps.db.transaction(await locks(requester), act);
    } catch (error) {
      if (error instanceof SpawnRefused) return error.refused;
      deps.log.error({ err: error, sessionKey: requester.sessionKey }, "a run could not be recorded");
      // It may have been: the answer to its commit can be lost. Asked again it is found.
      if (deps.isShared === true && isStorageError(error)) throw error;
      return { status: "error", error: `The run could not be recorded, so it was not started: ${publicErrorText(error)}` };
    }
  };
  return {
    locks,
    in: spawnIn,
    async now(requester, request) {
      const summed = await summedUp(deps, requester, request);
      if ("status" in summed) return summed;
      const { brief } = summed;
      const wanted = brief === undefined ? request : { ...request, brief };
      const answer = await record(requester, (tx) => spawnIn(tx, requester, wanted));
      return answer.status === "accepted" && brief !== undefined ? { ...answer, brief } : answer;
    },
    async all(requester, requests, group) {
      // One brief for all of them: what stands beside the tasks holds for each.
      const about = { ...requests[0], task: requests.map(({ task }) => task).join("\n\n") };
      const summed = await summedUp(deps, { ...requester, spawnKey: keyOf(requester, 0) }, about);
      if ("status" in summed) return summed;
      const { brief } = summed;
      const wanted = brief === undefined ? requests : requests.map((request) => ({ ...request, brief }));
      return record(requester, (tx) => spawnAll(deps, tx, requester, { requests: wanted, group }));
    },
  };
}

/** Thrown out of the transaction: what was sent out before it in the same call is taken back with it. */
class SpawnRefused extends Error {
  readonly refused: Refused;
  constructor(refused: Refused) {
    super(refused.error);
    this.refused = refused;
  }
}

const keyOf = ({ spawnKey }: Requester, n: number): string => `${spawnKey}:${n}`;

/**
 * Before the transaction: nobody may wait behind a model. What would be refused anyway is not paid for, and a call that is repeated after
 * a crash finds its run with the brief that it has.
 */
async function summedUp(deps: SpawnDeps, requester: Requester, request: SpawnRequest): Promise<{ brief?: BriefParams } | Refused> {
  if (request.brief === undefined) return {};
  const wanted = safeParse(briefRequestSchema, request.brief);
  if (!wanted.success || wanted.data.fromTurns === undefined) return {};
  if ((await deps.runs.findBySpawnKey(requester.spawnKey)) !== null) return {};
  const admitted = await admission(deps, requester, request);
  if (!admitted.ok) return { status: admitted.status, error: admitted.error };
  const briefed = await deps.briefSummary.of(requester, wanted.data, visibleText(request.task));
  return "refused" in briefed ? { status: "error", error: briefed.refused } : briefed;
}

interface Together {
  readonly requests: readonly SpawnRequest[];
  readonly group: GroupRequest | undefined;
}

async function spawnAll(deps: SpawnDeps, tx: Tx, requester: Requester, { requests, group }: Together): Promise<AllAnswer> {
  const known = await Promise.all(requests.map((_, n) => deps.runs.findBySpawnKey(keyOf(requester, n))));
  if (known[0] != null) return listed(known.filter((run) => run !== null).map(accepted), group);
  const siblings = requests.map((request) => siblingOf(newId(), request));
  const resolved = await resolveAfter(deps.runs, requester.sessionKey, siblings);
  if ("refused" in resolved) throw new SpawnRefused({ status: "error", error: `${resolved.refused} ${NOBODY_SENT}` });
  const groupId = group === undefined ? null : await openGroup(deps, tx, requester, { group, size: requests.length });
  const answers: Accepted[] = [];
  for (const [n, request] of requests.entries()) {
    const id = siblings[n]?.id ?? newId();
    const wanted = { request, repeated: undefined, id, before: resolved.before.get(id) ?? [], groupId };
    const answer = await spawnOne(deps, tx, { ...requester, spawnKey: keyOf(requester, n) }, wanted);
    if (answer.status !== "accepted")
      throw new SpawnRefused({ ...answer, error: `Task ${n + 1} of ${requests.length}: ${answer.error} ${NOBODY_SENT}` });
    answers.push(answer);
  }
  return listed(answers, group);
}

const NOBODY_SENT = "Nobody was sent out.";

const listed = (answers: readonly Accepted[], group: GroupRequest | undefined): AllAnswer => ({
  status: "accepted",
  ...(group === undefined ? {} : { group: groupName(group) }),
  runs: answers.map(({ status: _, ...run }) => run),
});

const groupName = ({ name }: GroupRequest): string => labelOf(oneLine(visibleText(name ?? ""))) || "group";

async function openGroup(
  deps: SpawnDeps,
  tx: Tx,
  requester: Requester,
  { group, size }: { group: GroupRequest; size: number },
): Promise<string> {
  const { wait = "all", announce = "together", then = "nothing" } = group;
  if (typeof wait === "number" && wait > size)
    throw new SpawnRefused({ status: "error", error: `The group would wait for ${wait} of ${size} sub-agents. ${NOBODY_SENT}` });
  const id = newId();
  const { sessionKey: requesterKey, sessionId: requesterSessionId, runId: requesterRunId, address, person } = requester;
  await deps.groups.insert(tx, {
    ...{
      id,
      name: deps.redact(groupName(group)),
      rootKey: await rootOf(deps, requester),
      requesterKey,
      requesterSessionId,
      requesterRunId,
    },
    ...{ address, person, enough: wait === "all" ? null : wait === "any" ? 1 : wait, announce, wakes: then === "wake" },
  });
  return id;
}

const siblingOf = (id: string, { label, task, after = [] }: SpawnRequest): Sibling => ({ id, label: label ?? task, after });

/** The main session at the top; of a requester whose run is gone, its own. */
const rootOf = async ({ runs }: SpawnDeps, { runId, sessionKey }: Requester): Promise<string> =>
  (runId === null ? null : (await runs.get(runId))?.rootKey) ?? sessionKey;
