// What is known of the rooms the bot is in: does somebody talk with it alone, can it read what is said? Asked when something is said
// there, and again when somebody came, went or turned encryption on.
import { z } from "zod";
import { safeParse } from "../../core/safe-parse.ts";
import { type Api, isRefused, v3 } from "./api.ts";
import { userId } from "./event.ts";
import { pagesBack } from "./history.ts";

export interface Room {
  readonly isDirect: boolean;
  readonly isEncrypted: boolean;
}

export interface Rooms {
  /** Throws MatrixFailure when the server can't be asked. */
  of(room: string): Promise<Room>;
  /** Something about it changed: who is there, or anything. */
  forget(room: string, what: "people" | "all"): void;
}

export interface RoomsOptions {
  readonly api: Api;
  me(): string;
  /** The settings name it: then its rules count, however few are there. */
  isListed(room: string): boolean;
}

const MAX_KEPT = 5_000;
/** So many were there at some time that it is direct with nobody ever again: who comes and goes is not asked any more. */
const CROWD = 10;
const MAX_PAGES = 10;

const member = z.object({
  state_key: userId,
  content: z.object({ membership: z.string() }),
  unsigned: z
    .object({ prev_content: z.object({ membership: z.string() }).optional().catch(undefined) })
    .optional()
    .catch(undefined),
});
type Member = z.output<typeof member>;

export function createRooms(options: RoomsOptions): Rooms {
  const kept = new Map<string, Room & { readonly isCrowd: boolean; readonly isListed: boolean }>();
  return {
    async of(id) {
      const known = kept.get(id);
      const isListed = options.isListed(id);
      if (known?.isListed === isListed) return known;
      const others = isListed ? CROWD : (await everIn(options, id)).length;
      const room = { isEncrypted: await isEncrypted(options.api, id), isDirect: others === 1, isCrowd: others >= CROWD, isListed };
      if (kept.size >= MAX_KEPT) kept.clear();
      kept.set(id, room);
      return room;
    },
    forget(id, what) {
      if (what === "all" || kept.get(id)?.isCrowd !== true) kept.delete(id);
    },
  };
}

async function isEncrypted(api: Api, room: string): Promise<boolean> {
  try {
    await api.call("GET", v3("rooms", room, "state", "m.room.encryption", ""));
    return true;
  } catch (error) {
    if (isRefused(error)) return false;
    throw error;
  }
}

/**
 * A room is direct with the bot and one other, when nobody else was ever there: the conversation of one person must not become the next one's, who came when
 * they had left (SE1). What a client calls direct says nothing about who reads along.
 *
 * Everybody but the bot who was ever in a room, as they are now; nobody, where it can't be looked at.
 */
export async function everIn({ api, me }: Pick<RoomsOptions, "api" | "me">, room: string): Promise<Member[]> {
  try {
    const { chunk } = await api.call("GET", v3("rooms", room, "members"));
    const members = (Array.isArray(chunk) ? chunk : []).flatMap((event) => safeParse(member, event).data ?? []);
    const others = members.filter(({ state_key: person }) => person !== me());
    const declined = others.filter(hasDeclined);
    const came = declined.length === 0 ? null : await whoCame(api, room, declined);
    return others.filter((one) => !hasDeclined(one) || came === null || came.has(one.state_key));
  } catch (error) {
    if (isRefused(error)) return [];
    throw error;
  }
}

/** Who was only invited and said no has read nothing. */
function hasDeclined({ content: { membership }, unsigned }: Member): boolean {
  const before = unsigned?.prev_content?.membership;
  return membership === "leave" && (before === "invite" || before === "knock");
}

/** Whoever is in a room can invite somebody who was there, and take it back: only what stands in the room tells. Null: it is too much. */
async function whoCame(api: Api, room: string, people: readonly Member[]): Promise<ReadonlySet<string> | null> {
  const asked = new Set(people.map(({ state_key: person }) => person));
  const came = new Set<string>();
  let pages = 0;
  for await (const page of pagesBack(api, room, { filter: JSON.stringify({ types: ["m.room.member"] }) })) {
    if (++pages > MAX_PAGES) return null;
    for (const { state_key: person, content, unsigned } of page.flatMap((event) => safeParse(member, event).data ?? [])) {
      const wasThere = content.membership === "join" || unsigned?.prev_content?.membership === "join";
      if (wasThere && asked.has(person)) came.add(person);
    }
  }
  return came;
}
