// The end of a group (GR3, GR4), in the transaction that ends the run by which it is through: what is not needed any more is stopped, what
// all had to say is announced once, and the requester is woken once. Split from that end, a kill in between would leave a group that is
// through and of which nobody hears; decided outside of its lock, the last two would each see the other one still at work.
import { type Group, isThrough } from "../core/group.ts";
import { announceAddress, isUnfinished, type Run } from "../core/run.ts";
import { wakeRaw } from "../core/wake.ts";
import type { Tx } from "../stores/database.ts";
import type { GroupResult } from "../stores/groups.ts";
import { isElsewhere } from "./announcing.ts";
import type { SubagentDeps } from "./deps.ts";
import { completeLine, groupMessage, type Member, stoppedNote, wakeText } from "./group-message.ts";
import { block, byHand, groupDelivery, type PostingDeps, render, unpostable } from "./posting.ts";
import { oneLine } from "./quoting.ts";

export type GroupDeps = PostingDeps & Pick<SubagentDeps, "groups" | "inbox" | "mail" | "clock">;

/** The reason of those that a complete group has no use for. */
export const NOT_NEEDED = "its group is complete without it";

/** How list, info and the requester's model are told. */
export const heldForGroup = ({ name }: Group): string => `held until the group "${oneLine(name)}" is complete`;

export interface Settling {
  /** Ends a member in the same transaction. */
  stop(run: Run): Promise<unknown>;
  /** Why nothing of it may be rendered now; null: it may. */
  readonly whyUnsaid: string | null;
}

export async function settleGroup(deps: GroupDeps, tx: Tx, group: Group, { stop, whyUnsaid }: Settling): Promise<void> {
  const members = await deps.runs.listGroup(group.id);
  if (!isThrough(group, members) || !(await deps.groups.complete(tx, group.id))) return;
  for (const one of members) if (isUnfinished(one.state)) await stop(one);
  const ended = await deps.runs.listGroup(group.id);
  // Ended on purpose, all of them: whoever did that has had an answer. The requester hears of it at its next turn.
  if (ended.every(({ state }) => state === "stopped")) {
    if (group.wakes) await deps.mail.addNote(tx, group.requesterSessionId, `group:${group.id}`, stoppedNote(group, ended));
    return;
  }
  const results = await deps.groups.results(group.id);
  const isPosted =
    group.announce === "together"
      ? await postTogether(deps, tx, group, { ended, results, whyUnsaid })
      : await postLine(deps, tx, group, ended);
  const isSeen = isPosted && !ended.some(isElsewhere);
  if (group.wakes) await wake(deps, tx, group, ended, { results, isSeen });
}

const hasFailed = ({ state }: Run): boolean => state !== "done" && state !== "stopped";

/** False: there is nothing to post, or nowhere to post it to. */
async function postTogether(
  deps: GroupDeps,
  tx: Tx,
  group: Group,
  { ended, results, whyUnsaid = null }: { ended: readonly Run[]; results: readonly GroupResult[]; whyUnsaid?: string | null },
): Promise<boolean> {
  const members = ended.map((run): Member => ({ run, message: messageOf(run, results) }));
  const said = members.flatMap(({ run, message }) => (message === null ? [] : [run]));
  const [first] = said;
  if (first === undefined) return false;
  if (first.announcing.when === "failures" && !ended.some(hasFailed)) {
    for (const run of said) await deps.runs.settle(tx, run, "skipped", "only failures are announced (subagents.announce)");
    return false;
  }
  const address = announceAddress(first);
  const channel = deps.channel(address.channel, address.account);
  const reason = whyUnsaid === null ? unpostable(deps, first) : byHand(first, whyUnsaid);
  const delivery = groupDelivery(first);
  await deps.groups.take(
    tx,
    said.map(({ id }) => id),
    delivery,
  );
  if (channel === null || reason !== null) {
    for (const run of said) await block(deps, tx, run, reason ?? "");
    return false;
  }
  const message = groupMessage(group, members, deps.clock.now());
  const parts = render(deps, channel, { run: first, address, message, about: `announcement of the group "${oneLine(group.name)}"` });
  for (const { id, generation } of said) await deps.runs.setDelivery(tx, id, "pending", undefined, generation);
  return deps.outbox.add(tx, { delivery, address, parts, runId: first.id });
}

