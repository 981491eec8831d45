// Looking at single events of a room: what is answered or reacted to, and which numbers one of our own messages has given out. The
// server shows an edited message either with its last words in place of the first, or with the edit beside it: both are read.
import { z } from "zod";
import { safeParse } from "../../core/safe-parse.ts";
import { type Api, isRefused, v3 } from "./api.ts";
import { eventId, type Numbered, type Other, OWN_FIELD, ownSchema, userId } from "./event.ts";

const record = z.record(z.string(), z.unknown());

const seen = z.object({
  sender: userId,
  content: record.catch({}),
  unsigned: z
    .object({
      redacted_because: z.unknown().optional(),
      "m.relations": z
        .object({ "m.replace": z.object({ sender: userId, content: record }).optional().catch(undefined) })
        .optional()
        .catch(undefined),
    })
    .optional()
    .catch(undefined),
});

const thread = z.object({ rel_type: z.literal("m.thread"), event_id: eventId });

/** Null: nobody can read it, or there is nothing left to read. Throws MatrixFailure when the server can't be asked. */
export async function lookAt(api: Api, room: string, id: string): Promise<Other | null> {
  let answer: unknown;
  try {
    answer = await api.call("GET", v3("rooms", room, "event", id));
  } catch (error) {
    if (isRefused(error)) return null;
    throw error;
  }
  const { data } = safeParse(seen, answer);
  const redacted = data?.unsigned?.redacted_because;
  if (data === undefined || (redacted !== undefined && redacted !== null)) return null;
  const { sender, content, unsigned } = data;
  const edit = unsigned?.["m.relations"]?.["m.replace"];
  // An edit by somebody else is none.
  const latest = edit?.sender === sender ? safeParse(record, edit.content["m.new_content"]).data : undefined;
  const body = latest?.body ?? content.body;
  const inThread = safeParse(thread, content["m.relates_to"]).data?.event_id;
  return {
    ...{ sender, body: typeof body === "string" ? body.slice(0, 100_000).toWellFormed() : "" },
    ...(inThread === undefined ? {} : { thread: inThread }),
    buttons: safeParse(ownSchema, (latest ?? content)[OWN_FIELD]).data?.buttons ?? [],
  };
}

/** What our messages have given numbers to; kept for those that stand open, read from the room for all others. */
export interface Standing {
  /** Null: it is gone. Throws MatrixFailure. */
  numbers(room: string, id: string): Promise<readonly Numbered[] | null>;
  put(id: string, numbered: readonly Numbered[]): void;
  /** Something happened to it. */
  forget(id: string): void;
}

const MAX_KEPT = 1_000;

export function createStanding(api: Api): Standing {
  const kept = new Map<string, readonly Numbered[]>();
  const put = (id: string, numbered: readonly Numbered[]): void => {
    kept.delete(id);
    kept.set(id, numbered);
    const [oldest] = kept.keys();
    if (kept.size > MAX_KEPT && oldest !== undefined) kept.delete(oldest);
  };
  return {
    async numbers(room, id) {
      const known = kept.get(id);
      if (known !== undefined) return known;
      const found = await lookAt(api, room, id);
      if (found !== null) put(id, found.buttons);
      return found?.buttons ?? null;
    },
    put,
    forget: (id) => void kept.delete(id),
  };
}
