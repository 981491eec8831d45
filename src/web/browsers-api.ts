// The routes of signing in and out, and the list of signed-in browsers: where each was last seen, and how to end it.
import { z } from "zod";
import { safeParse } from "../core/safe-parse.ts";
import type { Browser } from "../stores/browsers.ts";
import type { Gate } from "./gate.ts";
import { json, problem, type Route, type WebRequest } from "./http.ts";
import type { SignIns } from "./sign-ins.ts";

export interface BrowsersApiOptions {
  gate: Pick<Gate, "signIn" | "signOut">;
  signIns: SignIns;
  /** Some were ended: their streams must be closed. */
  onEnded(): Promise<void>;
}

const Login = z.object({ token: z.string().min(1).max(200) });
const Ending = z.union([z.object({ id: z.string().min(1).max(40) }), z.object({ others: z.literal(true) })]);

export function createBrowsersRoutes(options: BrowsersApiOptions): Route[] {
  return [
    { method: "POST", path: "/api/login", access: "public", handle: (request) => login(request, options) },
    { method: "POST", path: "/api/logout", access: "token", handle: (request) => logout(request, options) },
    { method: "GET", path: "/api/browsers", access: "token", handle: (request) => list(request, options) },
    { method: "POST", path: "/api/browsers/end", access: "token", handle: (request) => end(request, options) },
  ];
}

async function login(request: WebRequest, { gate, onEnded }: BrowsersApiOptions) {
  const body = safeParse(Login, await request.json());
  if (!body.success) return problem(400, 'Send {"token": "…"}.');
  const reply = await gate.signIn(request, body.data.token);
  await onEnded();
  return reply;
}

async function logout(request: WebRequest, { gate, signIns, onEnded }: BrowsersApiOptions) {
  if (request.browser === null) return problem(400, "There is no browser to sign out: this call came with the token.");
  await signIns.end(request.browser.id);
  await onEnded();
  return gate.signOut(request);
}

async function list({ browser }: WebRequest, { signIns }: BrowsersApiOptions) {
  const view = (one: Browser) => ({ ...one, isThis: one.id === browser?.id });
  return json(200, { browsers: (await signIns.list()).map(view) });
}

async function end(request: WebRequest, { signIns, onEnded }: BrowsersApiOptions) {
  const body = safeParse(Ending, await request.json());
  if (!body.success) return problem(400, 'Send {"id": "…"}, or {"others": true} for all but this one.');
  const ended = "id" in body.data ? Number(await signIns.end(body.data.id)) : await signIns.endOthers(request.browser?.id ?? null);
  await onEnded();
  return "id" in body.data && ended === 0 ? problem(404, "This browser is not signed in any more.") : json(200, { ended });
}
