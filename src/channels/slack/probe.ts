// Do these tokens open the workspace, with every right the app needs? Asked by set-up before they are kept.
import type { Logger } from "../../core/logger.ts";
import { createClient, explainFailure } from "./api.ts";

export interface SlackProbe {
  readonly botToken: string;
  /** Null in http mode: nothing is connected then. */
  readonly appToken: string | null;
  readonly apiUrl: string;
  readonly timeoutMs: number;
  readonly log: Logger;
}

export type SlackFound =
  | { readonly isOk: true; readonly team: string; readonly bot: string }
  | { readonly isOk: false; readonly problem: string; readonly token: "bot" | "app" | null };

/** As config/slack-manifest.yaml asks for them. */
export const SLACK_SCOPES: readonly string[] = [
  ...["app_mentions:read", "assistant:write", "channels:history", "channels:read", "chat:write", "commands", "files:read", "files:write"],
  ...["groups:history", "groups:read", "im:history", "im:read", "im:write", "mpim:history", "mpim:read", "reactions:write", "users:read"],
];

/** Never throws. */
export async function probeSlack({ botToken, appToken, apiUrl, timeoutMs, log }: SlackProbe): Promise<SlackFound> {
  const signal = AbortSignal.timeout(timeoutMs);
  const ask = (token: string) => createClient(token, { apiUrl, timeoutMs, log, signal });
  let who: Awaited<ReturnType<ReturnType<typeof ask>["auth"]["test"]>>;
  try {
    who = await ask(botToken).auth.test();
  } catch (error) {
    return refused(explainFailure(error), "bot", apiUrl);
  }
  const granted = who.response_metadata?.scopes;
  const missing = granted === undefined ? [] : SLACK_SCOPES.filter((scope) => !granted.includes(scope));
  if (missing.length > 0)
    return {
      isOk: false,
      token: "bot",
      problem: `The bot token lacks ${missing.join(", ")}. Add them under OAuth & Permissions (or take the manifest), then install the app again.`,
    };
  if (appToken === null) return { isOk: true, team: who.team ?? "", bot: who.user ?? "" };
  try {
    await ask(appToken).apps.connections.open({});
  } catch (error) {
    return refused(explainFailure(error), "app", apiUrl);
  }
  return { isOk: true, team: who.team ?? "", bot: who.user ?? "" };
}

function refused(failure: ReturnType<typeof explainFailure>, token: "bot" | "app", apiUrl: string): SlackFound {
  const host = URL.parse(apiUrl)?.host ?? apiUrl;
  const [name, page] =
    token === "bot" ? ["bot token (xoxb-…)", "OAuth & Permissions"] : ["app-level token (xapp-…)", "Basic Information, App-Level Tokens"];
  const scope = /missing_scope ?([\w:,]*)/.exec(failure.reason);
  switch (failure.kind) {
    case "auth":
      if (scope !== null)
        return {
          isOk: false,
          token,
          problem: `The ${name} lacks a right: ${scope[1] || (token === "app" ? "connections:write" : "see the manifest")}. Make it again with that right.`,
        };
      return {
        isOk: false,
        token,
        problem: `Slack refuses the ${name}: ${failure.reason.replace(/: check .*$/, "")}. Copy it again from ${page}.`,
      };
    case "limited":
      return { isOk: false, token: null, problem: "Slack wants us to wait. Try again in half a minute." };
    case "offline":
      return { isOk: false, token: null, problem: `${host} can't be reached from here: check the network (${failure.reason}).` };
    default:
      return {
        isOk: false,
        token: failure.kind === "refused" ? token : null,
        problem: `Slack did not take the ${name} (${failure.reason}).`,
      };
  }
}
