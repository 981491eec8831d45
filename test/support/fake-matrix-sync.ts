// /sync of the fake homeserver: what happened since a token, held back until something does.
import type { ServerResponse } from "node:http";
import { type FakeEvent, type Room, type State, shown } from "./fake-matrix-state.ts";

interface Filter {
  room?: { timeline?: { limit?: number; types?: string[] }; state?: { types?: string[] } };
}

export async function syncAnswer(state: State, query: Record<string, string>, response: ServerResponse): Promise<object> {
  const since = query.since === undefined ? null : Number(query.since.slice(1));
  if (since !== null) state.confirmed = Math.max(state.confirmed, since);
  // It repeats, and never skips.
  const from = since === null ? null : Math.min(since, state.replayFrom ?? since);
  if (since !== null) state.replayFrom = null;
  const filter = JSON.parse(query.filter ?? "{}") as Filter;
  if (since !== null && !hasNews(state, from ?? 0)) await news(state, from ?? 0, Number(query.timeout ?? 0), response);
  return collect(state, from, filter);
}

const isIn = (state: State, room: Room): boolean => room.members.get(state.bot) === "join";

const hasNews = (state: State, since: number): boolean =>
  [...state.rooms.values()].some((room) =>
    isIn(state, room) ? room.events.some(({ pos }) => pos > since) : (room.invitedAt ?? 0) > since,
  );

function news(state: State, since: number, timeoutMs: number, response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      state.wakers.delete(look);
      resolve();
    };
    const look = (): void => {
      if (state.closed || response.destroyed || hasNews(state, since)) end();
    };
    const timer = setTimeout(end, timeoutMs);
    state.wakers.add(look);
    response.on("close", end);
  });
}

function collect(state: State, since: number | null, filter: Filter): object {
  const rooms = [...state.rooms.values()];
  const joined = rooms.filter((room) => isIn(state, room) && (since === null || room.events.some(({ pos }) => pos > since)));
  const invited = rooms.filter((room) => room.invitedAt !== null && room.invitedAt > (since ?? 0));
  return {
    next_batch: `s${state.pos}`,
    rooms: {
      join: Object.fromEntries(joined.map((room) => [room.id, roomBody(state, room, since, filter)])),
      invite: Object.fromEntries(invited.map((room) => [room.id, { invite_state: { events: inviteEvents(state, room) } }])),
    },
  };
}

function roomBody(state: State, room: Room, since: number | null, { room: wanted = {} }: Filter): object {
  const { limit = 20, types } = wanted.timeline ?? {};
  // Of a room the bot has just come to, everything counts as new.
  const from = since === null || room.joinedAt > since ? 0 : since;
  const fits = ({ type, sender }: FakeEvent): boolean => !state.ignored.has(sender) && (types?.includes(type) ?? true);
  const fitting = room.events.filter((event) => event.pos > from && fits(event));
  const events = fitting.slice(-limit);
  const isLimited = events.length < fitting.length;
  return {
    timeline: {
      events: events.map((event) => shown(state, room, event)),
      limited: isLimited,
      prev_batch: `t${(events[0]?.pos ?? state.pos + 1) - 1}`,
    },
    state: { events: [] },
  };
}

const inviteEvents = (state: State, room: Room): object[] =>
  room.events
    .filter(
      ({ type, state_key, content }) =>
        (type === "m.room.member" && state_key === state.bot && content.membership === "invite") || type === "m.room.encryption",
    )
    .map(({ type, sender, state_key, content }) => ({ type, sender, state_key, content }));
