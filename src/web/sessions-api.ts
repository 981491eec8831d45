// The routes of conversations on other channels: their list, what was said, stopping them, saying something there.
import { z } from "zod";
import { isUuid } from "../core/ids.ts";
import { safeParse } from "../core/safe-parse.ts";
import { json, problem, type Route, type WebRequest, wholeNumber } from "./http.ts";
import type { LogViews } from "./run-log.ts";
import type { Steered } from "./runs-api.ts";
import type { SessionDesk } from "./sessions.ts";

export interface SessionsApiOptions {
  sessions: SessionDesk;
  logs: LogViews;
}

const LIST_SIZE = 30;
const PAGE_SIZE = 40;
const MAX_WORDS = 16_000;
const NO_SESSION = problem(404, "There is no such conversation, or a new one has begun there since.");

const Words = z.strictObject({
  key: z.uuid(),
  text: z
    .string()
    .max(MAX_WORDS)
    .refine((text) => text.trim() !== ""),
});
const Nothing = z.strictObject({});

export function createSessionsRoutes(options: SessionsApiOptions): Route[] {
  const { sessions } = options;
  return [
    { method: "GET", path: "/api/sessions", access: "token", handle: (request) => list(request, sessions) },
    { method: "GET", path: "/api/sessions/:id", access: "token", handle: (request) => detail(request, sessions) },
    { method: "GET", path: "/api/sessions/:id/transcript", access: "token", handle: (request) => transcript(request, options) },
    { method: "POST", path: "/api/sessions/:id/stop", access: "token", handle: (request) => stop(request, sessions) },
    { method: "POST", path: "/api/sessions/:id/send", access: "token", handle: (request) => send(request, sessions) },
  ];
}

async function list({ query }: WebRequest, sessions: SessionDesk) {
  const after = query.get("after");
  if (after !== null && !isUuid(after)) return problem(400, "after is the id of a conversation.");
  return json(200, await sessions.list(after, LIST_SIZE));
}

async function detail({ params: { id = "" } }: WebRequest, sessions: SessionDesk) {
  const found = isUuid(id) ? await sessions.find(id) : null;
  return found === null ? NO_SESSION : json(200, found);
}

async function transcript({ params: { id = "" }, query }: WebRequest, { sessions, logs }: SessionsApiOptions) {
  const before = wholeNumber(query.get("before"));
  if (Number.isNaN(before)) return problem(400, "before is a whole number.");
  const page = isUuid(id) ? await sessions.transcript(id, { before, limit: PAGE_SIZE }) : null;
  if (page === null) return NO_SESSION;
  return json(200, { entries: await logs.toViews(id, page.entries), before: page.before });
}

async function stop(request: WebRequest, sessions: SessionDesk) {
  const { id = "" } = request.params;
  if (!safeParse(Nothing, await request.json()).success) return problem(400, "Send {}.");
  return toReply(isUuid(id) ? await sessions.stop(id) : null);
}

async function send(request: WebRequest, sessions: SessionDesk) {
  const { id = "" } = request.params;
  const body = safeParse(Words, await request.json());
  if (!body.success) return problem(400, `Send {"key": uuid, "text": 1 to ${MAX_WORDS} characters}.`);
  return toReply(isUuid(id) ? await sessions.send(id, body.data) : null);
}

function toReply(steered: Steered | null) {
  if (steered === null) return NO_SESSION;
  return steered.status === "done" ? json(200, { text: steered.text }) : problem(409, steered.text);
}
