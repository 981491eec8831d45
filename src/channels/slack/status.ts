// The sign that a turn is at work. Slack has two ways, and an app may have either or none: agent sessions (with a native
// Stop, which comes back as an event) and the assistant's status line. The first refusal tells; then it isn't asked again.
import type { WebClient } from "@slack/web-api";
import { type Address, addressKey } from "../../core/address.ts";
import type { Clock } from "../../core/clock.ts";
import { explainFailure } from "./api.ts";

type Work = "working" | "idle";

export interface StatusLine {
  /** Best effort: rejects when Slack refuses, which matters to nobody. */
  show(client: WebClient, address: Address, work: Work): Promise<void>;
}

const WAYS = ["agent", "assistant", "none"] as const;
/** Slack clears a status by itself after two minutes. */
const REPEAT_MS = 45_000;
const MAX_SHOWN = 1_000;
/** Refusals that concern this one place, not the app. */
const PLACE = /channel|thread|archived|message|user/;

export function createStatusLine(clock: Clock): StatusLine {
  const shown = new Map<string, number>();
  let way = 0;
  return {
    async show(client, address, work) {
      const { chat, thread } = address;
      if (thread === undefined) return;
      const key = addressKey(address);
      if (!isNews(shown, key, work, clock.now())) return;
      while (WAYS[way] !== "none") {
        const asked = way;
        try {
          return await setStatus(client, WAYS[asked] === "agent", { channel_id: chat, thread_ts: thread }, work);
        } catch (error) {
          const failure = explainFailure(error);
          const code = failure.kind === "refused" ? failure.code : "";
          if ((failure.kind !== "refused" && failure.kind !== "auth") || PLACE.test(code)) throw error;
          // Another call may have found out meanwhile.
          if (way === asked) way++;
        }
      }
    },
  };
}

/** The gateway says "working" every few seconds; Slack need not hear it as often. */
function isNews(shown: Map<string, number>, key: string, work: Work, now: number): boolean {
  if (work === "idle") return shown.delete(key);
  const at = shown.get(key);
  if (at !== undefined && now - at < REPEAT_MS) return false;
  if (shown.size >= MAX_SHOWN) shown.clear();
  shown.set(key, now);
  return true;
}

async function setStatus(client: WebClient, isAgent: boolean, place: { channel_id: string; thread_ts: string }, work: Work): Promise<void> {
  if (isAgent) await client.agents.sessions.setStatus({ ...place, status: work === "working" ? "processing" : "active" });
  else await client.assistant.threads.setStatus({ ...place, status: work === "working" ? "is working…" : "" });
}
