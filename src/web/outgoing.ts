// The one way out of the page's server. Whatever a route answers or streams becomes bytes here and nowhere else, and on
// the way every text in it passes the redactor: a field that should not have been there still carries no secret (SC4).
// route → Reply → reply() → socket;  live.ts → event() → Clean → sse.ts → socket
import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Attachment } from "../core/attachment.ts";
import { ownFile } from "../core/own-files.ts";

export interface Reply {
  readonly status: number;
  /** Sent as JSON; text goes out as text, with the `content-type` of `headers`. */
  readonly body?: unknown;
  /** A file the page is made of, or several as one, instead of a body. */
  readonly file?: URL | readonly URL[];
  /** What a person or an agent attached, instead of a body: as it is, because it is theirs. `isInline`: a picture. */
  readonly download?: { readonly file: Attachment; readonly bytes: Buffer; readonly isInline: boolean };
  readonly headers?: Readonly<Record<string, string>>;
}

declare const clean: unique symbol;
/** Text that passed the redactor. Only this file makes it, and a stream takes nothing else. */
export type Clean = string & { readonly [clean]: true };

/** What a stream may do with a response; a route gets it as this, so that it can't write past the redactor. */
export interface Outlet extends Pick<ServerResponse, "destroyed" | "writableEnded" | "writableLength" | "writableNeedDrain"> {
  on(event: "drain" | "close", listener: () => void): unknown;
  writeHead(status: number, headers: Readonly<Record<string, string>>): unknown;
  /** False when the peer has not taken all of it yet. */
  write(chunk: Clean): boolean;
  end(): unknown;
  destroy(): unknown;
}

export interface Outgoing {
  /** Writes a reply unless the peer is gone. A refused request with an unread body ends its connection. */
  reply(req: IncomingMessage, res: ServerResponse, reply: Reply): Promise<void>;
  /** One server-sent event. `id` marks a durable one: the tab sends the last one back when it reconnects. */
  event(name: string, data: unknown, id?: string): Clean;
}

/** On every answer. No inline script or style, nothing from another host, no framing, no CORS, nothing cached. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; trusted-types herald lit-html",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
};

/** How soon a tab comes back, and the sign of life between events: ours to the last byte. */
export const RETRY = "retry: 1000\n\n" as Clean;
export const BEAT = ": beat\n\n" as Clean;

const PAGE_FOLDER = ownFile("src/web/page/");
const LIBRARY_FILE = /\/node_modules\/(?:lit-html|uplot)\/[\w./-]+\.(?:js|css)$/;

export function createOutgoing(redact: (text: string) => string): Outgoing {
  const replacer = (_name: string, value: unknown): unknown => {
    if (typeof value === "string") return redact(value);
    // A name can be somebody's text too. Arrays and plain values have none.
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [redact(name), inner]));
  };
  // One look at the whole is ten times quicker than one at each text, and nearly always finds nothing. What it can't see is
  // a secret inside JSON inside JSON, escaped twice; then, and when there is something, each text is looked at by itself.
  const json = (value: unknown): string => {
    const text = JSON.stringify(value);
    return text.includes("\\\\") || redact(text) !== text ? JSON.stringify(value, replacer) : text;
  };

  return {
    async reply(req, res, reply) {
      const { body, type } = await contentOf(reply, redact, json);
      if (res.headersSent || res.destroyed) return;
      const close = req.complete || !hasBody(req) ? {} : { connection: "close" };
      const own = Object.entries(reply.headers ?? {}).map(([name, value]) => [name, redact(value)]);
      const headers = { ...SECURITY_HEADERS, ...type, "content-length": Buffer.byteLength(body), ...close };
      res.writeHead(reply.status, { ...headers, ...Object.fromEntries(own) });
      res.end(body);
    },
    event: (name, data, id) => `${id === undefined ? "" : `id: ${id}\n`}event: ${name}\ndata: ${json(data)}\n\n` as Clean,
  };
}

async function contentOf(
  { body, file, download }: Reply,
  redact: (text: string) => string,
  json: (value: unknown) => string,
): Promise<{ body: string | Buffer; type?: Record<string, string> }> {
  if (download !== undefined) return { body: download.bytes, type: downloadHeaders(download) };
  if (file === undefined) {
    if (typeof body === "string") return { body: redact(body) };
    return { body: json(body), type: { "content-type": "application/json; charset=utf-8" } };
  }
  // What the page is made of goes out as it is: it holds nothing of the gateway's, and somebody whose database password is
  // "password" must not get a page with that word replaced in its scripts. That's why no other file may take this way.
  const files = file instanceof URL ? [file] : file;
  if (!files.every(({ href }) => href.startsWith(PAGE_FOLDER.href) || LIBRARY_FILE.test(href)))
    throw new Error("only the page's own files are sent as they are");
  return { body: Buffer.concat(await Promise.all(files.map((one) => readFile(one)))) };
}

/** Opened by itself it could do nothing either: no script, no frame, no origin of ours. */
function downloadHeaders({ file, isInline }: NonNullable<Reply["download"]>): Record<string, string> {
  const name = encodeURIComponent(file.name).replace(/['()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`);
  return {
    "content-type": isInline ? file.type : "application/octet-stream",
    "content-disposition": `${isInline ? "inline" : "attachment"}; filename*=UTF-8''${name}`,
    "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
  };
}

const hasBody = (req: IncomingMessage): boolean =>
  req.headers["transfer-encoding"] !== undefined || Number(req.headers["content-length"] ?? 0) > 0;
