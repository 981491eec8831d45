// Getting at what a person attached: getFile names a path, and the bytes lie below the bot's own address there. One attempt; the id of a
// file stays good, so whoever was killed asks again.
import type { Api } from "grammy/web";
import type { FetchedFile } from "../../core/attachment.ts";
import { askedWaitMs } from "../connecting.ts";
import { responseBytes } from "../response-bytes.ts";
import { asGrammySignal, explainFailure } from "./api.ts";

export interface FileServer {
  readonly api: Api;
  readonly apiRoot: string;
  readonly botToken: string;
  /** For the whole download. */
  readonly timeoutMs: number;
}

/** What Telegram names is part of an address with the token in it: letters, digits and single names, nothing that leads elsewhere. */
const PATH = /^(?:[\w-]+\/){0,5}[\w-]+(?:\.\w{1,10})?$/;

/** Never throws. */
export async function fetchFile(server: FileServer, fileId: string, signal: AbortSignal): Promise<FetchedFile> {
  const ended = AbortSignal.any([signal, AbortSignal.timeout(server.timeoutMs)]);
  try {
    const { file_path: path = "" } = await server.api.getFile(fileId, asGrammySignal(ended));
    if (!PATH.test(path)) return { status: "refused", reason: "Telegram named no place for it" };
    return await download(`${server.apiRoot.replace(/\/+$/, "")}/file/bot${server.botToken}/${path}`, ended);
  } catch (error) {
    const failure = explainFailure(error);
    if (failure.kind === "flood") return { status: "retry", afterMs: failure.afterMs, reason: failure.reason };
    if (failure.kind !== "refused") return { status: "retry", reason: failure.reason };
    if (/too big/i.test(failure.reason)) return { status: "refused", reason: "Telegram hands bots no file of more than 20 MB" };
    return { status: "refused", reason: `Telegram refused it (${failure.reason})` };
  }
}

async function download(url: string, signal: AbortSignal): Promise<FetchedFile> {
  const response = await fetch(url, { redirect: "error", signal });
  if (response.ok && response.body !== null) return { status: "open", pieces: responseBytes(response) };
  await response.body?.cancel();
  const reason = `Telegram answered with status ${response.status}`;
  return { status: "retry", afterMs: askedWaitMs(response.headers.get("retry-after")), reason };
}
