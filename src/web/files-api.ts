// The routes of attachments: a file is uploaded before the message it goes with, and read back by its id. Whatever it is, nothing of it
// runs: pictures of known kinds go out as what they are, all else as bytes to be saved, and no browser may guess (SC3).
import { type Attachment, isPicture } from "../core/attachment.ts";
import { json, problem, type Route, type WebRequest } from "./http.ts";
import type { Reply } from "./outgoing.ts";

/** What the page may do with files (app/attachments.ts). */
export interface FileDesk {
  limits(): { readonly fileBytes: number; readonly perMessage: number };
  /** `key`: made by the tab and kept over its retries. */
  take(upload: {
    chat: string;
    key: string;
    name: string;
    size: number | undefined;
    pieces: AsyncIterable<Uint8Array>;
  }): Promise<{ readonly file: Attachment } | { readonly refused: string }>;
  read(id: string): Promise<{ readonly file: Attachment; readonly bytes: Buffer } | null>;
  /** Takes an upload back that no message has. */
  discard(chat: string, id: string): Promise<boolean>;
}

export interface FilesApiOptions {
  readonly files: FileDesk;
  isChat(text: string): boolean;
}

/** At a time; each holds a connection and writes to the disk. */
const MAX_UPLOADS = 6;
const MAX_NAME = 1_000;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const NO_FILE = problem(404, "There is no such file, or it is no longer kept.");

export function createFilesRoutes({ files, isChat }: FilesApiOptions): Route[] {
  let underWay = 0;
  const upload = async (request: WebRequest): Promise<Reply> => {
    const { chat = "", key = "" } = request.params;
    const name = request.query.get("name") ?? "";
    if (!isChat(chat)) return problem(404, "There is no such chat.");
    if (!UUID.test(key) || name.length > MAX_NAME)
      return problem(400, "Send the file's bytes to …/files/<a lower-case uuid>?name=<its name>.");
    if (underWay >= MAX_UPLOADS) return problem(429, "Too many files at once. Try again in a moment.", { "retry-after": "2" });
    underWay += 1;
    try {
      const length = Number(request.headers["content-length"] ?? Number.NaN);
      const size = Number.isSafeInteger(length) ? length : undefined;
      const taken = await files.take({ chat, key, name, size, pieces: request.bytes() });
      return "refused" in taken ? problem(413, taken.refused) : json(200, { file: viewOf(taken.file) });
    } finally {
      underWay -= 1;
    }
  };
  return [
    { method: "GET", path: "/api/files", access: "token", handle: () => json(200, files.limits()) },
    { method: "POST", path: "/api/chats/:chat/files/:key", access: "token", body: "bytes", handle: upload },
    {
      method: "POST",
      path: "/api/chats/:chat/files/:id/remove",
      access: "token",
      async handle({ params: { chat = "", id = "" } }) {
        if (!isChat(chat) || !UUID.test(id)) return NO_FILE;
        return (await files.discard(chat, id)) ? json(200, { status: "ok" }) : NO_FILE;
      },
    },
    {
      method: "GET",
      path: "/api/files/:id",
      access: "token",
      async handle({ params: { id = "" } }) {
        const found = UUID.test(id) ? await files.read(id) : null;
        return found === null ? NO_FILE : { status: 200, download: { ...found, isInline: isPicture(found.file) } };
      },
    },
  ];
}

const viewOf = (file: Attachment) => {
  const { id, name, size } = file;
  return { id, name, size, isImage: isPicture(file) };
};
