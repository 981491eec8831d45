// Invitations: the bot goes where people ask it to who may talk to it, and nowhere else. Whoever may not gets no answer at all, and their
// invitation stays where it is; only the log names them, for whoever wants to let them in. Joining may take a remote server a minute, so
// nothing waits for it; what failed is tried again behind the next start, when all open invitations are looked at (sync.ts).
import { z } from "zod";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/logger.ts";
import { createRateLimit } from "../../core/rate-limit.ts";
import { safeParse } from "../../core/safe-parse.ts";
import { type Api, explainFailure, v3 } from "./api.ts";
import { noteDirect } from "./direct.ts";
import { roomId, userId } from "./event.ts";

export interface InviteDeps {
  readonly api: Api;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  me(): string;
  /** May this person have the bot come to that room? */
  mayInvite(person: string, room: string): Promise<boolean>;
}

export interface Invites {
  /** Returns once it is decided; what follows is nobody's to wait for. Throws when it can't be asked who may. */
  look(rooms: unknown): Promise<void>;
  /** Resolves when nothing is under way. */
  idle(): Promise<void>;
}

const invited = z.object({
  sender: userId,
  state_key: userId,
  type: z.literal("m.room.member"),
  content: z.object({ membership: z.literal("invite"), is_direct: z.boolean().optional().catch(undefined) }),
});

const JOIN_MS = 90_000;
const TRIES_MS = [2_000, 15_000, 60_000];
/** Anybody can invite as often as they like: more of them in a minute are not written down. */
const LOGGED = { burst: 20, refillMs: 60_000 };

export function createInvites(deps: InviteDeps): Invites {
  /** One after the other of each person: a server that is slow to be joined keeps nobody else's waiting. */
  const last = new Map<string, Promise<void>>();
  const known = new Set<string>();
  const logged = createRateLimit({ ...LOGGED, clock: deps.clock });
  const mayInvite = async (sender: string, room: string): Promise<boolean> => {
    if (await deps.mayInvite(sender, room)) return true;
    if (logged.take("denied")) deps.log.info({ audit: "denied", sender, chat: room, reason: "invited by an unknown person" }, "denied");
    return false;
  };
  return {
    async look(rooms) {
      if (typeof rooms !== "object" || rooms === null) return;
      for (const [room, body] of Object.entries(rooms)) {
        const invite = safeParse(roomId, room).success ? inviteOf(body, deps.me()) : null;
        if (invite === null || known.has(room) || !(await mayInvite(invite.sender, room))) continue;
        // Two may be looking.
        if (known.has(room)) continue;
        known.add(room);
        const { sender } = invite;
        const joined = (last.get(sender) ?? Promise.resolve()).then(() => join(deps, room, invite));
        const over = joined.finally(() => {
          known.delete(room);
          if (last.get(sender) === over) last.delete(sender);
        });
        last.set(sender, over);
      }
    },
    idle: async () => void (await Promise.all(last.values())),
  };
}

/** Null: nobody can be named who asks for us. */
function inviteOf(body: unknown, me: string): z.output<typeof invited> | null {
  const events: unknown = (body as { invite_state?: { events?: unknown } } | null)?.invite_state?.events;
  if (!Array.isArray(events)) return null;
  const own = events.flatMap((event) => safeParse(invited, event).data ?? []).find(({ state_key }) => state_key === me);
  return own ?? null;
}

async function join(deps: InviteDeps, room: string, { sender, content }: z.output<typeof invited>): Promise<void> {
  const { api, clock, log, signal } = deps;
  for (let tries = 0; !signal.aborted; tries++) {
    try {
      await api.call("POST", v3("rooms", room, "join"), { body: {}, timeoutMs: JOIN_MS });
      log.info({ audit: "joined", room, sender }, "joined a room");
      if (content.is_direct === true) await noteDirect(deps, sender, room);
      return;
    } catch (error) {
      const failure = explainFailure(error);
      const waitMs = failure.kind === "limited" ? Math.max(failure.afterMs, TRIES_MS[tries] ?? 0) : TRIES_MS[tries];
      if (failure.kind === "refused" || failure.kind === "auth" || waitMs === undefined)
        return log.warn({ room, sender, reason: failure.reason }, "an invitation could not be followed");
      await clock.sleep(waitMs, signal);
    }
  }
}
