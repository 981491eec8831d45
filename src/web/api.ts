// The routes behind the page: post, read back, listen; and whether we live. Every answer is JSON; every refusal says what to do.
// POST → channel.accept → 202 once durable; GET events → live.open → stream
import { z } from "zod";
import { safeParse } from "../core/safe-parse.ts";
import type { WebMessages } from "../stores/web-messages.ts";
import { cursorText, parseCursor } from "./cursor.ts";
import { json, problem, type Route, type WebRequest, wholeNumber } from "./http.ts";
import type { Live } from "./live.ts";
import type { MessageViews } from "./message-view.ts";

/** The receive side of the web channel (channels/web/channel.ts). */
export interface PostTaker {
  accept(post: {
    id: string;
    chat: string;
    text: string;
    kind: "message" | "button";
    files?: readonly string[];
  }): Promise<"accepted" | "known" | "conflict" | "off" | "no-file">;
  isChat(text: string): boolean;
}

export interface ApiOptions {
  channel: PostTaker;
  messages: WebMessages;
  views: MessageViews;
  live: Live;
  stage(): Stage;
  /** What keeps it from taking anything in; null when nothing does. */
  problem(): string | null;
}

/** Of the gateway behind the page. */
export type Stage = "starting" | "ready" | "stopping";

export const MAX_TEXT_LENGTH = 60_000;
const HISTORY_LIMIT = 100;
/** The settings may allow fewer. */
const MAX_FILES = 50;

// Fields the client makes up (a role, scopes) are dropped: rights come from the token alone.
export const POST_ID = z.string().regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
const Post = z
  .object({
    id: POST_ID,
    text: z.string().max(MAX_TEXT_LENGTH),
    kind: z.enum(["message", "button"]).default("message"),
    files: z.array(POST_ID).max(MAX_FILES).optional(),
  })
  .refine(({ text, files = [] }) => text.trim() !== "" || files.length > 0);

export const NO_CHAT = problem(404, "There is no such chat.");
export const OFF = problem(503, "Herald is not taking messages right now.", { "retry-after": "2" });
export const USED_ID = problem(409, "This id was used for another message. Send it with a new one.");

export function createApiRoutes(options: ApiOptions): Route[] {
  const { live, channel } = options;
  return [
    { method: "GET", path: "/healthz", access: "probe", handle: () => health(options.stage()) },
    { method: "GET", path: "/readyz", access: "probe", handle: () => readiness(options) },
    { method: "GET", path: "/api/chats", access: "token", handle: async () => json(200, { chats: await live.chats() }) },
    { method: "GET", path: "/api/runs", access: "token", handle: async () => json(200, { runs: await live.runs() }) },
    { method: "GET", path: "/api/chats/:chat/messages", access: "token", handle: (request) => history(request, options) },
    { method: "POST", path: "/api/chats/:chat/messages", access: "token", handle: (request) => post(request, channel) },
    { method: "GET", path: "/api/events", access: "token", handle: (request) => events(request, options) },
  ];
}

/** Alive: also while it lets running turns finish, or it would be killed for that. */
const health = (stage: Stage) => (stage === "starting" ? json(503, { status: stage }) : json(200, { status: "ok" }));

/** Alive is one thing, able to take messages another. The reason names folders, so it stands on the page and in the log only. */
function readiness({ stage, problem }: ApiOptions) {
  if (stage() !== "ready") return json(503, { status: stage() });
  const what = problem();
  if (what === null) return json(200, { status: "ok" });
  return json(503, { status: what.startsWith("PostgreSQL") ? what : "the state folder is gone" });
}

async function post(request: WebRequest, channel: PostTaker) {
  const { chat = "" } = request.params;
  if (!channel.isChat(chat)) return NO_CHAT;
  const body = safeParse(Post, await request.json());
  if (!body.success) {
    return problem(
      400,
      `Send {"id": a lower-case uuid, "text": 1 to ${MAX_TEXT_LENGTH} characters, "kind": "message" or "button"}; with "files": [ids of uploaded files] the text may be empty.`,
    );
  }
  const { files, ...words } = body.data;
  const outcome = await channel.accept({ ...words, chat, ...(files === undefined ? {} : { files }) });
  if (outcome === "off") return OFF;
  if (outcome === "conflict") return USED_ID;
  if (outcome === "no-file") return problem(410, "A file of this message is not here any more. Attach it again.");
  return json(202, { id: body.data.id, status: outcome });
}

async function history(request: WebRequest, { channel, messages, views }: ApiOptions) {
  const { chat = "" } = request.params;
  const beforeSeq = wholeNumber(request.query.get("before"));
  const limit = wholeNumber(request.query.get("limit")) ?? 30;
  if (!channel.isChat(chat)) return NO_CHAT;
  if (Number.isNaN(beforeSeq) || !(limit >= 1)) return problem(400, "before and limit are whole numbers.");
  const size = Math.min(limit, HISTORY_LIMIT);
  // Before the rows: what is changed while they are read comes once more with the stream, and takes the place of what is there.
  const editedAt = await messages.lastEdit(chat);
  const rows = await messages.list(chat, { ...(beforeSeq !== null && { beforeSeq }), limit: size + 1 });
  // Where the stream goes on from these rows: behind the last of them, whatever is posted meanwhile.
  const seq = beforeSeq === null ? (rows.at(-1)?.seq ?? 0) : await messages.lastSeq(chat);
  const cursor = cursorText({ seq, editedAt });
  const hasEarlier = rows.length > size;
  const shown = hasEarlier ? rows.slice(1) : rows;
  const isPlain = request.query.get("as") === "text";
  return json(200, { messages: isPlain ? views.toTexts(shown) : await views.toViews(shown), hasEarlier, cursor });
}

async function events(request: WebRequest, { channel, live }: ApiOptions) {
  const chat = request.query.get("chat") ?? "main";
  if (!channel.isChat(chat)) return NO_CHAT;
  const lastId = request.headers["last-event-id"];
  // A reconnecting browser repeats the old URL; what it really saw last stands in the header.
  const given = typeof lastId === "string" && lastId !== "" ? lastId : request.query.get("cursor");
  const cursor = given === null ? null : parseCursor(given);
  if (cursor === undefined) return problem(400, "The cursor is what a message or a history came with.");
  return (await live.open(request.response, { chat, cursor, browserId: request.browser?.id ?? null }))
    ? null
    : problem(503, "Too many tabs are open.", { "retry-after": "10" });
}
