// The routes of chats as a whole (WB3): other words for the last message, name, removal, search, export; and the commands the message
// box completes.
import { z } from "zod";
import { safeParse } from "../core/safe-parse.ts";
import { visibleLine } from "../core/visible-text.ts";
import type { WebChats } from "../stores/web-chats.ts";
import type { WebMessages } from "../stores/web-messages.ts";
import { MAX_TEXT_LENGTH, NO_CHAT, OFF, POST_ID, USED_ID } from "./api.ts";
import { exportChat } from "./chat-export.ts";
import { searchChats } from "./chat-search.ts";
import type { ChatDesk } from "./chats.ts";
import { json, problem, type Route, type WebRequest } from "./http.ts";

export interface ChatsApiOptions {
  readonly chats: ChatDesk;
  readonly messages: WebMessages;
  readonly webChats: Pick<WebChats, "search">;
  isChat(text: string): boolean;
  now(): number;
}

const MAX_TITLE = 80;
const MAX_QUERY = 200;

const Resend = z.object({ id: POST_ID, text: z.string().max(MAX_TEXT_LENGTH), replaces: POST_ID });
const Title = z.object({ title: z.string().max(1_000) });

export function createChatsRoutes(options: ChatsApiOptions): Route[] {
  const { chats } = options;
  const ofChat =
    (handle: (request: WebRequest, chat: string) => ReturnType<Route["handle"]>): Route["handle"] =>
    (request) => {
      const { chat = "" } = request.params;
      return options.isChat(chat) ? handle(request, chat) : NO_CHAT;
    };
  const route = (method: Route["method"], path: string, handle: Route["handle"]): Route => ({ method, path, access: "token", handle });
  return [
    route(
      "POST",
      "/api/chats/:chat/resend",
      ofChat((request, chat) => resend(request, chat, chats)),
    ),
    route(
      "POST",
      "/api/chats/:chat/title",
      ofChat((request, chat) => rename(request, chat, chats)),
    ),
    route(
      "GET",
      "/api/chats/:chat/about",
      ofChat(async (_request, chat) => json(200, await chats.about(chat))),
    ),
    route(
      "POST",
      "/api/chats/:chat/delete",
      ofChat(async (_request, chat) => removed(await chats.remove(chat))),
    ),
    route(
      "GET",
      "/api/chats/:chat/export",
      ofChat((request, chat) => download(request, chat, options)),
    ),
    route("GET", "/api/search", (request) => search(request, options)),
    route("GET", "/api/commands", () => json(200, { commands: chats.commands() })),
  ];
}

async function resend(request: WebRequest, chat: string, chats: ChatDesk) {
  const body = safeParse(Resend, await request.json());
  if (!body.success)
    return problem(400, `Send {"id": a lower-case uuid, "text": up to ${MAX_TEXT_LENGTH} characters, "replaces": a message's id}.`);
  const outcome = await chats.resend({ ...body.data, chat });
  if (outcome.status === "refused") return problem(409, outcome.text);
  if (outcome.status === "off") return OFF;
  if (outcome.status === "conflict") return USED_ID;
  return json(202, { id: body.data.id, status: outcome.status });
}

async function rename(request: WebRequest, chat: string, chats: ChatDesk) {
  const body = safeParse(Title, await request.json());
  if (!body.success) return problem(400, 'Send {"title": text}; an empty one takes the name away.');
  const title = visibleLine(body.data.title, MAX_TITLE);
  await chats.rename(chat, title === "" ? null : title);
  return json(200, { title: title === "" ? null : title });
}

const removed = (reason: string | null) => (reason === null ? json(200, { status: "deleted" }) : problem(409, reason));

async function search({ query }: WebRequest, options: ChatsApiOptions) {
  const words = (query.get("q") ?? "").trim();
  if (words.length < 2 || words.length > MAX_QUERY) return problem(400, `Search for 2 to ${MAX_QUERY} characters.`);
  return json(200, await searchChats(options, words));
}

async function download({ query }: WebRequest, chat: string, options: ChatsApiOptions) {
  const as = query.get("as") ?? "markdown";
  if (as !== "markdown" && as !== "json") return problem(400, 'A chat is exported as "markdown" or "json".');
  const { name, type, text } = await exportChat(options, chat, as);
  const headers = { "content-type": type, "content-disposition": `attachment; filename*=UTF-8''${encodeURIComponent(name)}` };
  return { status: 200, body: text, headers };
}
