// Addresses that Slack hands out for one purpose: where a slash command may be answered (good for half an hour and five
// answers), where a file's bytes go. Whoever has one needs no token, so none is sent there.
import { askedWaitMs, withBytesMs } from "../connecting.ts";
import { explainSilence } from "../failure.ts";
import type { ApiFailure } from "./api.ts";

export interface GivenUrls {
  /** One POST. Null: it was taken. Never throws. */
  post(url: string, body: string | Uint8Array<ArrayBuffer>): Promise<ApiFailure | null>;
}

const DEFAULT_LIMIT_MS = 30_000;

export function createGivenUrls(options: { apiUrl: string; timeoutMs: number; signal: AbortSignal }): GivenUrls {
  const { origin } = new URL(options.apiUrl);
  return {
    async post(url, body) {
      // They come in payloads and answers. What we have to say must not go wherever one of those says.
      if (!isSlacks(url, origin)) return { kind: "refused", code: "foreign_url", reason: "the address is not Slack's" };
      try {
        const response = await fetch(url, {
          method: "POST",
          redirect: "error",
          headers: { "content-type": typeof body === "string" ? "application/json" : "application/octet-stream" },
          body,
          signal: AbortSignal.any([AbortSignal.timeout(withBytesMs(options.timeoutMs, body.length)), options.signal]),
        });
        await response.body?.cancel();
        return explainStatus(response);
      } catch (error) {
        return explainSilence(error, "Slack");
      }
    },
  };
}

export function isSlacks(url: string, apiOrigin: string): boolean {
  if (!URL.canParse(url)) return false;
  const { protocol, hostname, origin } = new URL(url);
  return origin === apiOrigin || (protocol === "https:" && /\.slack(?:-gov)?\.com$/.test(hostname));
}

function explainStatus({ status, headers }: Response): ApiFailure | null {
  if (status === 200) return null;
  const reason = `Slack answered with status ${status}`;
  if (status === 429) return { kind: "limited", afterMs: askedWaitMs(headers.get("retry-after")) || DEFAULT_LIMIT_MS, reason };
  return status >= 500 ? { kind: "lost", reason } : { kind: "refused", code: `status_${status}`, reason };
}
