// The routes of the board (WB4): its list, its totals, and steering runs from it. A route of its own for each thing that is done instead
// of a command in a chat: the run may have been asked for on another channel, and whoever has the page may steer all of them.
import { z } from "zod";
import type { Clock } from "../core/clock.ts";
import { isUuid } from "../core/ids.ts";
import { safeParse } from "../core/safe-parse.ts";
import { json, problem, type Route, type WebRequest, wholeNumber } from "./http.ts";
import { placeText, type RunLines, readFilter, readPlace } from "./runs.ts";

/** What became of it, in words. `late`: it is not as whoever pressed believed. */
export interface Steered {
  readonly status: "done" | "late";
  readonly text: string;
  /** The run that was sent out. */
  readonly runId?: string;
}

/** Whoever has the page steers runs of every channel. Null: there is no such run. */
export interface RunDesk {
  /** How many unfinished ones are below it. */
  below(id: string): Promise<number | null>;
  stop(ids: readonly string[]): Promise<Steered | null>;
  send(id: string, text: string): Promise<Steered | null>;
  /** `key`: the same press again is the same run. */
  again(
    id: string,
    wanted: { readonly key: string; readonly model?: string | undefined; readonly task?: string | undefined },
  ): Promise<Steered | null>;
  /** `generation`: as whoever pressed saw it. */
  raise(id: string, wanted: { readonly amount: string; readonly generation?: number | undefined }): Promise<Steered | null>;
}

export interface RunsApiOptions {
  lines: RunLines;
  desk: RunDesk;
  clock: Clock;
}

const PAGE_SIZE = 200;
const MAX_PAGE_SIZE = 500;
const MAX_IDS = 100;
const MAX_WORDS = 16_000;
const MAX_TASK = 50_000;
const NO_RUN = problem(404, "There is no such run.");

const words = (max: number) =>
  z
    .string()
    .max(max)
    .refine((text) => text.trim() !== "");
const Stop = z.strictObject({ also: z.array(z.uuid()).max(MAX_IDS).default([]) });
const Send = z.strictObject({ text: words(MAX_WORDS) });
const Again = z.strictObject({
  key: z.uuid(),
  model: z
    .string()
    .regex(/^\S{1,200}$/)
    .optional(),
  task: words(MAX_TASK).optional(),
});
const Raise = z.strictObject({ amount: z.string().max(20).default("x2"), generation: z.number().int().min(1).optional() });

export function createRunsRoutes(options: RunsApiOptions): Route[] {
  const { desk } = options;
  return [
    { method: "GET", path: "/api/board", access: "token", handle: (request) => list(request, options) },
    { method: "GET", path: "/api/board/totals", access: "token", handle: (request) => totals(request, options) },
    { method: "GET", path: "/api/runs/:id/below", access: "token", handle: (request) => below(request, desk) },
    steering("stop", Stop, '{"also": up to 100 other ids, or none}', (id, { also }) => desk.stop([id, ...also])),
    steering("send", Send, `{"text": 1 to ${MAX_WORDS} characters}`, (id, { text }) => desk.send(id, text)),
    steering("again", Again, '{"key": uuid, "model": name, "task": text}, the last two if they are to be others', (id, wanted) =>
      desk.again(id, wanted),
    ),
    steering("raise", Raise, '{"amount": "x2", "+0.50" or "+20k", "generation": number}', (id, wanted) => desk.raise(id, wanted)),
  ];
}

function steering<T>(action: string, form: z.ZodType<T>, said: string, act: (id: string, wanted: T) => Promise<Steered | null>): Route {
  return {
    method: "POST",
    path: `/api/runs/:id/${action}`,
    access: "token",
    async handle(request) {
      const { id = "" } = request.params;
      const body = safeParse(form, await request.json());
      if (!body.success) return problem(400, `Send ${said}.`);
      const steered = isUuid(id) ? await act(id, body.data) : null;
      if (steered === null) return NO_RUN;
      const { status, ...answer } = steered;
      return status === "done" ? json(200, answer) : problem(409, answer.text);
    },
  };
}

/** What is not of the filter. */
function splitQuery(query: URLSearchParams): { rest: URLSearchParams; own: (name: string) => string | null } {
  const rest = new URLSearchParams(query);
  for (const name of ["after", "limit", "ids"]) rest.delete(name);
  return { rest, own: (name) => query.get(name) };
}

async function list({ query }: WebRequest, { lines, clock }: RunsApiOptions) {
  const { rest, own } = splitQuery(query);
  const { filter, dropped } = readFilter(rest, clock.now());
  const ids = own("ids")?.split(",");
  if (ids !== undefined) {
    if (ids.length > MAX_IDS || !ids.every(isUuid)) return problem(400, `ids are at most ${MAX_IDS} ids of runs.`);
    return json(200, { rows: await lines.among(filter, ids) });
  }
  const limit = wholeNumber(own("limit")) ?? PAGE_SIZE;
  const after = own("after");
  const place = after === null ? null : readPlace(after);
  if (!(limit >= 1) || place === undefined) return problem(400, "after is what the page before ended with, limit a whole number.");
  const { rows, above, next } = await lines.page(filter, place, Math.min(limit, MAX_PAGE_SIZE));
  return json(200, { rows, above, next: next === null ? null : placeText(next), dropped });
}

async function totals({ query }: WebRequest, { lines, clock }: RunsApiOptions) {
  return json(200, await lines.totals(readFilter(query, clock.now()).filter));
}

async function below({ params: { id = "" } }: WebRequest, desk: RunDesk) {
  const count = isUuid(id) ? await desk.below(id) : null;
  return count === null ? NO_RUN : json(200, { count });
}
