// The routes of set-up: for a browser that signed in, never for a script with the token alone, which may
// only have the files read anew. What can't be done is said beside the form.
import { z } from "zod";
import { AppError } from "../core/errors.ts";
import { safeParse } from "../core/safe-parse.ts";
import { json, problem, type Route, type WebRequest } from "./http.ts";
import type { Reply } from "./outgoing.ts";
import type { SetupDesk } from "./setup.ts";

const MAX_TEXT = 8_000;
const text = z.string().max(MAX_TEXT);
const values = z
  .record(z.string().max(100), z.union([text, z.boolean(), z.array(text).max(1000), z.null()]))
  .refine((fields) => Object.keys(fields).length <= 100);
const name = z.string().min(1).max(100);
const Touched = z.strictObject({ section: name, item: name.nullable(), values });
const Save = z.strictObject({ ...Touched.shape, version: name, isInsisted: z.boolean() });
const Removal = z.strictObject({ section: name, item: name, version: name });
const Nothing = z.strictObject({});

export function createSetupRoutes(desk: SetupDesk): Route[] {
  const post = <S extends z.ZodType>(path: string, schema: S, act: (body: z.output<S>) => Promise<Reply> | Reply): Route => ({
    method: "POST",
    path,
    access: "token",
    handle: (request) => inWords(request, schema, act),
  });
  return [
    { method: "GET", path: "/api/setup", access: "token", handle: async () => json(200, await desk.view()) },
    post("/api/setup/test", Touched, async (body) => json(200, await desk.test(body))),
    post("/api/setup/save", Save, async (body) => json(200, await desk.save(body))),
    post("/api/setup/remove", Removal, async (body) => json(200, await desk.remove(body))),
    // What SIGHUP does, for whoever has changed the files beside it.
    { method: "POST", path: "/api/setup/reload", access: "token", handle: async () => json(200, await desk.reload()) },
    post("/api/setup/restart", Nothing, async () =>
      (await desk.restart())
        ? json(200, { isRestarting: true })
        : problem(409, "Herald can't start itself anew here: stop it and start it again."),
    ),
  ];
}

/** Settings that can't be taken and files that can't be written are the operator's to change: they get the whole sentence. */
async function inWords<S extends z.ZodType>(
  request: WebRequest,
  schema: S,
  act: (body: z.output<S>) => Promise<Reply> | Reply,
): Promise<Reply> {
  if (request.browser === null) return problem(403, "Set-up is for a browser that signed in.");
  const body = safeParse(schema, await request.json());
  if (!body.success) return problem(400, "This is not what set-up sends. Reload the page.");
  try {
    return await act(body.data);
  } catch (error) {
    if (error instanceof AppError) return problem(error.code === "storage" ? 507 : 422, error.message);
    throw error;
  }
}
