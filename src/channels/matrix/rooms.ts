// What is known of the rooms the bot is in: does somebody talk with it alone, can it read what is said? Asked when something is said
// there, and again when somebody came, went or turned encryption on.
import { z } from "zod";
import { safeParse } from "../../core/safe-parse.ts";
import { type Api, isRefused, v3 } from "./api.ts";
import { userId } from "./event.ts";

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
  const kept = new Map<string, Room & { readonly isCrowd: boolean }>();
  return {
    async of(id) {
      const known = kept.get(id);
      if (known !== undefined && !(known.isDirect && options.isListed(id))) return known;
      const others = options.isListed(id) ? CROWD : await othersIn(options, id);
      const room = { isEncrypted: await isEncrypted(options.api, id), isDirect: others === 1, isCrowd: others >= CROWD };
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
 */
async function othersIn({ api, me }: RoomsOptions, room: string): Promise<number> {
  try {
    const { chunk } = await api.call("GET", v3("rooms", room, "members"));
    const members = (Array.isArray(chunk) ? chunk : []).flatMap((event) => safeParse(member, event).data ?? []);
    return members.filter((one) => one.state_key !== me() && wasThere(one)).length;
  } catch (error) {
    if (isRefused(error)) return 0;
    throw error;
  }
}

/** Who was only invited and said no has read nothing. */
function wasThere({ content: { membership }, unsigned }: Member): boolean {
  const before = unsigned?.prev_content?.membership;
  return membership !== "leave" || (before !== "invite" && before !== "knock");
}
