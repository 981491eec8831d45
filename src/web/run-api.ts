// The routes of one open run beside its record (board-api.ts): a whole entry piece by piece, its documents, what its steps cost; and which
// tab has it open, for what it writes meanwhile.
import { z } from "zod";
import { isUuid } from "../core/ids.ts";
import { safeParse } from "../core/safe-parse.ts";
import { json, problem, type Route, type WebRequest, wholeNumber } from "./http.ts";
import type { Live } from "./live.ts";
import type { LogViews } from "./run-log.ts";
import type { RunRecord } from "./run-record.ts";

export interface RunApiOptions {
  record: RunRecord;
  logs: Pick<LogViews, "pieceOf">;
  live: Pick<Live, "watch">;
}

const uuid = z.string().refine(isUuid);
const Watch = z.strictObject({ tab: uuid, run: uuid.nullable() });
const NO_RUN = problem(404, "There is no such run.");
/** The names documents have (subagents/documents/). */
const DOCUMENT = /^[A-Za-z0-9][A-Za-z0-9.-]{0,100}\.md$/;

export function createRunRoutes(options: RunApiOptions): Route[] {
  const { record, live } = options;
  return [
    { method: "GET", path: "/api/runs/:id/entries/:position", access: "token", handle: (request) => entry(request, options) },
    { method: "GET", path: "/api/runs/:id/documents", access: "token", handle: (request) => documents(request, record) },
    { method: "GET", path: "/api/runs/:id/documents/:name", access: "token", handle: (request) => document(request, record) },
    { method: "GET", path: "/api/runs/:id/spend", access: "token", handle: (request) => spend(request, record) },
    { method: "POST", path: "/api/watch", access: "token", handle: (request) => watch(request, live) },
  ];
}

async function entry({ params: { id = "", position = "" }, query }: WebRequest, { record, logs }: RunApiOptions) {
  const at = wholeNumber(position);
  const from = wholeNumber(query.get("from")) ?? 0;
  if (at === null || Number.isNaN(at) || Number.isNaN(from))
    return problem(400, "An entry is named by its position, from is a whole number.");
  const found = isUuid(id) ? await record.entry(id, at) : null;
  return found === null ? problem(404, "This entry is not there any more.") : json(200, logs.pieceOf(found, from));
}

async function documents({ params: { id = "" } }: WebRequest, record: RunRecord) {
  const found = isUuid(id) ? await record.documents(id) : null;
  return found === null ? NO_RUN : json(200, { documents: found });
}

async function document({ params: { id = "", name = "" } }: WebRequest, record: RunRecord) {
  const found = isUuid(id) && DOCUMENT.test(name) ? await record.document(id, name) : null;
  return found === null ? problem(404, "There is no such document.") : json(200, found);
}

async function spend({ params: { id = "" } }: WebRequest, record: RunRecord) {
  const found = isUuid(id) ? await record.spend(id) : null;
  return found === null ? NO_RUN : json(200, found);
}

async function watch(request: WebRequest, live: Pick<Live, "watch">) {
  const body = safeParse(Watch, await request.json());
  if (!body.success) return problem(400, 'Send {"tab": the id its stream began with, "run": a run\'s id or null}.');
  const { tab, run } = body.data;
  return live.watch(tab, run) ? json(200, {}) : problem(404, "There is no such tab.");
}
