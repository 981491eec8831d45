// Is this a bot, and would we get its messages? Asked by set-up before a token is kept.
import { createApi, explainFailure } from "./api.ts";

export interface TelegramProbe {
  readonly botToken: string;
  readonly apiRoot: string;
  readonly timeoutMs: number;
  /** We receive for this bot already: asking as well would take its messages from ourselves. */
  isOurs(botId: string): boolean;
}

export type TelegramFound =
  | { readonly isOk: true; readonly username: string; readonly name: string; readonly remark: string | null }
  | { readonly isOk: false; readonly problem: string; readonly isToken: boolean };

/** Long enough for another program to ask again and end our question: that is how it shows. */
const CONFLICT_SECONDS = 3;

/** Never throws. */
export async function probeTelegram({ botToken, apiRoot, timeoutMs, isOurs }: TelegramProbe): Promise<TelegramFound> {
  if (!/^\d{1,20}:[\w-]{10,}$/.test(botToken))
    return {
      isOk: false,
      isToken: true,
      problem: "This is not a bot token: it looks like 123456:ABC-DEF… and @BotFather gives it to you.",
    };
  const api = createApi({ botToken, apiRoot, timeoutMs });
  try {
    const me = await api.getMe();
    const found = { isOk: true as const, username: me.username, name: me.first_name };
    if (isOurs(String(me.id))) return { ...found, remark: null };
    try {
      await api.getUpdates({ timeout: CONFLICT_SECONDS, limit: 1 });
      return { ...found, remark: null };
    } catch (error) {
      const failure = explainFailure(error);
      if (failure.kind !== "conflict") throw error;
      // Herald takes a webhook away when it begins to poll, and whoever set it would wonder.
      if (/webhook/i.test(failure.reason))
        return {
          ...found,
          remark: "A webhook is set for this bot: if another program uses it, that one gets no messages any more once Herald has started.",
        };
      return {
        isOk: false,
        isToken: true,
        problem: "Another program is already receiving this bot's messages. Stop it, or make a bot of its own for Herald with @BotFather.",
      };
    }
  } catch (error) {
    return { isOk: false, ...inWords(explainFailure(error), apiRoot) };
  }
}

function inWords(failure: ReturnType<typeof explainFailure>, apiRoot: string): { problem: string; isToken: boolean } {
  const host = URL.parse(apiRoot)?.host ?? apiRoot;
  switch (failure.kind) {
    case "auth":
      return {
        isToken: true,
        problem: "Telegram does not know this token. Copy it again from @BotFather; an old one ends when a new one is made.",
      };
    case "flood":
      return { isToken: false, problem: `Telegram wants us to wait for ${Math.ceil(failure.afterMs / 1000)} seconds. Try again then.` };
    case "offline":
      return { isToken: false, problem: `${host} can't be reached from here: check the network (${failure.reason}).` };
    default:
      return { isToken: false, problem: `${host} did not answer as Telegram does (${failure.reason}).` };
  }
}