/** Of the generation it is in; of one that was stopped nothing is said. */
function messageOf({ id, generation, state }: Run, results: readonly GroupResult[]): GroupResult["message"] {
  if (state === "stopped") return null;
  return results.find((one) => one.runId === id && one.generation === generation)?.message ?? null;
}

/** False: they are not posted, or not now, or not there. */
async function postLine(deps: GroupDeps, tx: Tx, group: Group, ended: readonly Run[]): Promise<boolean> {
  const [first] = ended;
  if (first === undefined || group.requesterRunId !== null || first.announce !== "post") return false;
  // Where successes are not posted, or later, a line about them would be the first thing people hear.
  if (first.announcing.when !== "always" || unpostable(deps, first) !== null) return false;
  const address = announceAddress(first);
  const channel = deps.channel(address.channel, address.account);
  const parts = channel?.render({ markdown: completeLine(group, ended), quiet: true }, address) ?? [];
  return deps.outbox.add(tx, { delivery: `group:v1:${group.id}`, address, parts });
}

/** A main session gets a turn, behind whatever it is at; a run that waits for its children is rung by the end of the last one. */
async function wake(
  deps: GroupDeps,
  tx: Tx,
  group: Group,
  ended: readonly Run[],
  { results, isSeen }: { results: readonly GroupResult[]; isSeen: boolean },
): Promise<void> {
  const notes = ended.flatMap((run) => (run.state === "stopped" ? [] : (results.find(({ runId }) => runId === run.id)?.note ?? [])));
  const text = wakeText(group, ended, { notes, isSeen });
  if (group.requesterRunId !== null) return deps.mail.addNote(tx, group.requesterSessionId, `group:${group.id}`, text);
  const { requesterKey: sessionKey, address, person } = group;
  const raw = wakeRaw({ sessionKey, address, person, message: ended[0]?.message ?? group.id, text });
  await deps.inbox.wake(tx, address, { key: group.id, sessionKey, raw });
}

/**
 * One of a complete group is not to be said any more, before anybody began to send it: the others' announcement is made anew without
 * it. False: it has been said, or has begun to be.
 */
export async function takeOutOfGroup(deps: GroupDeps, tx: Tx, run: Run): Promise<boolean> {
  const kept = await deps.groups.resultOf(run.id);
  // Without a message it has nothing to say in the group: announced one by one, it has said it itself.
  if (kept === null || kept.message === null || run.groupId === null || kept.generation !== run.generation) return false;
  const group = await deps.groups.get(run.groupId);
  if (group === null) return false;
  if (kept.delivery === null) {
    if (group.state === "complete") return false;
    await deps.groups.drop(tx, run.id);
    return true;
  }
  if (!(await deps.outbox.takeBack(tx, kept.delivery))) return false;
  await deps.groups.drop(tx, run.id);
  const others = (await deps.runs.listGroup(group.id)).filter(({ id }) => id !== run.id);
  await postTogether(deps, tx, group, { ended: others, results: await deps.groups.results(group.id) });
  return true;
}

/** Sends what was blocked again, with everybody in it. Null: it belongs to no such announcement; false: its channel is still off. */
export async function retryGroup(deps: GroupDeps, tx: Tx, run: Run): Promise<boolean | null> {
  const kept = run.groupId === null ? null : await deps.groups.resultOf(run.id);
  if (kept === null || kept.delivery === null || kept.generation !== run.generation || run.groupId === null) return null;
  const said = await deps.groups.listOfDelivery(kept.delivery);
  if ((await deps.outbox.requeueDelivery(tx, kept.delivery)) > 0) {
    for (const { runId, generation } of said) await deps.runs.setDelivery(tx, runId, "pending", undefined, generation);
    return true;
  }
  const group = await deps.groups.get(run.groupId);
  if (group === null || unpostable(deps, run) !== null) return false;
  return postTogether(deps, tx, group, { ended: await deps.runs.listGroup(group.id), results: await deps.groups.results(group.id) });
}
