// Getting at what a person attached: its address names a server and an id, and our own homeserver hands the bytes to whoever is signed
// in there. One attempt; the address stays good, so whoever was killed asks again.
import type { FetchedFile } from "../../core/attachment.ts";
import { askedWaitMs, explainRequestFailure } from "../connecting.ts";
import { responseBytes } from "../response-bytes.ts";
import { SEALED } from "./event.ts";

export interface FileServer {
  readonly homeserver: string;
  readonly accessToken: string;
  /** For the whole download. */
  readonly timeoutMs: number;
}

/** Both are part of an address with the token beside it: single names, nothing that leads elsewhere. */
const ADDRESS = /^mxc:\/\/([A-Za-z0-9.:[\]-]{1,230})\/([A-Za-z0-9_~=-][A-Za-z0-9._~=-]{0,254})$/;

/** Never throws. */
export async function fetchFile(server: FileServer, address: string, signal: AbortSignal): Promise<FetchedFile> {
  if (address === SEALED) return { status: "refused", reason: "it is encrypted, and I can't read that" };
  const [, host, id] = ADDRESS.exec(address) ?? [];
  if (host === undefined || id === undefined) return { status: "refused", reason: "it has no address on a homeserver" };
  try {
    const path = `_matrix/client/v1/media/download/${encodeURIComponent(host)}/${encodeURIComponent(id)}`;
    const response = await fetch(`${server.homeserver}/${path}`, {
      headers: { authorization: `Bearer ${server.accessToken}` },
      // Some servers keep their files elsewhere; fetch takes the token to no other host.
      redirect: "follow",
      signal: AbortSignal.any([signal, AbortSignal.timeout(server.timeoutMs)]),
    });
    if (response.status === 200 && response.body !== null) return { status: "open", pieces: responseBytes(response) };
    await response.body?.cancel();
    return explainStatus(response);
  } catch (error) {
    return { status: "retry", reason: `the homeserver can't be reached (${explainRequestFailure(error).code})` };
  }
}

function explainStatus({ status, headers }: Response): FetchedFile {
  if (status === 404 || status === 410) return { status: "refused", reason: "it is no longer there" };
  if (status === 403) return { status: "refused", reason: "the homeserver does not hand it to the bot" };
  if (status === 413) return { status: "refused", reason: "it is too large for the homeserver" };
  return { status: "retry", afterMs: askedWaitMs(headers.get("retry-after")), reason: `the homeserver answered with status ${status}` };
}
