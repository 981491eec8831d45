// Is this a bot, and would we get its messages? Asked by set-up before a token is kept.
import { createApi, explainFailure } from "./api.ts";
import { botIdOf } from "./channel.ts";

export interface DiscordProbe {
  readonly botToken: string;
  readonly apiUrl: string;
  readonly timeoutMs: number;
}

export type DiscordFound =
  | { readonly isOk: true; readonly name: string; readonly inviteUrl: string }
  | { readonly isOk: false; readonly problem: string; readonly isToken: boolean };

/** The application may read what people write, as a small bot and as a checked one. */
const READS_MESSAGES = (1 << 18) | (1 << 19);
/** To see channels, send and send in threads, embed, attach, read what was said, react. */
const RIGHTS = (1n << 10n) | (1n << 11n) | (1n << 38n) | (1n << 14n) | (1n << 15n) | (1n << 16n) | (1n << 6n);

/** Never throws. */
export async function probeDiscord({ botToken, apiUrl, timeoutMs }: DiscordProbe): Promise<DiscordFound> {
  if (botIdOf(botToken) === null)
    return {
      isOk: false,
      isToken: true,
      problem: "This is not a bot token: it has three parts with dots between, and Bot → Reset Token shows it once.",
    };
  const api = createApi({ botToken, apiUrl, timeoutMs, signal: AbortSignal.timeout(timeoutMs) });
  try {
    const { id, name, flags } = await api.applications.getCurrent();
    if (((flags ?? 0) & READS_MESSAGES) === 0)
      return {
        isOk: false,
        isToken: false,
        problem:
          "The Message Content intent of this bot is off, so it would not see what people write. Turn it on under Bot → Privileged Gateway Intents, then try again.",
      };
    return { isOk: true, name, inviteUrl: inviteUrl(id) };
  } catch (error) {
    return { isOk: false, ...inWords(explainFailure(error), apiUrl) };
  }
}

const inviteUrl = (appId: string): string =>
  `https://discord.com/oauth2/authorize?client_id=${appId}&scope=bot+applications.commands&permissions=${RIGHTS}`;

function inWords(failure: ReturnType<typeof explainFailure>, apiUrl: string): { problem: string; isToken: boolean } {
  const host = URL.parse(apiUrl)?.host ?? apiUrl;
  switch (failure.kind) {
    case "auth":
      return {
        isToken: true,
        problem: "Discord does not know this token. Make a new one under Bot → Reset Token; an old one ends when a new one is made.",
      };
    case "limited":
      return { isToken: false, problem: `Discord wants us to wait for ${Math.ceil(failure.afterMs / 1000)} seconds. Try again then.` };
    case "offline":
      return { isToken: false, problem: `${host} can't be reached from here: check the network (${failure.reason}).` };
    default:
      return { isToken: false, problem: `${host} did not answer as Discord does (${failure.reason}).` };
  }
}
