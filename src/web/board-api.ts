// The routes of the board: one run with everything on record, its transcript page by page, and who waits to be let in.
// Steering has no route of its own: a button posts its command into the chat that asked, like anybody's words.
import { z } from "zod";
import { isUuid } from "../core/ids.ts";
import { safeParse } from "../core/safe-parse.ts";
import type { PairingRequest } from "../stores/pairing.ts";
import type { RunDetail, RunDetails } from "./board.ts";
import { json, problem, type Route, type WebRequest, wholeNumber } from "./http.ts";
import { renderMarkdown } from "./markdown.ts";
import type { LogViews } from "./run-log.ts";

/** Who waits, and the operator's yes (SC1). */
export interface PairingDesk {
  listPending(): readonly PairingRequest[];
  /** Lets the person in and tells them; null when no such code waits (any more). */
  approve(code: string): PairingRequest | null;
}

export interface BoardApiOptions {
  details: RunDetails;
  logs: LogViews;
  pairing: PairingDesk;
  /** For what is rendered; all else is redacted on its way out. */
  redact(text: string): string;
}

type PairingView = Pick<PairingRequest, "code" | "channel" | "senderId" | "senderName" | "expiresAt">;

const PAGE_SIZE = 40;
const MAX_PAGE_SIZE = 100;
const NO_RUN = problem(404, "There is no such run.");

const Approval = z.object({ code: z.string().min(1).max(40) });

export function createBoardRoutes(options: BoardApiOptions): Route[] {
  return [
    { method: "GET", path: "/api/runs/:id", access: "token", handle: (request) => detail(request, options) },
    { method: "GET", path: "/api/runs/:id/transcript", access: "token", handle: (request) => transcript(request, options) },
    { method: "GET", path: "/api/pairing", access: "token", handle: () => json(200, { waiting: pairingViews(options.pairing) }) },
    { method: "POST", path: "/api/pairing", access: "token", handle: (request) => approve(request, options) },
  ];
}

export const pairingViews = (pairing: Pick<PairingDesk, "listPending">): PairingView[] => pairing.listPending().map(toPairingView);

/** Without the chat they wrote from: the page has no use for it. */
const toPairingView = ({ code, channel, senderId, senderName, expiresAt }: PairingRequest): PairingView => ({
  code,
  channel,
  senderId,
  senderName,
  expiresAt,
});

function detail({ params }: WebRequest, { details, redact }: BoardApiOptions) {
  const { id = "" } = params;
  const found = isUuid(id) ? details.find(id) : null;
  return found === null ? NO_RUN : json(200, toDetailView(found, redact));
}

/** The brief and the sections are Markdown a model wrote. Redacted before: marks inside a secret would hide it afterwards. */
function toDetailView({ brief, sections, ...rest }: RunDetail, redact: (text: string) => string) {
  const toHtml = (text: string): string => renderMarkdown(redact(text));
  const rendered = Object.entries(sections ?? {}).flatMap(([name, text]) => (text === null ? [] : [{ name, html: toHtml(text) }]));
  return { ...rest, sections: rendered, ...(brief === undefined ? {} : { briefHtml: toHtml(brief) }) };
}

async function transcript({ params, query }: WebRequest, { details, logs }: BoardApiOptions) {
  const { id = "" } = params;
  const before = wholeNumber(query.get("before"));
  const limit = wholeNumber(query.get("limit")) ?? PAGE_SIZE;
  if (Number.isNaN(before) || !(limit >= 1)) return problem(400, "before and limit are whole numbers.");
  const page = isUuid(id) ? details.transcript(id, { before, limit: Math.min(limit, MAX_PAGE_SIZE) }) : null;
  if (page === null) return problem(404, "There is no transcript of this run.");
  return json(200, { entries: await logs.toViews(id, page.entries), before: page.before });
}

async function approve(request: WebRequest, { pairing }: BoardApiOptions) {
  const body = safeParse(Approval, await request.json());
  if (!body.success) return problem(400, 'Send {"code": "…"}.');
  const person = pairing.approve(body.data.code);
  return person === null
    ? problem(404, "This code is not waiting any more. Codes live for one hour.")
    : json(200, { approved: toPairingView(person) });
}
