// The routes of the board: one run with everything on record, its transcript page by page, and two runs side by side.
// Steering has no route of its own: a button posts its command into the chat that asked, like anybody's words. But for an
// announcement that could not be delivered: that chat may be on another channel, and it is what does not work.
import { isUuid } from "../core/ids.ts";
import type { RunDetail, RunDetails } from "./board.ts";
import { json, problem, type Route, type WebRequest, wholeNumber } from "./http.ts";
import type { QuestionDesk, QuestionViews } from "./questions.ts";
import type { Renderer } from "./rendering.ts";
import type { LogViews } from "./run-log.ts";

/** Sends a blocked announcement again. Null: there is no such run. */
export type Redeliver = (runId: string) => Promise<{ readonly isOnItsWay: boolean; readonly text: string } | null>;

export interface BoardApiOptions {
  details: RunDetails;
  questions: Pick<QuestionDesk, "ofRun">;
  questionViews: Pick<QuestionViews, "toViews">;
  logs: LogViews;
  redeliver: Redeliver;
  /** For what is rendered; all else is redacted on its way out. */
  redact(text: string): string;
  renderer: Pick<Renderer, "render">;
}

const PAGE_SIZE = 40;
const MAX_PAGE_SIZE = 100;
const NO_RUN = problem(404, "There is no such run.");

export function createBoardRoutes(options: BoardApiOptions): Route[] {
  return [
    { method: "GET", path: "/api/runs/:id", access: "token", handle: (request) => detail(request, options) },
    { method: "GET", path: "/api/runs/:id/transcript", access: "token", handle: (request) => transcript(request, options) },
    { method: "GET", path: "/api/runs/:id/task", access: "token", handle: (request) => task(request, options) },
    { method: "GET", path: "/api/runs/:id/related", access: "token", handle: (request) => related(request, options) },
    { method: "GET", path: "/api/runs/:id/compare/:other", access: "token", handle: (request) => compare(request, options) },
    { method: "POST", path: "/api/runs/:id/retry", access: "token", handle: (request) => retry(request, options) },
  ];
}

/** Asked for by who is no browser: words as they were written, nothing rendered. */
const isPlain = ({ query }: WebRequest): boolean => query.get("as") === "text";

async function detail(request: WebRequest, { details, questions, questionViews, redact, renderer }: BoardApiOptions) {
  const { id = "" } = request.params;
  const found = isUuid(id) ? await details.find(id) : null;
  if (found === null) return NO_RUN;
  if (isPlain(request)) return json(200, { ...found, questions: await questions.ofRun(id) });
  const view = await toDetailView(found, (text) => renderer.render(redact(text)));
  return json(200, { ...view, questions: await questionViews.toViews(await questions.ofRun(id)) });
}

/** The sections and a typed result are Markdown. Redacted before: marks inside a secret would hide it afterwards. */
async function toDetailView({ sections, data, ...rest }: RunDetail, toHtml: (text: string) => Promise<string>) {
  const written = Object.entries(sections ?? {}).flatMap(([name, text]) => (text === null ? [] : [{ name, text }]));
  const rendered = await Promise.all(written.map(async ({ name, text }) => ({ name, html: await toHtml(text) })));
  return { ...rest, sections: rendered, ...(data === undefined ? {} : { dataHtml: await toHtml(data) }) };
}

async function transcript(request: WebRequest, { details, logs }: BoardApiOptions) {
  const { query } = request;
  const { id = "" } = request.params;
  const before = wholeNumber(query.get("before"));
  const limit = wholeNumber(query.get("limit")) ?? PAGE_SIZE;
  if (Number.isNaN(before) || !(limit >= 1)) return problem(400, "before and limit are whole numbers.");
  const page = isUuid(id) ? await details.transcript(id, { before, limit: Math.min(limit, MAX_PAGE_SIZE) }) : null;
  if (page === null) return problem(404, "There is no transcript of this run.");
  const entries = isPlain(request) ? logs.toTexts(page.entries) : await logs.toViews(id, page.entries);
  return json(200, { entries, before: page.before });
}

async function task({ params: { id = "" } }: WebRequest, { details }: BoardApiOptions) {
  const found = isUuid(id) ? await details.task(id) : null;
  return found === null ? NO_RUN : json(200, found);
}

async function related({ params: { id = "" } }: WebRequest, { details }: BoardApiOptions) {
  const found = isUuid(id) ? await details.related(id) : null;
  return found === null ? NO_RUN : json(200, found);
}

async function compare({ params: { id = "", other = "" } }: WebRequest, { details }: BoardApiOptions) {
  if (id === other) return problem(400, "That is one and the same run.");
  const found = isUuid(id) && isUuid(other) ? await details.compare(id, other) : null;
  return found === null ? problem(404, "One of the two runs is not there.") : json(200, found);
}

async function retry({ params }: WebRequest, { redeliver }: BoardApiOptions) {
  const { id = "" } = params;
  const answer = isUuid(id) ? await redeliver(id) : null;
  if (answer === null) return NO_RUN;
  return answer.isOnItsWay ? json(200, { text: answer.text }) : problem(409, answer.text);
}
