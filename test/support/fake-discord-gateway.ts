// The fake's gateway: HELLO, IDENTIFY, RESUME, heartbeats; what a session was told stays with it until Discord forgets the session, so
// that whoever resumes hears what is missing.
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { channelJson, nextId, type Session, type State, wake } from "./fake-discord-state.ts";
import { acceptWebSocket, type ServerSocket } from "./websocket-server.ts";

interface Frame {
  op: number;
  d: unknown;
}

export function acceptSocket(state: State, request: IncomingMessage, stream: Duplex): void {
  state.connections++;
  if (state.isDown) return void stream.destroy();
  let session: Session | null = null;
  const socket: ServerSocket = acceptWebSocket(request, stream, {
    text(text) {
      const frame = JSON.parse(text) as Frame;
      if (frame.op === 1) beat(state, socket, session, frame);
      if (frame.op === 2) session = identify(state, socket, frame);
      if (frame.op === 6) session = resume(state, socket, frame);
      wake(state);
    },
    closed() {
      state.sockets = state.sockets.filter((one) => one !== socket);
      if (session?.socket === socket) session.socket = null;
      wake(state);
    },
  });
  state.sockets.push(socket);
  socket.send(JSON.stringify({ op: 10, d: { heartbeat_interval: state.heartbeatMs } }));
  wake(state);
}

function beat(state: State, socket: ServerSocket, session: Session | null, { d }: Frame): void {
  state.beats++;
  if (session !== null && typeof d === "number") session.confirmed = Math.max(session.confirmed, d);
  socket.send(JSON.stringify({ op: 11 }));
}

function identify(state: State, socket: ServerSocket, { d }: Frame): Session | null {
  state.identifies++;
  state.startsLeft--;
  const { token } = d as { token: string };
  const refusal = token === state.token ? state.refusal : 4004;
  if (refusal !== null) {
    socket.close(refusal);
    return null;
  }
  const id = `session-${state.nextSession++}`;
  const session: Session = { id, seq: 0, events: [], confirmed: 0, socket };
  state.sessions.set(id, session);
  const user = { id: state.botId, username: "herald", bot: true };
  tell(session, "READY", {
    v: 10,
    user,
    session_id: id,
    resume_gateway_url: `${state.origin.replace("http", "ws")}/resume`,
    application: { id: state.appId, flags: state.applicationFlags },
    guilds: [{ id: state.guild, unavailable: true }],
  });
  tell(session, "GUILD_CREATE", guildJson(state));
  return session;
}

function guildJson(state: State): object {
  if (state.isGuildOut) return { id: state.guild, unavailable: true };
  const channels = [...state.channels.values()];
  return {
    id: state.guild,
    channels: channels.filter(({ type }) => type === 0).map((one) => channelJson(state, one)),
    threads: channels.filter(({ type }) => type === 11).map((one) => channelJson(state, one)),
  };
}

/** An outage of the server alone; whoever is connected is told of its end. */
export function setGuildOut(state: State, isOut: boolean): void {
  state.isGuildOut = isOut;
  if (!isOut) dispatch(state, "GUILD_CREATE", guildJson(state));
}

function resume(state: State, socket: ServerSocket, { d }: Frame): Session | null {
  state.resumes++;
  const { token, session_id, seq } = d as { token: string; session_id: string; seq: number };
  const session = state.sessions.get(session_id);
  if (token !== state.token) {
    socket.close(4004);
    return null;
  }
  if (state.isMute) return null;
  if (session === undefined || state.isPutOff) {
    socket.send(JSON.stringify({ op: 9, d: session !== undefined }));
    return null;
  }
  session.socket = socket;
  session.confirmed = Math.max(session.confirmed, seq);
  for (const event of session.events) if (event.s > seq) socket.send(JSON.stringify({ op: 0, ...event }));
  tell(session, "RESUMED", {});
  return session;
}

function tell(session: Session, t: string, d: unknown): void {
  const event = { s: ++session.seq, t, d };
  session.events.push(event);
  session.socket?.send(JSON.stringify({ op: 0, ...event }));
}

/** Everybody who has a session hears of it, now or when they resume. */
export function dispatch(state: State, t: string, d: unknown): void {
  for (const session of state.sessions.values()) tell(session, t, d);
  wake(state);
}

/** What no session of the app has confirmed. */
export function unconfirmed(state: State): number {
  const session = [...state.sessions.values()].at(-1);
  if (session === undefined) return 0;
  return session.events.filter(({ s, t }) => s > session.confirmed && (t === "MESSAGE_CREATE" || t === "INTERACTION_CREATE")).length;
}

export const newToken = (state: State): string => `token_${nextId(state)}`;
