// The address Slack gives along with a slash command: whoever has it may answer the person, also where the bot is no member.
// Good for half an hour and five answers, so it is the second way; the first is chat.postEphemeral (send.ts).
import { explainRequestFailure } from "../connecting.ts";
import type { ApiFailure } from "./api.ts";
import type { SlackPart } from "./render.ts";

export interface ResponseUrls {
  /** One attempt. Null: it was taken. Never throws. */
  post(url: string, message: Pick<SlackPart, "text" | "blocks">): Promise<ApiFailure | null>;
}

const HOOKS = ["https://hooks.slack.com", "https://hooks.slack-gov.com"];
const DEFAULT_LIMIT_MS = 30_000;

export function createResponseUrls(options: { apiUrl: string; timeoutMs: number; signal: AbortSignal }): ResponseUrls {
  // The payload is Slack's word, but text for a person must not go wherever a payload says.
  const known = [...HOOKS, new URL(options.apiUrl).origin];
  return {
    async post(url, { text, blocks }) {
      if (!URL.canParse(url) || !known.includes(new URL(url).origin)) {
        return { kind: "refused", code: "foreign_url", reason: "the command's response_url is not Slack's" };
      }
      try {
        const response = await fetch(url, {
          method: "POST",
          redirect: "error",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ response_type: "ephemeral", text, blocks }),
          signal: AbortSignal.any([AbortSignal.timeout(options.timeoutMs), options.signal]),
        });
        await response.body?.cancel();
        return explainStatus(response);
      } catch (error) {
        const { notSent, code } = explainRequestFailure(error);
        return notSent
          ? { kind: "offline", reason: `can't reach Slack (${code})` }
          : { kind: "lost", reason: `the answer was lost (${code})` };
      }
    },
  };
}

function explainStatus({ status, headers }: Response): ApiFailure | null {
  if (status === 200) return null;
  const reason = `response_url answered with status ${status}`;
  if (status === 429) return { kind: "limited", afterMs: Number(headers.get("retry-after")) * 1000 || DEFAULT_LIMIT_MS, reason };
  return status >= 500 ? { kind: "lost", reason } : { kind: "refused", code: `status_${status}`, reason };
}
