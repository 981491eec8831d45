// Looking through what stands in a room: the one way to learn what became of a send whose answer nobody heard, once the server has
// forgotten its transaction. Everything of ours names its outbox row in its content; the server shows the transaction id besides, to
// whoever has the same sign-in.
import { z } from "zod";
import { safeParse } from "../../core/safe-parse.ts";
import { type Api, v3 } from "./api.ts";
import { eventId, OWN_FIELD, type Own, ownSchema, relation } from "./event.ts";

/** A message of ours as far as it is looked at. */
export interface Found {
  /** Of an edit: what it edits. */
  readonly ref: string;
  readonly isEdit: boolean;
  readonly own: Own;
  readonly transactionId: string | undefined;
}

export interface Place {
  readonly room: string;
  readonly me: string;
  /** Not older than this, by our clock. */
  readonly since: number;
}

const standing = z.object({
  event_id: eventId,
  sender: z.string(),
  origin_server_ts: z.number(),
  content: z.record(z.string(), z.unknown()).catch({}),
  unsigned: z
    .object({ transaction_id: z.string().optional().catch(undefined) })
    .optional()
    .catch(undefined),
});

/** The server's clock and ours may differ. */
const SKEW_MS = 5 * 60_000;
const PAGE = 100;
const MAX_PAGES = 20;

/**
 * What was said in a room, newest first, page by page; a page may be empty and not the last one, because servers leave out what the bot
 * may not see after they have cut it. Throws MatrixFailure.
 */
export async function* pagesBack(api: Api, room: string, query: Readonly<Record<string, string>>): AsyncGenerator<unknown[]> {
  for (let from = query.from; ; ) {
    const asked = { ...query, dir: "b", limit: String(PAGE), ...(from === undefined ? {} : { from }) };
    const { chunk, end } = await api.call("GET", v3("rooms", room, "messages"), { query: asked });
    yield Array.isArray(chunk) ? chunk : [];
    if (typeof end !== "string" || end === from || end === query.to) return;
    from = end;
  }
}

/** The newest there that fits; null: there is none. Throws when it can't be looked to the end. */
export async function findOwn(api: Api, { room, me, since }: Place, fits: (found: Found) => boolean): Promise<Found | null> {
  const filter = JSON.stringify({ types: ["m.room.message"], senders: [me] });
  let pages = 0;
  for await (const page of pagesBack(api, room, { filter })) {
    // Not seen to the end, so nothing can be concluded.
    if (++pages > MAX_PAGES) throw new Error("too many messages to look through");
    const events = page.flatMap((event) => safeParse(standing, event).data ?? []);
    const found = events
      .filter(({ sender }) => sender === me)
      .map(toFound)
      .find(fits);
    if (found !== undefined) return found;
    if (events.some(({ origin_server_ts: at }) => at < since - SKEW_MS)) return null;
  }
  return null;
}

function toFound({ event_id: id, content, unsigned }: z.output<typeof standing>): Found {
  const { data } = safeParse(relation, content["m.relates_to"]);
  const edited = data?.rel_type === "m.replace" ? (data.event_id ?? null) : null;
  return {
    ref: edited ?? id,
    isEdit: edited !== null,
    own: safeParse(ownSchema, content[OWN_FIELD]).data ?? {},
    transactionId: unsigned?.transaction_id,
  };
}
