// Getting at what a person attached: the address in the event, with the bot's token. It goes to Slack's own hosts and nowhere else,
// and no redirect is followed: one leads to a sign-in page, which is what an app without files:read gets.
import type { FetchedFile } from "../../core/attachment.ts";
import { askedWaitMs, explainRequestFailure } from "../connecting.ts";
import { responseBytes } from "../response-bytes.ts";
import { isSlacks } from "./given-url.ts";

export interface FileServer {
  readonly apiUrl: string;
  readonly botToken: string;
  /** For the whole download. */
  readonly timeoutMs: number;
}

/** Never throws. */
export async function fetchFile({ apiUrl, botToken, timeoutMs }: FileServer, url: string, signal: AbortSignal): Promise<FetchedFile> {
  if (!isSlacks(url, new URL(apiUrl).origin)) return { status: "refused", reason: "its address is not Slack's" };
  try {
    const response = await fetch(url, {
      headers: { authorization: `Bearer ${botToken}` },
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    });
    if (response.status === 200 && response.body !== null) return { status: "open", pieces: responseBytes(response) };
    await response.body?.cancel();
    return explainStatus(response);
  } catch (error) {
    return { status: "retry", reason: `Slack can't be reached (${explainRequestFailure(error).code})` };
  }
}

function explainStatus({ status, headers }: Response): FetchedFile {
  if ((status >= 300 && status < 400) || status === 401 || status === 403)
    return { status: "refused", reason: "Slack does not hand it to this app, which may lack the scope files:read" };
  if (status === 404 || status === 410) return { status: "refused", reason: "it is no longer there" };
  return { status: "retry", afterMs: askedWaitMs(headers.get("retry-after")), reason: `Slack answered with status ${status}` };
}
