// Getting at what a person attached. Addresses of Discord's files are good for a day, and a message may wait longer for its turn: so the
// message is asked for first, which names fresh ones. They lie on Discord's own hosts, which need no token and get none.
import type { API } from "@discordjs/core/http-only";
import type { FetchedFile } from "../../core/attachment.ts";
import { askedWaitMs, explainRequestFailure } from "../connecting.ts";
import { responseBytes } from "../response-bytes.ts";
import { explainFailure } from "./api.ts";

export interface FileServer {
  readonly api: API;
  readonly apiUrl: string;
  /** For the whole download. */
  readonly timeoutMs: number;
}

const HOSTS: ReadonlySet<string> = new Set(["cdn.discordapp.com", "media.discordapp.net"]);
/** `channel/message/attachment`, as decode.ts names it. */
const SOURCE = /^(\d{1,20})\/(\d{1,20})\/(\d{1,20})$/;

/** Never throws. */
export async function fetchFile(server: FileServer, source: string, signal: AbortSignal): Promise<FetchedFile> {
  const [, channel = "", message = "", id = ""] = SOURCE.exec(source) ?? [];
  if (id === "") return { status: "refused", reason: "it is not Discord's" };
  const ended = AbortSignal.any([signal, AbortSignal.timeout(server.timeoutMs)]);
  try {
    const { attachments, message_snapshots } = await server.api.channels.getMessage(channel, message, { signal: ended });
    const all = [...attachments, ...(message_snapshots ?? []).flatMap((one) => one.message.attachments)];
    const url = all.find((one) => one.id === id)?.url;
    if (url === undefined) return { status: "refused", reason: "it is no longer there" };
    return isDiscords(url, server.apiUrl) ? await download(url, ended) : { status: "refused", reason: "its address is not Discord's" };
  } catch (error) {
    const failure = explainFailure(error);
    if (failure.kind === "limited") return { status: "retry", afterMs: failure.afterMs, reason: failure.reason };
    if (failure.kind === "refused") return { status: "refused", reason: "Discord does not hand it to this bot any more" };
    return { status: "retry", reason: failure.reason };
  }
}

function isDiscords(url: string, apiUrl: string): boolean {
  if (!URL.canParse(url)) return false;
  const { protocol, hostname, origin } = new URL(url);
  return origin === new URL(apiUrl).origin || (protocol === "https:" && HOSTS.has(hostname));
}

async function download(url: string, signal: AbortSignal): Promise<FetchedFile> {
  let response: Response;
  try {
    response = await fetch(url, { redirect: "error", signal });
  } catch (error) {
    return { status: "retry", reason: `Discord can't be reached (${explainRequestFailure(error).code})` };
  }
  if (response.status === 200 && response.body !== null) return { status: "open", pieces: responseBytes(response) };
  await response.body?.cancel();
  if (response.status === 404 || response.status === 410) return { status: "refused", reason: "it is no longer there" };
  return {
    status: "retry",
    afterMs: askedWaitMs(response.headers.get("retry-after")),
    reason: `Discord answered with status ${response.status}`,
  };
}
