// A file in Matrix takes two steps, and only the second one shows anything: first the bytes go to the server, which gives them an
// address, then an event names that address. The address is recorded in between (`reserved`), so that bytes go once.
import type { Attachment } from "../../core/attachment.ts";
import { errorText, isStorageError } from "../../core/errors.ts";
import type { SendRequest, SendResult } from "../../core/message.ts";
import { type Api, type ApiFailure, explainFailure } from "./api.ts";
import type { Content, MatrixPart } from "./render.ts";

export interface FileSender {
  readonly api: Api;
  /** The bytes of a stored file; null: they are gone. Throws when the disk refuses. */
  readFile(id: string): Promise<Buffer | null>;
}

/** Of the largest file that is taken. */
const UPLOAD_MS = 5 * 60_000;

export const isFile = ({ file, attachment }: MatrixPart): boolean => file !== undefined || attachment !== undefined;

/** Where the bytes lie; null: they were not sent yet. */
export const uploadedTo = ({ ref }: Pick<SendRequest, "ref">): string | null => (ref?.startsWith("mxc://") === true ? ref : null);

/** Nobody sees anything of it, so whatever gets lost is simply done again. Never throws. */
export async function upload(
  { api, readFile }: FileSender,
  { file, attachment }: MatrixPart,
  toResult: (failure: ApiFailure) => SendResult,
): Promise<SendResult> {
  const orAgain = (failure: ApiFailure): SendResult =>
    failure.kind === "lost" ? { status: "retry", reason: failure.reason } : toResult(failure);
  try {
    const bytes = attachment === undefined ? Buffer.from(file?.content ?? "") : await readFile(attachment.id);
    if (bytes === null) return toResult({ kind: "refused", code: "file_gone", status: 0, reason: "it is no longer kept" });
    const { content_uri: uri } = await api.call("POST", ["_matrix", "media", "v3", "upload"], {
      query: { filename: attachment?.name ?? file?.name ?? "file" },
      body: { bytes: new Uint8Array(bytes), type: attachment?.type ?? "text/markdown" },
      timeoutMs: UPLOAD_MS,
    });
    if (typeof uri === "string" && uri.startsWith("mxc://")) return { status: "reserved", ref: uri };
    return { status: "retry", reason: "the server named no address for the file" };
  } catch (error) {
    if (isStorageError(error)) return { status: "retry", reason: errorText(error) };
    return orAgain(explainFailure(error));
  }
}

/** What stands in place of plain words. */
export function fileContent({ file, attachment, body }: MatrixPart, url: string, words: Content): Content {
  const name = attachment?.name ?? file?.name ?? "file";
  const {
    width: w,
    height: h,
    type = "text/markdown",
    size = Buffer.byteLength(file?.content ?? ""),
  }: Partial<Attachment> = attachment ?? {};
  const sizes = w === undefined || h === undefined ? {} : { w, h };
  const { format: _format, formatted_body: html, ...rest } = words;
  return {
    ...rest,
    ...{ msgtype: kindOf(type), url, filename: name, info: { mimetype: type, size, ...sizes } },
    ...(body === "" ? { body: name } : { body: words.body, ...(html === undefined ? {} : { format: words.format, formatted_body: html }) }),
  };
}

function kindOf(type: string): string {
  const [family = ""] = type.split("/");
  return family === "image" && type !== "image/svg+xml" ? "m.image" : family === "audio" || family === "video" ? `m.${family}` : "m.file";
}
