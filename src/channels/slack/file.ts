// A file in Slack takes two steps, and only the second one shows anything: first the bytes go to an address of Slack's, then
// the file, known by its id, is shared in the thread. The id is recorded in between (`reserved`), so that after a lost answer
// or a killed process the thread itself tells whether this very file stands there: it appears once (DL4).
import type { WebClient } from "@slack/web-api";
import { errorText, isStorageError } from "../../core/errors.ts";
import type { SendRequest, SendResult } from "../../core/message.ts";
import { type ApiFailure, explainFailure } from "./api.ts";
import type { GivenUrls } from "./given-url.ts";

export interface FileSender {
  readonly client: WebClient;
  readonly givenUrls: GivenUrls;
}

export interface FilePost {
  readonly name: string;
  /** Null: it is gone. Throws when the disk refuses. */
  read(): Promise<Uint8Array<ArrayBuffer> | null>;
  /** What stands above it, escaped. */
  readonly comment: string;
  readonly place: { readonly channel_id: string } | { readonly channel_id: string; readonly thread_ts: string };
  /** What a failure means for the part. */
  toResult(failure: ApiFailure): SendResult;
}

/** The file is not there any more, or never was. */
const FILE_GONE = new Set(["file_not_found", "file_deleted"]);

/** The id of the file that was uploaded for this part; null: none was yet. */
export const uploadedId = ({ ref }: Pick<SendRequest, "ref">): string | null => (ref?.startsWith("F") === true ? ref : null);

/** The step that is due. Never throws. */
export async function sendFile(sender: FileSender, request: Pick<SendRequest, "ref">, post: FilePost): Promise<SendResult> {
  const id = uploadedId(request);
  if (id === null) return upload(sender, post);
  try {
    const { name, comment, place } = post;
    const words = comment === "" ? {} : { initial_comment: comment };
    await sender.client.files.completeUploadExternal({ files: [{ id, title: name }], ...words, ...place });
    return { status: "sent", ref: id };
  } catch (error) {
    const failure = explainFailure(error);
    return failure.kind === "refused" && FILE_GONE.has(failure.code) ? upload(sender, post) : post.toResult(failure);
  }
}

/** Nobody sees anything of it, so whatever gets lost is simply done again. */
async function upload({ client, givenUrls }: FileSender, { name, read, toResult }: FilePost): Promise<SendResult> {
  const orAgain = (failure: ApiFailure): SendResult =>
    failure.kind === "lost" ? { status: "retry", reason: failure.reason } : toResult(failure);
  try {
    const bytes = await read();
    if (bytes === null) return toResult({ kind: "refused", code: "file_gone", reason: "it is no longer kept" });
    const { upload_url: url, file_id: id } = await client.files.getUploadURLExternal({ filename: name, length: bytes.length });
    if (url === undefined || id === undefined) return { status: "retry", reason: "Slack named no address for the file" };
    const failure = await givenUrls.post(url, bytes);
    return failure === null ? { status: "reserved", ref: id } : orAgain(failure);
  } catch (error) {
    if (isStorageError(error)) return { status: "retry", reason: errorText(error) };
    return orAgain(explainFailure(error));
  }
}
