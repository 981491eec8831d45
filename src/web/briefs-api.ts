// The routes of a run's briefs: what became of them, giving one, taking one back. Routes of their own instead of commands in a chat: what
// is wrong with a brief is said beside the form it was written in, and the run may belong to a chat of another channel.
import { z } from "zod";
import { isUuid } from "../core/ids.ts";
import { safeParse } from "../core/safe-parse.ts";
import type { BriefChanged, BriefDesk } from "./briefs.ts";
import { json, problem, type Route, type WebRequest } from "./http.ts";

const MAX_KEY = 2_048;
const NO_RUN = problem(404, "There is no such run.");
const version = z.number().int().min(0);
const key = z.string().min(1).max(MAX_KEY);

/** The brief itself is checked where its caps are. */
const Given = z.strictObject({ version, brief: z.unknown(), replaces: key.nullable() });
const Revoked = z.strictObject({ version, from: key });

export function createBriefsRoutes(desk: BriefDesk): Route[] {
  return [
    { method: "GET", path: "/api/runs/:id/brief", access: "token", handle: (request) => history(request, desk) },
    { method: "POST", path: "/api/runs/:id/brief", access: "token", handle: (request) => give(request, desk) },
    { method: "POST", path: "/api/runs/:id/brief/revoke", access: "token", handle: (request) => revoke(request, desk) },
  ];
}

async function history({ params: { id = "" } }: WebRequest, desk: BriefDesk) {
  const found = isUuid(id) ? await desk.history(id) : null;
  return found === null ? NO_RUN : json(200, found);
}

async function give(request: WebRequest, desk: BriefDesk) {
  const { id = "" } = request.params;
  const body = safeParse(Given, await request.json());
  if (!body.success)
    return problem(400, 'Send {"version": number, "brief": {"mission", "sharedMemory", "constraints"}, "replaces": key or null}.');
  return toReply(isUuid(id) ? await desk.give(id, { ...body.data, brief: body.data.brief ?? null }) : null);
}

async function revoke(request: WebRequest, desk: BriefDesk) {
  const { id = "" } = request.params;
  const body = safeParse(Revoked, await request.json());
  if (!body.success) return problem(400, 'Send {"version": number, "from": key}.');
  return toReply(isUuid(id) ? await desk.revoke(id, body.data) : null);
}

function toReply(changed: BriefChanged | null) {
  if (changed === null) return NO_RUN;
  if (changed.status === "taken") return json(200, { text: changed.text });
  return problem(changed.status === "late" ? 409 : 400, changed.text);
}
