// Several announcements in one message: homeservers count what a user sends, so what has to wait for its turn anyway goes out together.
// Each is whole; nothing is shortened for it.
import type { Pace, Part } from "../../core/message.ts";
import { escapeHtml } from "./html.ts";
import { MAX_LENGTH, type MatrixPart } from "./render.ts";

/**
 * Nobody publishes a limit, each server has its own: Synapse takes ten at once and then one every five seconds of a user without
 * privileges. Messages go ahead of that and heed what a server says; edits, of which there are many, keep to it.
 */
export const MATRIX_PACE: Pace = {
  chat: { burst: 5, everyMs: 1_010, answersOnTop: 5 },
  editEveryMs: { alone: 5_000, group: 5_000 },
};

const BETWEEN = "\n\n――――――――――\n\n";
const MAX_HTML = 20_000;
/** Anything else (choices, a file, a reply) belongs to one message and can't be shared. */
const SHARED: ReadonlySet<string> = new Set<keyof MatrixPart>(["body", "html", "thread"]);

/** Null when they don't fit into one message. */
export function joinParts(parts: readonly Part[]): Part | null {
  const all = parts as readonly MatrixPart[];
  const [first] = all;
  if (first === undefined || all.some((part) => Object.keys(part).some((key) => !SHARED.has(key)))) return null;
  const body = all.map((part) => part.body).join(BETWEEN);
  const html = all.map((part) => part.html ?? escapeHtml(part.body).replaceAll("\n", "<br/>")).join("<hr/>");
  return body.length > MAX_LENGTH || html.length > MAX_HTML ? null : { ...first, body, html };
}
