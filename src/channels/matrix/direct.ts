// The direct room with a person, whom a result may be addressed to by their id alone (AP1). The account's own list of such rooms is
// asked first; a room is made where there is none. A lost answer may leave a second one behind, empty: nothing is said before the
// room's id is known.
import { z } from "zod";
import type { Address } from "../../core/address.ts";
import type { SendResult } from "../../core/message.ts";
import { safeParse } from "../../core/safe-parse.ts";
import { type Api, type ApiFailure, explainFailure, isRefused, v3 } from "./api.ts";
import { roomId } from "./event.ts";
import { everIn } from "./rooms.ts";

export interface DirectDeps {
  readonly api: Api;
  me(): string;
}

const listed = z.record(z.string(), z.array(z.unknown()).max(1_000));

/** `retarget` to the room, or what went wrong. Never throws. */
export async function openDirectRoom(
  deps: DirectDeps,
  address: Address,
  toResult: (failure: ApiFailure) => SendResult,
): Promise<SendResult> {
  const person = address.chat;
  try {
    const chat = (await roomWith(deps, person)) ?? (await makeRoom(deps, person));
    return { status: "retarget", address: { ...address, chat }, reason: "the direct room was opened" };
  } catch (error) {
    const failure = explainFailure(error);
    // Nothing was said, whatever became of the answer.
    return failure.kind === "lost" ? { status: "retry", reason: failure.reason } : toResult(failure);
  }
}

/** Somebody who has left it would not hear of anything said there, and nobody else is to (SE1). */
async function roomWith(deps: DirectDeps, person: string): Promise<string | null> {
  const [known, joined] = [await directRooms(deps), await joinedRooms(deps)];
  for (const room of known[person] ?? []) {
    if (typeof room !== "string" || !joined.has(room)) continue;
    const [first, ...others] = await everIn(deps, room);
    const isThere = first?.state_key === person && ["join", "invite"].includes(first.content.membership);
    if (isThere && others.length === 0) return room;
  }
  return null;
}

/** Rooms by person, as clients keep them. */
async function directRooms({ api, me }: DirectDeps): Promise<z.output<typeof listed>> {
  try {
    return safeParse(listed, await api.call("GET", v3("user", me(), "account_data", "m.direct"))).data ?? {};
  } catch (error) {
    if (isRefused(error)) return {};
    throw error;
  }
}

async function joinedRooms({ api }: DirectDeps): Promise<ReadonlySet<string>> {
  const { joined_rooms: rooms } = await api.call("GET", v3("joined_rooms"));
  return new Set((Array.isArray(rooms) ? rooms : []).filter((one) => typeof one === "string"));
}

async function makeRoom(deps: DirectDeps, person: string): Promise<string> {
  const body = { is_direct: true, preset: "trusted_private_chat", invite: [person] };
  const answer = await deps.api.call("POST", v3("createRoom"), { body });
  const room = roomId.parse(answer.room_id);
  // Not noted, another one is made the next time. Given up because of it, another one would be made now, and at each further try.
  await noteDirect(deps, person, room).catch(explainFailure);
  return room;
}

/** A person has asked for a direct chat: it is one from now on. Throws MatrixFailure. */
export async function noteDirect(deps: DirectDeps, person: string, room: string): Promise<void> {
  const known = await directRooms(deps);
  if ((known[person] ?? []).includes(room)) return;
  await deps.api.call("PUT", v3("user", deps.me(), "account_data", "m.direct"), {
    body: { ...known, [person]: [...(known[person] ?? []), room] },
  });
}
